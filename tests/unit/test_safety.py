"""Reports and ticket copies hold no home, user, host or secret, and still say the same."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.fleet.hosts import Hosts
from profkit.fleet.slowest import Slowest, Trends
from profkit.formats import load_run, write_run
from profkit.measure import iterations, range_stats
from profkit.model import (
    Host,
    Job,
    Machine,
    Manifest,
    Neighbour,
    Neighbours,
    Notice,
    Process,
    Profile,
    Roots,
    Run,
    RunSet,
    Thread,
)
from profkit.model.thread import Definition, name_digest
from profkit.report import secrets as secrets_module
from profkit.report.command_mask import MOST_WORDS
from profkit.report.declared import Kind, declared
from profkit.report.doctordoc import DoctorReport
from profkit.report.known_words import asset_lines
from profkit.report.placeholders import Pseudonyms
from profkit.report.ranksdoc import RanksReport
from profkit.report.runsdoc import ScalingReport
from profkit.report.safety import Masker
from profkit.report.secrets import holds_secret, rules
from profkit.report.sweepdoc import SweepReport, TuneReport
from profkit.verdict import types as verdict_types
from profkit.verdict.diagnosis import diagnose as compare
from profkit.verdict.types import Checked, Diff, RunVerdict, Verdict
from tests import report_builders as build
from tests.builders import Row, profile
from tests.shared import finished, words_of
from tests.unit.test_planted import cli, members, spelled

SAMPLES = Path(__file__).parents[2] / "sample_profiles"
#: Put together here, so that no scanner takes this file for a leak.
GIT_TOKEN = "ghp_" + "0123456789abcdefABCDEF"
CLOUD_KEY = "AKIA" + "IOSFODNN7EXAMPLE"
RANDOM = "x9Kq27ZpLm4Tv8Rw1YsB6nHd"


def run_of(host: str, factor: float) -> Run:
    """Build a run of a user's project, whose files are in her home, elsewhere and of libraries."""
    rows = [
        ("/home/alice/job/train.py", "Trainer.step", 10, 100, 1.0, 3.0),
        (f"/home/alice/job/{GIT_TOKEN}/model.py", "forward", 20, 100, 2.0, 2.0 * factor),
        ("/scratch/alice/other/tools.py", "helper", 5, 100, 0.45 * factor, 0.5),
        ("/home/alice/.venv/lib/python3.11/site-packages/numpy/linalg/_linalg.py", "solve", 30, 10, 1.5, 1.5),
        ("/opt/python/lib/python3.11/json/decoder.py", "decode", 332, 10, 0.5, 0.5),
        ("/tmp/torchinductor_alice/ab/cabc.py", "call", 3, 10, 0.7, 0.7),
        ("C:\\Users\\carol\\job\\win.py", "windows", 7, 10, 0.6, 0.6),
    ]
    program = ("/home/alice/.venv/bin/python", "/home/alice/job/train.py")
    command = ("mpirun", "-H", "gpu-node17:1,gpu-node18:1", *program)
    head = ("profkit.run/1", "0.1.0", command, "/home/alice/job", 0, "2026-01-01T00:00:00Z", 9.0 * factor)
    # A variable that profkit would not have recorded, and that differs.
    environment = {"OMP_NUM_THREADS": "8", "AWS_SECRET_ACCESS_KEY": f"secret {factor}"}
    site, project = "/home/alice/.venv/lib/python3.11/site-packages", "/home/alice/job"
    process = Process(
        *(4242, 1, "main", None, command, "exited", "3.11.7", 9.0 * factor, 8.0, 0.1),
        threads=(Thread(build.profile(rows, traced=True), 4242, f"worker of alice on {host}", 8.0, 0.1),),
        roots=Roots(("/opt/python/lib/python3.11",), (site,), (project,)),
        host=Host(host, "Linux", "AMD EPYC", 8, 8),
        environment=environment,
    )
    job = Job(id=f"SLURM_JOB_ID:7.{host}", rank=0, world_size=1)
    return Run("", (process,), Manifest(*head, host=process.host, environment=environment, job=job))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Write two run files below a home, on a machine with a host name."""
    home = tmp_path / "home-of" / "alice"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for variable in ("LOGNAME", "USER"):
        monkeypatch.setenv(variable, "alice")
    monkeypatch.setattr("platform.node", lambda: "gpu-node17.corp.example")
    paths = (home / "gpu-node17-before.prof", home / "after.prof")
    write_run(paths[0], run_of("gpu-node17.corp.example", 1.0))
    write_run(paths[1], run_of("gpu-node18.corp.example", 4.0))
    return paths


def diff_as_json(output: Path, *arguments: str | Path) -> dict[str, Any]:
    cli("diff", *arguments, "--format", "json", "--limit", "0", "-o", output)
    return json.loads(output.read_text(encoding="utf-8"))


def test_a_report_of_masked_runs_says_the_same(planted: tuple[Path, Path], tmp_path: Path) -> None:
    def told(*arguments: str | Path) -> dict[str, object]:
        value = diff_as_json(tmp_path / "out.json", *arguments)
        rows = [
            {key: row[key] for key in row if key not in ("file", "path", "reason", "match")}
            for row in value["functions"]
        ]
        said = {key: value["verdict"][key] for key in ("cause", "confidence")}
        return {**said, "rows": rows, "residue": value["residue"], "ranking": value["ranking"]}

    plain = told(*planted, "--full-paths")
    assert told(*planted) == plain
    runs = [load_run(path) for path in planted]
    masker = Masker(runs)
    copies = [tmp_path / "a.prof", tmp_path / "b.prof"]
    for run, copy in zip(runs, copies, strict=True):
        write_run(copy, masker.run(run))
    assert told(*copies) == plain


def test_masking_twice_changes_nothing() -> None:
    host = "gpu-node17.corp.example"
    notices = (
        Notice("agent-failed", f"wrote /home/alice/job/log on {host} with {CLOUD_KEY}"),
        Notice("record-unreadable", "x", {"problem": f"PASSWORD=loose_secret {RANDOM}"}),
        Notice("of-a-later-version", "curl -u alice:loose_secret", {"/home/alice": (f"on {host}", RANDOM)}),
    )
    run = replace(run_of(host, 1.0), warnings=notices)
    once = Masker([run]).run(run)
    assert repr(Masker([once]).run(once)) == repr(once)


def test_commands_of_two_machines_are_compared_alike_when_masked() -> None:
    """Directories of a machine in front of a file are no difference; another value of an option is one."""

    def run(home: str, data: str, model: str) -> Run:
        program = (f"/{home}/env9/bin/python", f"/{home}/job/train.py")
        command = ("mpirun", *program, f"--data={data}", "--model", model)
        rows = [(f"/{home}/job/train.py", "step", 1, 1, 1.0, 1.0)]
        manifest = Manifest("profkit.run/2", "0.1.0", command, f"/{home}/job", 0, "", 1.0, Host("n"))
        process = Process(threads=(Thread(build.profile(rows)),), roots=Roots(project=(f"/{home}/job",)))
        return Run("a.prof", (process,), manifest)

    def codes(one: Run, other: Run) -> list[str]:
        found = compare(RunSet("a", (one,)), RunSet("b", (other,))).comparability.warnings
        return [notice.code for notice in found]

    first = run("data/ann", "set one", "m1")
    for other, differs in (
        (run("data/bob", "set one", "m1"), False),
        (run("data/bob", "set two", "m1"), True),
        (run("data/bob", "set one", "m2"), True),
    ):
        masker = Masker([first, other])
        masked = codes(masker.run(first), masker.run(other))
        assert masked == codes(first, other)
        assert ("command-differs" in masked) is differs


def test_machines_stay_apart_and_paths_are_named_by_their_root(
    planted: tuple[Path, Path], tmp_path: Path
) -> None:
    both = diff_as_json(tmp_path / "two.json", *planted)
    assert (both["baseline"]["host"], both["candidate"]["host"]) == ("host-a", "host-b")
    (hosts,) = (said for said in both["comparability"]["warnings"] if said["code"] == "host-differs")
    assert hosts["text"] == "host host-a against host-b"
    files = {row["name"]: row["file"] for row in both["functions"]}
    assert files["Trainer.step"] == "<project>/train.py"
    assert files["solve"] == "<site>/numpy/linalg/_linalg.py"
    assert files["decode"] == "<stdlib>/json/decoder.py"
    assert re.fullmatch(r"/scratch/~/<dir( \w)?>/tools\.py", files["helper"])
    assert re.fullmatch(r"<project>/\*\*\*(-\w)?/model\.py", files["forward"])
    one = diff_as_json(tmp_path / "one.json", planted[0], planted[0])
    assert one["baseline"]["host"] == one["candidate"]["host"] == "host-a"


def test_users_of_neighbours_are_masked_and_known_elsewhere() -> None:
    """Names of services are shown, names of users are not."""
    listed = (
        Neighbour("alice-sweep", 1.0, 812, user="alice", group="user@alice"),
        Neighbour("sweep", 0.5, 813, user="bertram"),
        Neighbour("backupd", 0.2, 90, user="root", group="backup.service"),
        Neighbour("again", 0.1, 91, user="alice"),
    )
    run = Run("x.prof", (), machine=Machine(neighbours=Neighbours(1.0, listed)))
    masked = Masker([run]).run(run)
    users, groups = ("<user>", "<user b>", "root", "<user>"), ("user@~", "", "backup.service", "")
    shown = tuple(replace(n, user=u, group=g) for n, u, g in zip(listed, users, groups, strict=True))
    assert masked.machine.neighbours.listed == shown
    assert Masker([masked]).run(masked) == masked


def test_other_programs_are_named_on_the_terminal_and_not_in_a_ticket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that everybody has keeps its name."""
    listed = (
        Neighbour("zebedee-nightly", 1.0, 812, user="carol", group="orca-batch"),
        Neighbour("python3", 0.4, 813),
    )
    paths = []
    for name in ("clean-1", "external-load"):
        run = load_run(SAMPLES / "tokenize_corpus" / f"{name}.prof")
        machine = replace(run.machine, neighbours=Neighbours(2.0, listed, 1.5, True))
        paths.append(tmp_path / f"{name}.prof")
        write_run(paths[-1], replace(run, machine=machine))
    cli("diff", *paths, "--full")
    full = capsys.readouterr().out
    assert "zebedee-nightly" in full
    assert "orca-batch" in full
    cli("diff", *paths, "--ticket", "-o", tmp_path / "t.md")
    pasted = (tmp_path / "t.md").read_text(encoding="utf-8")
    assert "python3" in spelled(pasted)
    assert "<name15>" in spelled(pasted)
    attached = members(tmp_path / "t.zip")
    for name, text in {"t.md": pasted, **attached}.items():
        for private in ("zebedee", "orca-batch", "carol"):
            assert private not in text, name
    assert any("<name 15>" in text for name, text in attached.items() if name.endswith("manifest.json"))


