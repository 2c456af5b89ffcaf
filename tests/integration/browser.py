"""A real browser without a window, driven through the DevTools protocol: enough to open a page, act and look.

Debian's ``chromium`` or any Chrome; ``websockets`` carries the protocol. What a page logged, asked for or was
refused is kept, so that a test can say that it was nothing.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Seconds within which the browser must answer; a busy machine is no failure.
_PATIENCE = 120.0


def find_browser() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@dataclass
class Tab:
    """One page, and everything that it complained about.

    Attributes
    ----------
    complaints
        Exceptions, errors and warnings of the console, violations of its policy.
    opened, requests
        Addresses that the test opened, and all that were asked for.
    """

    socket: Any
    complaints: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; what happens meanwhile is kept."""
        self._number += 1
        self.socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=_PATIENCE))
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self._keep(message)

    def wait_for(self, event: str) -> None:
        """Wait until the page tells of an event that has not been waited for."""
        while True:
            for at, message in enumerate(self._events):
                if message["method"] == event:
                    del self._events[: at + 1]
                    return
            self._keep(json.loads(self.socket.recv(timeout=_PATIENCE)))

    def _keep(self, message: dict[str, Any]) -> None:
        method, told = message["method"], message["params"]
        self._events.append(message)
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])

    def open(self, path: Path) -> None:
        self._events.clear()
        self.opened.append(path.resolve().as_uri())
        self.call("Page.navigate", url=self.opened[-1])
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value; an exception of it fails."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"].get("exception", {}).get("description", script))
        return done["result"].get("value")

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of an element, as a user would; fails where something covers it."""
        box = self.run(
            f"""(() => {{
                const found = document.querySelector({json.dumps(selector)});
                found.scrollIntoView({{ block: "center", behavior: "instant" }});
                const box = found.getBoundingClientRect();
                const x = box.left + box.width / 2, y = box.top + box.height / 2;
                const hit = document.elementFromPoint(x, y);
                return [x, y, found.contains(hit) || hit?.contains(found)];
            }})()"""
        )
        assert box[2], f"{selector} is covered"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key by its name (``ArrowDown``, ``Enter``, ``Tab``)."""
        arrows = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        codes = {"Enter": 13, "Tab": 9, " ": 32, **arrows}
        known: dict[str, Any] = {"key": key, "code": "Space" if key == " " else key}
        if key in codes:
            known["windowsVirtualKeyCode"] = codes[key]
        if key in ("Enter", " "):
            known["text"] = "\r" if key == "Enter" else " "
        self.call("Input.dispatchKeyEvent", type="keyDown", **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=known["code"])

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def theme(self, name: str) -> None:
        # Without motion: what is clicked stays where it was found.
        wanted = {"prefers-color-scheme": name, "prefers-reduced-motion": "reduce"}
        features = [{"name": feature, "value": value} for feature, value in wanted.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a PNG of the whole page, or of what the window shows of it."""
        wanted: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            wanted = {"captureBeyondViewport": True, "clip": clip}
        shot = self.call("Page.captureScreenshot", **wanted)
        path.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """A running browser with a profile of its own, which is thrown away with it."""

    def __init__(self, program: str) -> None:
        self._directory = tempfile.mkdtemp(prefix="profkit-browser-")
        self._process = subprocess.Popen(
            [
                program,
                "--headless=new",
                # Its own sandbox needs privileges that containers and root do not have.
                *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--disable-background-networking", "--hide-scrollbars", "--remote-debugging-port=0"),
                f"--user-data-dir={self._directory}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._directory},
        )

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _port(self) -> int:
        """Wait until the browser has written where it listens."""
        told = Path(self._directory) / "DevToolsActivePort"
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            assert self._process.poll() is None, f"the browser ended with {self._process.returncode}"
            if told.is_file() and (lines := told.read_text().splitlines()):
                return int(lines[0])
            time.sleep(0.05)
        raise AssertionError("the browser did not start")

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """Open an empty page."""
        from urllib.request import Request, urlopen

        from websockets.sync.client import connect

        request = Request(f"http://127.0.0.1:{self._port()}/json/new?about:blank", method="PUT")
        with urlopen(request, timeout=_PATIENCE) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        with connect(address, max_size=None, open_timeout=_PATIENCE) as socket:
            tab = Tab(socket)
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.call(f"{domain}.enable")
            tab.theme("light")
            yield tab


@contextmanager
def open_browser() -> Iterator[Browser]:
    with closing(Browser(str(find_browser()))) as browser:
        yield browser
