"""Nothing that was planted is in any output, and nothing harmless is missing.

One pair of runs holds some three thousand planted texts (`tests.planted`): every form in every place of a command,
and in every other string that a run file has room for. Every format of every command is searched for each.
"""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.formats import load_run, write_run
from profkit.model import Host, Manifest, Notice, Pool, Process, Profile, Roots, Run, Series, Thread
from profkit.report.placeholders import Pseudonyms
from profkit.report.renderers import RENDERERS
from tests import builders
from tests import report_builders as build
from tests.planted import FORMED, FORMS, IN_NAMES, Plant, plants
from tests.shared import Capture, exit_code, refused, words_of

SECRET_OPTIONS = ("--password", "--pw", "--creds", "--key", "--tokens", "--proxy-user")
SECRET_NAMES = ("PGPASSWORD", "--dbPassword", "API_KEY", "--auth")
#: Every place of a command that a text can stand in, by the words that it becomes.
PLACES = {
    "value": lambda text, at: [f"--option-{at}={text}"],
    "next": lambda text, at: [f"--option-{at}", text],
    "alone": lambda text, at: [text],
    "attached": lambda text, at: [f"-{'pPuwDI'[at % 6]}{text}"],
    "assigned": lambda text, at: [f"SETTING_{at % 10}={text}"],
    "configured": lambda text, at: [f"+trainer.option_{at % 10}={text}"],
    "quoted": lambda text, at: [f"--cfg={json.dumps({'key': text, 'n': at})}"],
    "header": lambda text, at: ["-H", f"X-Key: {text}"],
    "secret": lambda text, at: [SECRET_OPTIONS[at % 6], text],
    "secret-value": lambda text, at: [f"{SECRET_NAMES[at % 4]}={text}"],
}

#: What must be readable in the masked report: of commands, of functions and ranges, and of all else.
HARMLESS_WORDS = tuple(
    words_of(
        "mpirun -np 4 --bind-to core --map-by slot:PE=2 -x OMP_NUM_THREADS=8 "
        "python3.11 -m torch.distributed.run --nproc_per_node=4 --rdzv-backend "
        "c10d train.py fit --batch-size 64 --workers 8 --lr=3e-4 --betas "
        "0.9,0.999 --epochs=90 --optimizer adamw --dtype bf16 --device cuda:0 "
        "--backend nccl --shape 3x224x224 --no-shuffle --amp --seed 1234567 "
        "--warmup=0.1 trainer.max_epochs=3 --format json --loss cross-entropy "
        "--compile max-autotune --max-tokens 512 --pin-memory true -j8 "
        "--scheduler=cosine --log-level INFO --time 01:30:00 --mem=16G "
        "data/train.csv /usr/bin/env --start-method forkserver"
    )
)
HARMLESS_NAMES = tuple(
    words_of(
        "step 3|forward@train|epoch 1/90|load batch|aten::conv2d|Trainer.step|<lambda>|<listcomp>|"
        "Optimizer.step#AdamW.step|_ZN2at6native29vectorized_elementwise_kernelILi4EEE|MainThread|"
        "Thread-1 (run)|aten::key::add|c10::add|std::pair<int, int>|step 3: 0.25 s|max_tokens=512|key: value|"
        "train.py:29500|numpy.linalg.solve:1204|cache key: layernorm|QueueFeederThread|pin_memory|"
        "TransformerEncoderLayer2|model.layers.0.attn|backward (2/3)|openblas|2.13.0+cpu|"
        "AMD EPYC 7763 64-Core Processor|Linux 6.1.0-18-amd64|3.11.7|numpy|<project>/train.py|"
        "<project>/model/blocks.py|<site>/numpy/linalg/_linalg.py|<stdlib>/json/decoder.py|"
        "No space left on device|[Errno 28]|host-a|0123456789abcdef0123456789abcdef01234567",
        "|",
    )
)
#: Names of a customer, one in each place that a program's names come from, which ``--mask-names`` masks.
NAMES = tuple(words_of("globexscorer initechnet umbrellafeed hoolidriver vandelayrank wonkaext starkloader"))
PSEUDONYM = re.compile(r"\bn_[0-9a-f]{10}\b")
#: Forms that names of functions, ranges and threads have.
NAMED = FORMED | IN_NAMES
#: Paths of two runs, and what was planted in them, by where that is.
Planted = tuple[list[Path], list[tuple[str, Plant]]]