def test_labels_are_base_names_that_differ() -> None:
    def labels(a: str, b: str) -> tuple[str, str]:
        diff = build.quiet()
        sides = {"baseline": replace(diff.baseline, label=a), "candidate": replace(diff.candidate, label=b)}
        masked = Masker(home="/home/alice", user="alice").diff(replace(diff, **sides))
        return masked.baseline.label, masked.candidate.label

    assert labels("/home/alice/a.prof", "../b.prof") == ("a.prof", "b.prof")
    assert labels("/home/alice/old/run.prof", "/home/alice/new/run.prof") == ("old/run.prof", "new/run.prof")
    assert labels("run.prof", "run.prof") == ("run.prof", "run.prof")
    assert labels("/home/alice/run.prof", "/home/bert/run.prof") == ("run.prof", "run.prof")


def test_a_host_called_like_a_word_leaves_file_names_alone() -> None:
    masker = Masker([Run("a.prof", (Process(host=Host("train")),))])
    assert masker.name("python train.py on train: train_mlp") == "python train.py on host-a: train_mlp"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/home/ann/x.py", "~/x.py"),
        ("/Users/ann/x.py and /root/y.py", "~/x.py and ~/y.py"),
        ("C:\\Users\\ann\\job\\x.py", "~\\job\\x.py"),
        ("C:/Users/ann/x.py", "~/x.py"),
        ("/nfs/home/ann/x", "~/x"),
        ("/opt/home-assistant/x", "/opt/<dir>/x"),
        ("project/home/templates/x.py", "project/home/templates/x.py"),
        ("/rooted/x", "/rooted/x"),
    ],
)
def test_homes_are_known_by_their_form(text: str, masked: str) -> None:
    assert Masker().name(text) == masked


