"""What cannot be done is one line and exit code 2 before anything runs, whichever command is asked."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.requirements import imported
from tests.shared import Capture, refused

#: In the directory with three outputs that are none; nothing else is there when the command has ended.
PROGRAM = "train.py"

CAPTURE = {
    **{f"--overhead {share}": "such as 5%" for share in ("5", "0%", "100%", "-1%", "five", "5%%")},
    "--exact --sampled": "--exact and --sampled exclude each other",
    "--delay 1 --capture-range x": "--delay or --duration and --capture-range both say when",
    "--wait 1": "--active N",
    "--cycles 2": "--cycles counts windows",
    "--counters-only --start-paused": "--counters-only captures no functions",
    "--ranks 0-x": "neither a rank nor a range of ranks",
    **{
        f"-o {name}": f"profkit: error: -o {name}: "
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/sys/run.prof", "no/run.prof")
    },
    "-o link.prof": "profkit: error: -o link.prof: is a broken link to missing; remove it",
    "-o pipe.prof": "profkit: error: -o pipe.prof: is not a regular file",
    "-o folder.prof": "profkit: error: -o folder.prof: is a directory",
}
DOCTOR = {
    "--python /no/python": "--python /no/python: cannot be run (No such file or directory)",
    "--python /bin/true": "--python /bin/true: is not a working Python",
    "-- no-such-command": "no-such-command: no such command; nothing was run",
    "--ranks 4 -- true": "--ranks, --workers and --threads describe a plan",
    "--fail-on slow": "--fail-on slow: is not a finding of doctor",
    "-o report.doc": "the suffix names no format",
    "--build-tracers --ranks 2": "no other option",
}
#: Of a study whose command is the program with an argument `w`.
SWEEP = {
    "-p x=1,2": "the command has no {x}",
    "": "nothing to vary",
    "-p w=1..99999": "more than 10,000",
    "-p w=1,2 --baseline w=3": "3 is not among the values of w",
    f"-p w=1,2 --dir {PROGRAM}": "cannot write there",
    "-p w=1,2 --dir s -o s/study.json": "-o s/study.json: is a file of the study, name another file",
}
TUNE = {
    "--objective output:x": "put one group around the number",
    "--sampler guess": "not one of",
    "--pruner median": "a pruner needs figures",
    "--storage nosuch://x": "cannot be opened",
    "--objective range:step --no-profile": "leave out --no-profile",
    "--dir s -o ./s/study.json": "is a file of the study",
}
REFUSED = {
    **{f"capture {words} -- touch it-ran": said for words, said in CAPTURE.items()},
    **{f"doctor {words}": said for words, said in DOCTOR.items()},
    **{f"sweep {words} -- python {PROGRAM} {{w}}": said for words, said in SWEEP.items()},
    "sweep -p w=1,2": "no command",
    "sweep -p w=1,2 -- no-such-command {w}": "no such command",
    "sweep --dir nowhere": "no study there",
    "verify run.prof --dir s -o s/study.json": "is a file of the study",
    **{f"tune -p w=1,2 {words} -- python {PROGRAM} {{w}}": said for words, said in TUNE.items()},
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_usage_is_one_line_before_anything_runs(
    words: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words.startswith("tune"):
        imported("optuna")
    monkeypatch.chdir(tmp_path)
    Path(PROGRAM).touch()
    Path("link.prof").symlink_to("missing")
    os.mkfifo("pipe.prof")
    Path("folder.prof").mkdir()
    assert REFUSED[words] in refused(capsys, *shlex.split(words))
    assert not list(tmp_path.glob("*/runs/*"))
    assert not list(tmp_path.glob(".*")), "a spool directory is left"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [PROGRAM]