def planted_run(side: int) -> tuple[Run, list[tuple[str, Plant]]]:
    """Build a run with plants in all its strings, and say where each is."""
    first = 5000 * side
    everything: list[tuple[str, Plant]] = []

    def some(where: str, *chosen: str) -> list[str]:
        """Plant texts of these forms, or of all that a command or a notice can have."""
        nonlocal first
        made = list(plants({form: NAMED.get(form) or FORMS[form] for form in chosen or FORMS}, first))
        first += len(made)
        everything.extend((where, plant) for plant in made)
        return [plant.text for plant in made]

    lines = [
        ("python", "train.py", *(word for at, text in enumerate(some(place)) for word in words(text, at)))
        for place, words in PLACES.items()
    ]
    notes = [Notice("agent-failed", f"could not use {text} here") for text in some("notice")]
    notes += [Notice("record-unreadable", "x", {"problem": f"OSError: {text}"}) for text in some("number")]
    notes += [Notice("of-a-later-version", text, {text: 1}) for text in some("later")]
    places = ("function", "module", "range", "thread")
    names, modules, told, threads = (some(place, *NAMED) for place in places)
    # Paths whose directories are a user's or a customer's.
    places = some("file", "home", "scratch", "data", "windows-home")
    site = "/opt/venv/lib/python3.11/site-packages"
    rows = [
        ("/data/qzbproject/job/train.py", "train_step", 10, 100, 1.0 + side, 9.0),
        ("/data/qzbproject/job/model/blocks.py", "TransformerEncoderLayer2", 20, 100, 2.0, 2.0),
        ("/data/qzbproject/job/hoolidriver.py", "main", 30, 1, 0.1, 9.0),
        ("/data/qzbproject/job/initechnet/model.py", "globexscorer.forward", 40, 100, 3.0 + 2 * side, 4.0),
        (f"{site}/numpy/linalg/_linalg.py", "solve", 30, 10, 1.5, 1.5),
        ("/opt/python/lib/python3.11/json/decoder.py", "JSONDecoder.raw_decode", 332, 10, 0.5, 0.5),
        ("~", "<built-in method wonkaext.run>", 0, 10, 0.4, 0.4),
        ("~", "<method 'append' of 'list' objects>", 0, 10, 0.2, 0.2),
        *((f"{place}/mod{at}.py", f"outside{at}", 5, 10, 0.1, 0.1) for at, place in enumerate(places)),
        *(("/data/qzbproject/job/train.py", name, 100 + at, 1, 0.01, 0.01) for at, name in enumerate(names)),
    ]
    called = [(0, 3, 100, 3.0 + 2 * side), (3, 4, 10, 1.5), (0, 5, 10, 0.5)]
    profile = build.profile(rows, traced=True, edges=called)
    strings = (*profile.strings, *modules, "data.qzbproject.job.train", "nobody names qzbunused")
    column = np.resize(np.arange(len(profile.strings), len(strings) - 1), len(rows)).astype(np.int32)
    column[profile.line == 0] = 0  # native functions are in none
    profile = replace(profile, strings=strings, module=column)
    named = enumerate([*HARMLESS_NAMES[:26], "umbrellafeed 3", *told])
    ranges = builders.ranges([builders.Told(name, 10 * at, 10 * at + 5) for at, name in named])
    hosts = some("host", "word", "host", "ipv4")
    (flag,) = some("environment", "word")
    environment = {"OMP_NUM_THREADS": "8", "SECRET": flag, "XLA_FLAGS": f"--xla_dump_to=/x/{flag} --n=3"}
    host = Host(hosts[0], "Linux 6.1.0-18-amd64", "AMD EPYC 7763 64-Core Processor", 8, 8)
    # The command of the run itself is compared: one plant is where the sides differ.
    (cwd, origin, version, remote, job, own) = (
        *(*some("cwd", "scratch"), *some("package", "url"), *some("version", "word")),
        *(*some("remote", "git-remote"), *some("job", "word"), *some("own", "word")),
    )
    command = (*HARMLESS_WORDS, "--model", own)
    manifest = Manifest(
        *("profkit.run/2", "0.1.0", command, cwd, 0, "2026-01-01T00:00:00Z", 9.0 + side),
        host=host,
        environment=environment,
        packages={"numpy": "2.4.6", "acme": f"0.1 @ {origin}", "other": f"1.0+{version}"},
        git={"revision": "0123456789abcdef0123456789abcdef01234567", "dirty": True, "remote": remote},
        job={"id": job, "rank": 0, "world_size": 1},
        sampler={"period_s": 0.1, "samples": 3, "cpu_s": 0.1, "notes": tuple(notes[:20])},
    )
    helpers = enumerate(["vandelayrank", *threads], 5000)
    main_process = Process(
        *(4242, 1, "main", None, HARMLESS_WORDS, "exited", "3.11.7", 9.0, 8.0, 0.1),
        threads=(
            Thread(profile, 4242, "MainThread", 8.0, 0.1),
            *(Thread(Profile.empty(), tid, name, 0.1, 0.0) for tid, name in helpers),
        ),
        roots=Roots(("/opt/python/lib/python3.11",), (site,), ("/data/qzbproject/job",)),
        host=host,
        environment=environment,
        notes=(Notice("agent-failed", "OSError: [Errno 28] No space left on device"), *notes),
        ranges=ranges,
        pools=(Pool("openblas", 8, "variable", "OMP_NUM_THREADS=8", "2.13.0+cpu", "libopenblas.so"),),
    )
    others = [
        Process(
            *(6000 + at, 4242, "child", None, line, "exited", "3.11.7", 1.0, 0.5, 0.0),
            threads=(Thread(Profile.empty(), 6000 + at, "python", 0.5, 0.0),),
            host=Host(hosts[at % len(hosts)]),
        )
        for at, line in enumerate(lines)
    ]
    series = Series(np.arange(2) * 10**9, {"busy_s": np.arange(2.0), f"{own}_x": np.arange(2.0)})
    return Run("", (main_process, *others), manifest, None, tuple(notes[20:40]), series), everything


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    directory = tmp_path_factory.mktemp("planted")
    paths, everything = [], []
    for side, name in enumerate(("before.prof", "starkloader.prof")):
        run, made = planted_run(side)
        paths.append(directory / name)
        write_run(paths[-1], run)
        everything += made
    return paths, everything