def test_options_of_secrets_are_known_by_their_names() -> None:
    secret = words_of(
        "--token=x HF_TOKEN=x --wandb-api-key=x AWS_SECRET_ACCESS_KEY=x password=1234 --dbPassword=x "
        "PGPASSWORD=x --pw=12 --creds=x --proxy-user=x --tokens=x --key=x"
    )
    others = words_of(
        "--tokens=512 --tokenizer=x --max-tokens=512 --pad_token=x --pin-memory=true --monkey=x"
    )
    assert [option for option in secret + others if holds_secret(*option.split("="))] == secret


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        (
            "python train.py --batch-size 64 --workers 8 --lr=3e-4 --model acmenet",
            "python train.py --batch-size 64 --workers 8 --lr=3e-4 --model <text 7>",
        ),
        ("/home/ann/env/bin/python my.py", "/<dir>/python <file>.py"),
        # Users and machines whose names are common words.
        ("/home/max/venv/bin/python x.py", "/<dir>/python x.py"),
        ("mpirun -H gpu-1:2,gpu-2:2 -np 4 ./mine", "mpirun -H host-a:2,host-b:2 -np 4 ./<file>"),
        ("srun -w node-[01-04] -n 4 ./mine", "srun -w <text 12> -n 4 ./<file>"),
        ("mpirun -H localhost:4 ./mine", "mpirun -H localhost:4 ./<file>"),
        ("/usr/bin/python3.11 -O2 -j8 -n=4", "/usr/bin/python3.11 -O2 -j8 -n=4"),
        ("mpirun -H n17:2,n18:2 -np 4 --bind-to core", "mpirun -H host-a:2,host-b:2 -np 4 --bind-to core"),
        ("mpirun --map-by slot:PE=2 -x A_B=4 ./mine", "mpirun --map-by slot:PE=2 -x A_B=4 ./<file>"),
        ("python -m torch.distributed.run -m secretive.app", "python -m torch.distributed.run -m <text 13>"),
        ("mysql -phunter2 -ubob:pw", "mysql -p<text 7> -u<text 6>"),
        ("x --a=b@c.de --b=10.1.2.3", "x --a=<email 6> --b=host-a"),
        ('x --c=http://x.y --d={"a":1}', "x --c=<url 10> --d=<data 7>"),
        (
            "x --model acme --model umbr --model acme",
            "x --model <text 4> --model <text 4 b> --model <text 4>",
        ),
        ("x --data /y1/one.csv --data /y1/two.csv", "x --data /<dir>/<file>.csv --data /<dir>/<file b>.csv"),
        ("x --card 4111-1111-1111-1111 --tel 004915112345678", "x --card <text 19> --tel <number 15>"),
        ("taskset -c 0-3,8-11 python x.py --tel 555-0199", "taskset -c 0-3,8-11 python x.py --tel <text 8>"),
        ("x --password --verbose", "x --password --verbose"),
        ("x --password -p4ss", "x --password ***"),
        ("x --token one! --token two! --token one!", "x --token *** --token ***-b --token ***"),
    ],
)
def test_a_command_is_shown_by_an_allow_list(command: str, masked: str) -> None:
    words = tuple(command.split())
    rows = [("/home/ann/job/train.py", "step", 1, 1, 1.0, 1.0)]
    run = Run("a.prof", (Process(command=words, threads=(Thread(build.profile(rows)),)),))
    shown = Masker([run]).words(words)
    assert " ".join(shown) == masked
    # Whoever masks a masked run changes nothing.
    again = Masker([run]).run(run)
    assert Masker([again]).words(shown) == shown


