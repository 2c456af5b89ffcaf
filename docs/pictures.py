"""Take the pictures of the README again: ``python docs/pictures.py`` writes docs/terminal.svg and docs/report.png.

Both show the comparison of two sample runs: one as a terminal of 100 columns prints it, one as the top of the page
that a browser opens. profkit runs for it as a user would run it. It needs Linux or macOS and profkit's own
environment; for the page also Chromium or Chrome and ``websockets``, which the extra ``test`` brings, and the fonts
of the page are those of this machine. Look at both before committing them.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
TERMINAL, PAGE = ROOT / "docs" / "terminal.svg", ROOT / "docs" / "report.png"

SIDES = ("sample_profiles/train_mlp/clean-1.prof", "sample_profiles/train_mlp/oversubscribed.prof")
LIMIT = ("--limit", "6")
#: Columns of the terminal, and lines: so many that the report ends above the window's end and repeats nothing.
COLUMNS, LINES = 100, 1000
#: Of the browser's window, in pixels.
WIDTH, HEIGHT = 1240, 900
#: A page of flat colours needs no more; smoothed letters are between few of them.
MOST_COLORS = 64

Bytes = npt.NDArray[np.uint8]


def command(*options: str) -> list[str]:
    """The comparison as this checkout makes it."""
    return [sys.executable, "-m", "profkit", "diff", *SIDES, "--full", *options]


# The terminal


def terminal() -> str:
    """Draw what a terminal shows, as SVG without the address of any host."""
    from rich.console import Console
    from rich.text import Text

    typed = " ".join(("$ profkit diff", *SIDES, "--full", *LIMIT))
    shown = Text.from_ansi(f"{typed}\n{in_terminal(command(*LIMIT))}")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(shown)
    svg = console.export_svg(title="profkit")
    # rich names the place of its font and itself; and it draws the end of every line.
    for left_out in (r"<!--.*?-->\n*", r"@font-face \{.*?\}\s*", r"<text [^>]*>\n</text>"):
        svg = re.sub(left_out, "", svg, flags=re.DOTALL)
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    addresses = set(re.findall(r"\w+://[^\s\"')]+", svg))
    assert addresses == {"http://www.w3.org/2000/svg"}, addresses
    return svg


def in_terminal(words: list[str]) -> str:
    """Run a command in a terminal of its own, and return what it wrote there, colours included."""
    import fcntl
    import pty
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    hiding = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM")
    environment = {name: value for name, value in os.environ.items() if name not in hiding}
    environment.update(TERM="xterm-256color", PYTHONIOENCODING="utf-8")
    process = subprocess.Popen(words, cwd=ROOT, env=environment, stdin=its, stdout=its, stderr=its)
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:  # what Linux says at the end, when nobody has the other side open
        pass
    finally:
        os.close(ours)
    if process.wait():
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return written.decode("utf-8").replace("\r\n", "\n")


# The page


def page() -> bytes:
    """Picture the top of the page, as a PNG of few colours."""
    sys.path.insert(0, str(ROOT))
    from tests.integration.browser import find_browser, open_browser

    if find_browser() is None:
        raise SystemExit("no browser found: install chromium")
    with tempfile.TemporaryDirectory() as directory:
        report, shot = Path(directory) / "report.html", Path(directory) / "shot.png"
        subprocess.run(command("-o", str(report)), cwd=ROOT, check=True)
        with open_browser() as browser, browser.tab() as tab:
            tab.resize(WIDTH, HEIGHT)
            tab.open(report)
            tab.screenshot(shot, whole=False)
        pixels = png_pixels(shot.read_bytes())
    return png_of(*few_colors(pixels, MOST_COLORS))


def few_colors(pixels: Bytes, most: int) -> tuple[Bytes, Bytes]:
    """Choose colours by cutting the box of all in two at the median, again and again.

    Parameters
    ----------
    pixels
        Shape (height, width, 3).
    most
        How many colours.

    Returns
    -------
    tuple of arrays
        Number of each pixel's colour, shape (height, width), and the colours, shape (up to `most`, 3).
    """
    colors, of_pixel, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    wide, boxes = colors.astype(np.int64), [np.arange(len(colors))]

    def spread(box: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        # Rare colours count little: they are the edges of letters.
        return np.ptp(wide[box], axis=0) ** 2 * int(np.sqrt(counts[box].sum()))

    while len(boxes) < most:
        box = boxes.pop(max(range(len(boxes)), key=lambda i: int(spread(boxes[i]).max())))
        if len(box) == 1:
            boxes.append(box)
            break
        box = box[np.argsort(wide[box, int(spread(box).argmax())], kind="stable")]
        below = np.cumsum(counts[box])
        cut = min(max(1, int(np.searchsorted(below, below[-1] / 2))), len(box) - 1)
        boxes += [box[:cut], box[cut:]]
    number = np.empty(len(colors), np.uint8)
    palette = np.empty((len(boxes), 3), np.uint8)
    for i, box in enumerate(boxes):
        number[box] = i
        # The commonest one of a box and not their mean: a background keeps its colour.
        palette[i] = colors[box[counts[box].argmax()]]
    return number[of_pixel.reshape(-1)].reshape(pixels.shape[:2]), palette


def png_pixels(data: bytes) -> Bytes:
    """Read a PNG as browsers write them: 8 bits a channel, colours with or without transparency, not interlaced."""
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += 12 + length
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8, depth
    assert not interlaced
    channels = {2: 3, 6: 4}[color]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros(
        (height + 1, width + 1, channels), np.uint8
    )  # a row above and a column before the first
    for y, line in enumerate(lines, 1):
        values = line[1:].reshape(width, channels)
        if line[0] == 0:
            pixels[y, 1:] = values
        elif line[0] == 1:
            pixels[y, 1:] = np.cumsum(values, axis=0, dtype=np.uint8)
        elif line[0] == 2:
            pixels[y, 1:] = pixels[y - 1, 1:] + values
        else:
            unfilter(pixels, y, values, paeth=line[0] == 4)
    return pixels[1:, 1:, :3]


def unfilter(pixels: Bytes, y: int, values: Bytes, *, paeth: bool) -> None:
    """Undo the two filters in which a pixel depends on the one before and the one above."""
    above = pixels[y - 1].astype(int).tolist()
    before = [0] * len(above[0])
    for x, added in enumerate(values.tolist(), 1):
        for c, value in enumerate(added):
            left, up, corner = before[c], above[x][c], above[x - 1][c]
            if paeth:
                guess = left + up - corner
                near = min(
                    (abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner)
                )
                before[c] = (value + near[2]) & 255
            else:
                before[c] = (value + (left + up) // 2) & 255
        pixels[y, x] = before


def png_of(numbers: Bytes, palette: Bytes) -> bytes:
    """Write a PNG with a palette."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = numbers.shape
    lines = np.insert(numbers, 0, 0, axis=1).tobytes()  # each line starts with its filter: none
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", palette.tobytes()),
            chunk(b"IDAT", zlib.compress(lines, 9)),
            chunk(b"IEND", b""),
        )
    )


if __name__ == "__main__":
    TERMINAL.write_text(terminal(), encoding="utf-8")
    PAGE.write_bytes(page())
    for written in (TERMINAL, PAGE):
        print(f"wrote {written.relative_to(ROOT)}, {written.stat().st_size / 1e3:.0f} kB")