def cli(*arguments: object) -> None:
    assert exit_code(*arguments) == 0


def spelled(text: str) -> str:
    """Undo what outputs do to the letters of a text: markup, escapes, breaks of lines."""
    text = html.unescape(text.replace("<span></span>", "").replace("\\u003c", "<"))
    return re.sub(r"\s+", "", text.replace("\\n", "").replace("\\\\", "\\").replace('\\"', '"'))


def found(text: str, everything: list[tuple[str, Plant]]) -> list[tuple[str, str, str]]:
    """Say which plants are in a text, by where they were and by their form."""
    text = spelled(text)
    return [
        (where, plant.form, part)
        for where, plant in everything
        for part in plant.looked_for
        if re.sub(r"\s+", "", part) in text
    ] + [("project", "word", word) for word in ("qzbproject", "qzbunused") if word in text]


def named(text: str) -> list[str]:
    return [name for name in NAMES if name in text.lower()]


def members(archive: Path | io.BytesIO) -> dict[str, str]:
    """Read every member of an archive as text, those of the run files in it too: JSON, and columns with numpy."""
    texts = {}
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            data = packed.read(name)
            if name.endswith(".prof"):
                texts |= {f"{name}/{inner}": text for inner, text in members(io.BytesIO(data)).items()}
                texts[f"{name}, its beginning"] = data.decode("latin-1") + data.decode("utf-8", "ignore")
            elif name.endswith((".npy", ".npz")):
                loaded = np.load(io.BytesIO(data), allow_pickle=False)
                arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[key] for key in loaded.files]
                texts[name] = "\n".join(array.tobytes().decode("utf-8", "ignore") for array in arrays)
            else:
                texts[name] = data.decode("utf-8", "replace")
    return texts


def strings_of(paths: list[Path]) -> list[str]:
    processes = [process for path in paths for process in load_run(path).processes]
    profiles = [thread.profile for process in processes for thread in process.threads]
    ranges = [process.ranges for process in processes if process.ranges]
    return [string for table in (*profiles, *ranges) for string in table.strings]


@pytest.mark.parametrize("command", ["diff", "show"])
@pytest.mark.parametrize("format", [renderer.name for renderer in RENDERERS])
def test_nothing_of_the_planted_is_in_any_report(
    planted: Planted, tmp_path: Path, format: str, command: str
) -> None:
    paths, everything = planted
    output = tmp_path / "report"
    compared = paths if command == "diff" else paths[1:]
    arguments = (command, *compared, "--format", format, "--limit", "0", "-o", output)
    cli(*arguments)
    assert found(output.read_text(encoding="utf-8"), everything) == []
    assert named(output.read_text(encoding="utf-8")), "what is looked for can be found"
    cli(*arguments, "--mask-names")
    assert named(output.read_text(encoding="utf-8")) == []
    cli(*arguments, "--full-paths")
    if (format, command) == ("svg", "diff"):
        return  # it names what moved, and nothing of that was planted
    # The same report without the mask has them: what is looked for can be found. A picture shows few names.
    full = found(output.read_text(encoding="utf-8"), everything)
    assert len(full) >= {"svg": 1}.get(format, 10)