def test_of_a_long_command_it_is_said_how_much_is_left_out() -> None:
    hosts = ",".join(f"node-{number}.corp.example:8" for number in range(4000))
    command = ("mpirun", "-H", hosts, *("--x=y",) * 100_000)
    run = Run("a.prof", (Process(command=command),))
    masked = Masker([run]).run(run).processes[0].command
    assert len(masked) == MOST_WORDS + 1
    assert masked[-1] == f"<{len(command) - MOST_WORDS} words>"
    assert masked[2].startswith("host-a:8,host-b:8,")
    assert masked[2].endswith(",<3968 hosts>")


def test_messages_keep_their_words() -> None:
    masker = Masker(home="/home/ann", user="ann")
    said = "OSError: [Errno 28] No space left on device: '{}/run/x.record' (took 3.5 s)"
    assert masker.message(said.format("/home/ann")) == said.format("~")
    assert masker.message("could not log in as bob: hunter2") == "could not log in as <text 3>: <text 7>"
    assert masker.message("password: hunter2") == "password: ***"


@given(st.text(max_size=60), st.sampled_from([GIT_TOKEN, CLOUD_KEY]))
def test_a_known_form_is_found_anywhere(around: str, secret: str) -> None:
    text = f"{around} {secret} {around}"
    assert secret not in Masker().name(text)
    assert secret not in Masker().message(text)


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_command_can_be_masked(words: list[str]) -> None:
    run = Run("a.prof", (Process(command=tuple(words)),))
    masker = Masker([run])
    masked = masker.words(words)
    assert len(masked) == len(words)
    assert Masker([masker.run(run)]).words(masked) == masked


#: A word that nothing knows, and one that has the form of a secret.
PLAIN = "Qzplanted7"
FORMED = "ghp_" + "Zq9" * 12


def strings_of(*types: type, names: dict[str, Any] | None = None) -> set[str]:
    """Return every field of these types, and of the types in them, that holds a string."""
    pending, seen, found = list(types), set(), set()
    while pending:
        type_ = pending.pop()
        if type_ in seen:
            continue
        seen.add(type_)
        for name, hint in get_type_hints(type_, localns=names).items():
            leaves = list(leaves_of(hint))
            if str in leaves or Any in leaves:
                found.add(f"{type_.__name__}.{name}")
            pending += [leaf for leaf in leaves if is_dataclass(leaf) or hasattr(leaf, "_fields")]
    return found


def leaves_of(type_: Any) -> Iterator[Any]:
    if get_origin(type_) is np.ndarray or type_ is Notice:
        return
    arguments = get_args(type_)
    if not arguments:
        yield type_
    for argument in arguments:
        yield from leaves_of(argument)


def filled(type_: Any, text: str, name: str = "") -> Any:
    """Make a value of a type with this text in every string, in keys and values of mappings too."""
    origin, arguments = get_origin(type_), get_args(type_)
    if type_ is str or type_ is Any:
        return text
    if origin is Literal:
        return arguments[0]  # no other text is read
    if type_ is Profile:
        rows = [(f"/x/{text}/{text}.py", text, 1, 1, 1.0, 1.0)]
        made = build.profile(rows, traced=True)
        strings = (*made.strings, f"{text}.{text}", text * 2, f"unused {text}")
        size = len(made.strings)
        return replace(
            made,
            strings=strings,
            module=np.full(1, size, np.int32),
            source_hash=np.full(1, size + 1, np.int32),
        )
    if type_ is Notice:
        return Notice("text", text, {"problem": text, text: text, "several": (text, text)})
    if origin is np.ndarray:
        (scalar,) = get_args(arguments[1])
        return np.zeros(1, scalar)
    if origin is tuple:
        return (filled(arguments[0], text),)
    if origin is not None and issubclass(origin if isinstance(origin, type) else object, Mapping):
        if name == "environment":
            return {"OMP_NUM_THREADS": text, text: text}
        return (
            {text: filled(arguments[1], text), "id": text, "revision": text}
            if arguments[1] is Any
            else {text: filled(arguments[1], text)}
        )
    if origin in (Union, UnionType):
        return filled(next(a for a in arguments if a is not NoneType), text, name)
    if is_dataclass(type_):
        hints = get_type_hints(type_)
        return type_(**{part.name: filled(hints[part.name], text, part.name) for part in fields(type_)})
    return type_()