@pytest.mark.parametrize("command", ["diff", "show"])
def test_nothing_of_the_planted_is_in_a_ticket(planted: Planted, tmp_path: Path, command: str) -> None:
    paths, everything = planted
    cli(command, *paths[: 2 if command == "diff" else 1], "--ticket", "-o", tmp_path / "t.md")
    assert found((tmp_path / "t.md").read_text(encoding="utf-8"), everything) == []
    texts = members(tmp_path / "t.zip")
    assert len(texts) > 10
    for name, text in texts.items():
        assert found(text, everything) == [], name
    with zipfile.ZipFile(tmp_path / "t.zip") as packed:
        packed.extractall(tmp_path)
    masked = sorted((tmp_path / "t").glob("*.prof"))
    assert masked
    strings = [repr(load_run(path)) for path in masked] + strings_of(masked)
    assert found("\n".join(strings), everything) == []


@pytest.mark.parametrize("to", ["perfetto", "speedscope"])
def test_nothing_of_the_planted_is_in_an_export(planted: Planted, tmp_path: Path, to: str) -> None:
    paths, everything = planted
    output = tmp_path / "out.json"
    cli("export", paths[0], "--to", to, "-o", output)
    assert found(output.read_text(encoding="utf-8"), everything) == []
    assert "forward@train" in output.read_text(encoding="utf-8")
    cli("export", paths[0], "--to", to, "-o", output, "--full-paths")
    assert len(found(output.read_text(encoding="utf-8"), everything)) >= 10


def test_what_is_harmless_is_shown(planted: Planted, tmp_path: Path) -> None:
    paths, _ = planted
    cli("show", paths[0], "--ticket", "-o", tmp_path / "t.md")
    with zipfile.ZipFile(tmp_path / "t.zip") as packed:
        packed.extractall(tmp_path)
    run = load_run(tmp_path / "t" / "run.prof")
    assert run.manifest.command[: len(HARMLESS_WORDS)] == HARMLESS_WORDS
    texts = repr(run) + "\n".join(strings_of([tmp_path / "t" / "run.prof"]))
    assert [name for name in HARMLESS_NAMES if name not in texts] == []


def test_a_name_has_one_pseudonym_in_all_outputs(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = planted
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cli("diff", *runs, "--ticket", "--mask-names", "-o", tmp_path / "t.md")
    cli("show", runs[1], "--mask-names", "--limit", "0", "-o", tmp_path / "page.html")
    for to in ("perfetto", "speedscope", "pstats"):
        cli("export", runs[0], "--to", to, "--mask-names", "-o", tmp_path / f"out.{to}")
    archive = members(tmp_path / "t.zip")
    texts = {name: text for name, text in archive.items() if name.endswith(("strings.npy", ".json"))}
    for name in ("t.md", "page.html", "out.perfetto", "out.speedscope", "out.pstats"):
        texts[name] = (tmp_path / name).read_bytes().decode("utf-8", "replace")
    assert [name for name, text in (archive | texts).items() if named(text)] == []
    key = tmp_path / "cache" / "profkit" / "names.key"
    assert key.stat().st_mode & 0o077 == 0
    pseudonym = Pseudonyms(key.read_bytes(), ()).masked("globexscorer")
    assert PSEUDONYM.fullmatch(pseudonym)
    for name in ("page.html", "out.speedscope", "out.pstats"):
        assert pseudonym in texts[name], name
    # Both sides of the comparison.
    assert sum(pseudonym in text for name, text in texts.items() if name.endswith("strings.npy")) >= 2
    # What is public is shown as it is.
    for public in ("numpy", "solve", "raw_decode", "train_step", "list.append"):
        assert public in texts["page.html"], public
    # Another user has others.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    cli("show", runs[1], "--mask-names", "--limit", "0", "-o", tmp_path / "other.html")
    assert pseudonym not in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_names_cannot_be_masked_and_left_as_they_are(planted: Planted, capsys: Capture) -> None:
    (run, _), _ = planted
    for command in (["show", run], ["export", run, "--to", "speedscope"]):
        refused(capsys, *command, "--mask-names", "--full-paths")


@pytest.mark.parametrize(
    "text",
    words_of(
        "step 3|<module>|__init__|n_0123456789|<address 13>|***-b|host-a|epoch 1/90|MainThread|list.append|"
        "<built-in method from_bytes>",
        "|",
    ),
)
def test_what_says_nothing_is_shown(text: str) -> None:
    assert Pseudonyms(b"secret", ()).masked(text) == text