#: Fields whose strings a report shows as they are, but for what has the form of a secret or is known to be private:
#: names that source code, libraries and the kernel give, and the base names of files that the user named.
SHOWN = {
    *("Run.path", "Thread.name", "RangeCalls.strings", "Ranges.strings"),
    *("Host.system", "Host.cpu_model", "Pool.library", "Pool.file"),
    *("Profile.name", "Profile.qualname", "Profile.file"),
    "Manifest.packages",
}


#: Masked as a whole.
KEY = {"FunctionKey.path", "FunctionKey.qualname"}


def undeclared(names: set[str]) -> set[str]:
    return {name for name in names if declared(*name.split(".")) is Kind.UNDECLARED}


def test_every_string_of_a_run_is_declared() -> None:
    known = strings_of(Run)
    assert len(known) > 30
    # Handled by what they are.
    known -= {"Profile.strings", "Roots.stdlib", "Roots.site", "Roots.project"}
    assert undeclared(known) == set()
    assert {name for name in known if declared(*name.split(".")) is Kind.OWN} == set()


def test_every_string_of_a_result_is_declared() -> None:
    names = {**vars(verdict_types), **vars(iterations), **vars(range_stats)}
    known = strings_of(Diff, RunVerdict, names=names)
    assert len(known) > 60
    handled = {"Roots", "Profile", "Run", "Process", "Thread", "Manifest"}
    # Masked with the keys of their table; lines that were seen are never shown.
    taken_out = {"DiffTable.file", "SeenLine.file", "SeenLine.text"}
    assert undeclared({name for name in known if name.split(".")[0] not in handled}) == KEY | taken_out


@pytest.mark.parametrize(
    "report", [SweepReport, TuneReport, RanksReport, DoctorReport, ScalingReport, Slowest, Trends, Hosts]
)
def test_every_string_of_a_study_is_declared(report: type) -> None:
    # Masked by what they are; a scheduler's job id may hold anything.
    handled = {"Notice.code", "Notice.subject", "Notice.numbers", "Member.job"}
    assert undeclared(strings_of(report)) <= {*KEY, *handled}


@pytest.mark.parametrize("text", [PLAIN, FORMED])
def test_a_secret_in_any_string_of_a_run_is_masked(text: str, tmp_path: Path) -> None:
    run = filled(Run, text)
    assert repr(run).count(text) > 50
    masked = Masker([run]).run(run)
    shown = set(leaks(masked, text))
    assert shown <= (SHOWN if text == PLAIN else set())


def leaks(value: Any, text: str, name: str = "") -> Iterator[str]:
    """Yield the field wherever a text is left."""
    if isinstance(value, Profile):
        named = set()
        for column in ("file", "name", "qualname", "module", "source_hash"):
            used = getattr(value, column).tolist()
            named.update(used)
            yield from (f"Profile.{column}" for at in used if text in value.strings[at])
        rest = set(range(len(value.strings))) - named
        yield from ("Profile.strings" for at in rest if text in value.strings[at])
    elif isinstance(value, str):
        if text in value:
            yield name
    elif isinstance(value, Mapping):
        yield from leaks((*value.keys(), *value.values()), text, name)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaks(item, text, name)
    elif is_dataclass(value):
        for part in fields(value):
            yield from leaks(getattr(value, part.name), text, f"{type(value).__name__}.{part.name}")


def test_digests_of_names_that_have_pseudonyms_are_left_out() -> None:
    listed = (Definition(0, name_digest("f"), "0123456789abcdef"),)
    run = Run("", (Process(threads=(Thread(profile([Row("/w/a.py", 1, "f")]), definitions=listed),)),))
    kinds = {"plain": None, "pseudonyms": Pseudonyms(b"secret", [run])}
    masked = {name: Masker([run], pseudonyms=kind).run(run) for name, kind in kinds.items()}
    found = {name: one.processes[0].threads[0].definitions for name, one in masked.items()}
    assert found == {"plain": listed, "pseudonyms": ()}


def test_identifiers_among_the_numbers_of_a_verdict_have_no_pseudonyms() -> None:
    numbers = {"contention.who": "helpers", "blocked.on": "pipe", "gc.function": "helpers"}
    checks = tuple(
        Checked("r", "requires", 0, 0, reading, "=", "text", value, None, "", True)
        for reading, value in numbers.items()
    )
    masker = Masker(pseudonyms=Pseudonyms(b"secret", ()))
    masked = masker.value(Verdict("contention", "contention", numbers=numbers, checks=checks))
    hidden = masker.name("helpers")
    assert hidden != "helpers"
    assert masked.numbers == {**numbers, "gc.function": hidden}
    assert [check.value for check in masked.checks] == ["helpers", "pipe", hidden]


def test_a_new_field_is_masked_until_it_is_declared() -> None:
    @dataclass(frozen=True)
    class Later:
        label: str
        labels: Mapping[str, tuple[str, ...]]

    masked = Masker().value(Later("bob", {"bob": ("bob", "eve")}))
    assert masked == Later("<text 3>", {"<text 3>": ("<text 3>", "<text 3 b>")})


def test_the_rules_name_their_source_and_need_what_they_find() -> None:
    assert len(rules()) >= 50
    text = (Path(secrets_module.__file__).parent / "assets" / "secret-rules.txt").read_text(encoding="utf-8")
    assert len({line.split()[0] for line in asset_lines("secret-rules.txt")}) == len(rules())
    assert "detect-secrets 1.5.0" in text
    assert "Apache License 2.0" in text
    for rule in rules():
        assert rule.needs
        assert all(piece == piece.lower() for piece in rule.needs)


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.13.0+cu121", "2.13.0+cu121"),
        ("v1!1.2.3rc4.post5.dev6", "v1!1.2.3rc4.post5.dev6"),
        ("1.0.0-beta2", "1.0.0-beta2"),
        # A text that can be read as a version in many ways, and is none, is not tried in all of them.
        ("9" * 500, "<text 500>"),
        ("9" * 26 + "!x", "<text 28>"),
        ("1" + ".9" * 200 + "!x", "<text 403>"),
    ],
)
def test_versions_are_shown_and_long_digits_are_not(version: str, shown: str) -> None:
    assert Masker([]).version(version) == shown


# Masking takes time in proportion to a text: a hostile file must not hold up its reader

#: Pieces that expressions divide texts at, repeated between a beginning and an end that fit or do not.
PIECES = (
    *words_of(
        'a 9 1. a. a- - / // a/ ( " \' ., a= = : a: @ a@ a.b@ p= :// :a AKIA a:// < 1- 1_ [ _ a_ {} + n_ "a'
    ),
    *(" ", "\n", "a ", "1 "),
)
#: Beginnings of secrets, and what looks for their ends in vain: a rule that begins again at each would never end.
SECRETS = words_of(
    "eyJ|eyJa.|xoxb-1-|sk-|sk-a_|://|://a:|a@|a.|a@a.|-----BEGIN A|AccountKey=|aws key |password=|?sig=|Bearer |"
    "basic |1234567890:|glpat-|A|a|0| |=|AC|api_key: |ibm-cloud-iam-api-key|hooks.slack.com/services/|"
    "PuTTY-User-Key-File-2|-us1|\n|/",
    "|",
)
#: Ends by itself where a text takes seconds of CPU time: linear time needs hundredths, and quadratic time more.
PROGRAM = """
import signal
from profkit.measure.range_stats import pattern_of
from profkit.report.placeholders import Pseudonyms
from profkit.report.safety import Masker
from profkit.report.secrets import masked_by_rules

by_rules = lambda text: masked_by_rules(text, lambda _: "***")
mask = Masker(pseudonyms=Pseudonyms(b"secret", ()))
for piece in {pieces!r}:
    for begin, end in (("", "!"), ("a", "x"), ("1", "!x"), ("/home/", "\\n")):
        signal.setitimer(signal.ITIMER_PROF, 2)
        {way}(begin + piece * (20_000 // len(piece)) + end)
print("done")
"""


@pytest.mark.parametrize(
    "way",
    words_of(
        "mask.name mask.message mask.version mask.outside mask.module mask.user_file "
        "mask.hidden mask.private.add_secret pattern_of by_rules"
    ),
)
def test_no_text_holds_up_the_mask(way: str) -> None:
    pieces = SECRETS if way == "by_rules" else PIECES
    done = finished([sys.executable, "-c", PROGRAM.format(pieces=pieces, way=way)])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
