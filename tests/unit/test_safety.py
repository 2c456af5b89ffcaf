"""Reports and ticket copies hold no home, user, host or secret, and still say the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.cli import main
from profkit.formats import load_run, load_side, write_run
from profkit.model import Host, Manifest, Notice, Process, Profile, Roots, Run, RunSet, Thread
from profkit.report.renderers import RENDERERS
from profkit.report.safety import Masker, Owner
from profkit.report.secrets import MASK, is_secret_name, looks_random, masked_text, masked_words
from profkit.verdict.comparison import diff as compare
from tests import report_builders as build

SAMPLES = Path(__file__).parents[2] / "sample_profiles"
#: Put together here, so that no scanner takes this file for a leak.
HUB_TOKEN = "hf_" + "QwErTyUiOp1234567890"
GIT_TOKEN = "ghp_" + "0123456789abcdefABCDEF"
CLOUD_KEY = "AKIA" + "IOSFODNN7EXAMPLE"
RANDOM = "x9Kq27ZpLm4Tv8Rw1YsB6nHd"
WEB_TOKEN = "eyJhbGciOiJI.eyJzdWIiOiIx.sIgNaTuRe"
COMMAND = (
    *(
        "mpirun",
        "-H",
        "gpu-node17:1,gpu-node18:1",
        "/home/alice/.venv/bin/python",
        "/home/alice/job/train.py",
    ),
    *("--token", "tinysecret", f"API_KEY={RANDOM}", f"--hub={HUB_TOKEN}", "--max-tokens", "512"),
    *(
        "--password",
        "two words",
        "--url",
        "https://bob:hunter22@db.example/x",
        WEB_TOKEN,
        "--data=/nfs/home/alice/d",
    ),
)
#: What may be in no report.
PLANTED = (
    *("alice", "carol", "gpu-node17", "gpu-node18", "corp.example", "tinysecret", "two words", "hunter22"),
    *(HUB_TOKEN, GIT_TOKEN, CLOUD_KEY, RANDOM, WEB_TOKEN, "loose_secret"),
)


def planted_run(path: str, host: str, factor: float) -> Run:
    """Build a run with secrets in every text that a run file has room for."""
    rows = [
        ("/home/alice/job/train.py", "Trainer.step", 10, 100, 1.0, 3.0),
        (f"/home/alice/job/{GIT_TOKEN}/model.py", "forward", 20, 100, 2.0, 2.0 * factor),
        ("/scratch/alice/other/tools.py", "helper", 5, 100, 0.45 * factor, 0.5),
        ("/home/alice/.venv/lib/python3.11/site-packages/numpy/linalg/_linalg.py", "solve", 30, 10, 1.5, 1.5),
        ("/opt/python/lib/python3.11/json/decoder.py", "decode", 332, 10, 0.5, 0.5),
        ("/tmp/torchinductor_alice/ab/cabc.py", "call", 3, 10, 0.7, 0.7),
        ("C:\\Users\\carol\\job\\win.py", "windows", 7, 10, 0.6, 0.6),
        ("~", "<method 'sort' of 'list' objects>", 0, 10, 0.3, 0.3),
    ]
    environment = {
        "OMP_NUM_THREADS": "8",
        "XLA_FLAGS": f"--xla_dump_to=/home/alice/dump --token {RANDOM}",
        "AWS_SECRET_ACCESS_KEY": "loose_secret",
    }
    described = Host(host, "Linux", "AMD EPYC", 8, 8)
    manifest = Manifest(
        *("profkit.run/1", "0.1.0", COMMAND, "/home/alice/job", 0, "2026-01-01T00:00:00Z", 9.0 * factor),
        host=described,
        environment=environment,
        packages={"job": "0.1 @ file:///home/alice/job"},
        git={"revision": "0123456789abcdef0123456789abcdef01234567", "dirty": True},
        job={"id": f"SLURM_JOB_ID:7.{host}", "rank": 0, "world_size": 1},
    )
    process = Process(
        *(4242, 1, "main", None, COMMAND, "exited", "3.11.7", 9.0 * factor, 8.0, 0.1),
        threads=(Thread(build.profile(rows, traced=True), 4242, f"worker of alice on {host}", 8.0, 0.1),),
        roots=Roots(
            ("/opt/python/lib/python3.11",),
            ("/home/alice/.venv/lib/python3.11/site-packages",),
            ("/home/alice/job",),
        ),
        host=described,
        environment=environment,
        notes=(
            Notice("agent-failed", f"wrote /home/alice/job/log on {host} with {CLOUD_KEY}"),
            Notice("record-unreadable", "x", {"problem": f"PASSWORD=loose_secret {RANDOM}"}),
        ),
    )
    warnings = (
        Notice("text", f"{host}: could not read /home/alice/.netrc of alice"),
        Notice("of-a-later-version", "curl -u alice:loose_secret", {"/home/alice": (f"on {host}", RANDOM)}),
    )
    return Run(path, (process,), manifest, None, warnings)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Write two run files below a home, on a machine that has a name."""
    home = tmp_path / "home-of" / "alice"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for variable in ("LOGNAME", "USER"):
        monkeypatch.setenv(variable, "alice")
    monkeypatch.setattr("platform.node", lambda: "gpu-node17.corp.example")
    paths = (home / "gpu-node17-before.prof", home / "after.prof")
    write_run(paths[0], planted_run("", "gpu-node17.corp.example", 1.0))
    other = planted_run("", "gpu-node18.corp.example", 4.0)
    assert other.manifest is not None
    # A variable that profkit would not have recorded, and that differs.
    changed = {**other.manifest.environment, "AWS_SECRET_ACCESS_KEY": "loose_secret_2"}
    write_run(paths[1], replace(other, manifest=replace(other.manifest, environment=changed)))
    return paths


def report(arguments: list[str], format: str, output: Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--format", format, "--limit", "0", "-o", str(output)])
    assert ended.value.code == 0
    return output.read_text(encoding="utf-8")


def spelled(text: str) -> str:
    """Undo what outputs do to the letters of a text: line breaks, escapes, markup."""
    import html

    return html.unescape(text.replace("\\\\", "\\").replace("<span></span>", "").replace("\n", " "))


@pytest.mark.parametrize("command", ["diff", "show"])
@pytest.mark.parametrize("format", [renderer.name for renderer in RENDERERS])
def test_nothing_of_the_planted_is_in_any_report(
    planted: tuple[Path, Path], tmp_path: Path, format: str, command: str
) -> None:
    arguments = [command, *map(str, planted[: 2 if command == "diff" else 1])]
    text = report(arguments, format, tmp_path / f"safe.{format}")
    for secret in PLANTED:
        assert secret not in spelled(text), secret
    assert str(tmp_path) not in text
    if (format, command) == ("svg", "diff"):
        assert "helper" in text  # the picture names what moved, and no place
        return
    assert "Trainer.step" in text
    # The same report without the mask has them: what is looked for can be found.
    full = spelled(report([*arguments, "--full-paths"], format, tmp_path / f"full.{format}"))
    assert "/home/alice" in full
    assert "gpu-node17" in full


def test_a_report_of_masked_runs_says_the_same(planted: tuple[Path, Path], tmp_path: Path) -> None:
    def told(arguments: list[str]) -> dict[str, object]:
        value = json.loads(report(["diff", *arguments], "json", tmp_path / "out.json"))
        rows = [
            {key: row[key] for key in row if key not in ("file", "path", "reason", "match")}
            for row in value["functions"]
        ]
        return {
            "cause": value["verdict"]["cause"],
            "confidence": value["verdict"]["confidence"],
            "rows": rows,
            "residue": value["residue"],
            "ranking": value["ranking"],
        }

    plain = told([*map(str, planted), "--full-paths"])
    assert told([*map(str, planted)]) == plain
    runs = [load_run(path) for path in planted]
    masker = Masker(runs)
    copies = [tmp_path / "a.prof", tmp_path / "b.prof"]
    for run, copy in zip(runs, copies, strict=True):
        write_run(copy, masker.run(run))
    assert told([*map(str, copies)]) == plain
    for copy in copies:
        data = copy.read_bytes()
        assert not [secret for secret in PLANTED if secret.encode() in data]
        again = load_run(copy)
        assert not [secret for secret in PLANTED if secret in repr(again)]


@pytest.mark.parametrize("candidate", ["oversubscribed.prof", "code-change.prof"])
def test_real_runs_are_compared_alike_when_masked(candidate: str) -> None:
    sides = [load_side(SAMPLES / "train_mlp" / name) for name in ("clean-1.prof", candidate)]
    masker = Masker([run for side in sides for run in side.runs])
    masked = [RunSet(side.label, tuple(masker.run(run) for run in side.runs)) for side in sides]
    plain, safe = compare(*sides), compare(*masked)
    assert safe.verdict.cause == plain.verdict.cause
    assert safe.verdict.confidence == plain.verdict.confidence
    assert safe.table.name == plain.table.name
    assert [key.path for key in safe.table.keys] == [key.path for key in plain.table.keys]
    assert safe.residue == plain.residue


def test_masking_twice_changes_nothing(planted: tuple[Path, Path]) -> None:
    run = load_run(planted[0])
    once = Masker([run]).run(run)
    twice = Masker([once]).run(once)
    assert repr(twice) == repr(once)


def test_machines_stay_apart_and_one_machine_stays_one(planted: tuple[Path, Path], tmp_path: Path) -> None:
    both = json.loads(report(["diff", *map(str, planted)], "json", tmp_path / "two.json"))
    assert (both["baseline"]["host"], both["candidate"]["host"]) == ("host-a", "host-b")
    (hosts,) = (said for said in both["comparability"]["warnings"] if said["code"] == "host-differs")
    assert hosts["numbers"] == {"baseline": "host-a", "candidate": "host-b"}
    assert hosts["text"] == "host host-a against host-b"
    one = json.loads(report(["diff", str(planted[0]), str(planted[0])], "json", tmp_path / "one.json"))
    assert one["baseline"]["host"] == one["candidate"]["host"] == "host-a"


def test_paths_are_named_by_their_root(planted: tuple[Path, Path], tmp_path: Path) -> None:
    shown = json.loads(report(["diff", *map(str, planted)], "json", tmp_path / "out.json"))
    files = {row["name"]: row["file"] for row in shown["functions"]}
    assert files["Trainer.step"] == "<project>/train.py"
    assert files["solve"] == "<site>/numpy/linalg/_linalg.py"
    assert files["decode"] == "<stdlib>/json/decoder.py"
    assert files["helper"] == "/scratch/~/other/tools.py"
    assert files["forward"] == f"<project>/{MASK}/model.py"


def test_two_copies_of_a_module_stay_two() -> None:
    rows = [(f"/{place}/lib/python3.11/site-packages/one.py", "f", 1, 1, 1.0, 1.0) for place in ("a", "b")]
    run = Run("x.prof", (Process(threads=(Thread(build.profile(rows)),)),))
    masked = Masker([run]).run(run)
    profile: Profile = masked.processes[0].threads[0].profile
    assert [profile.strings[i] for i in profile.file] == ["<site>/one.py", "<site-2>/one.py"]
    assert masked.processes[0].roots.site == ("<site>", "<site-2>")


def test_labels_are_base_names_that_differ() -> None:
    diff = build.quiet()

    def labels(a: str, b: str) -> tuple[str, str]:
        sided = replace(
            diff, baseline=replace(diff.baseline, label=a), candidate=replace(diff.candidate, label=b)
        )
        masked = Masker(owner=Owner(home="/home/alice", user="alice")).diff(sided)
        return masked.baseline.label, masked.candidate.label

    assert labels("/home/alice/a.prof", "../b.prof") == ("a.prof", "b.prof")
    assert labels("/home/alice/old/run.prof", "/home/alice/new/run.prof") == ("old/run.prof", "new/run.prof")
    assert labels("run.prof", "run.prof") == ("run.prof", "run.prof")
    assert labels("/home/alice/run.prof", "/home/bert/run.prof") == ("run.prof", "run.prof")


def test_a_host_called_like_a_word_leaves_file_names_alone() -> None:
    masker = Masker([Run("a.prof", (Process(host=Host("train")),))])
    assert masker.text("python train.py on train: train_mlp") == "python train.py on host-a: train_mlp"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/home/ann/x.py", "~/x.py"),
        ("/Users/ann/x.py and /root/y.py", "~/x.py and ~/y.py"),
        ("C:\\Users\\Ann Lee\\x.py", "~ Lee\\x.py"),
        ("C:/Users/ann/x.py", "~/x.py"),
        ("/nfs/home/ann/x", "~/x"),
        ("/opt/home-assistant/x", "/opt/home-assistant/x"),
        ("project/home/templates/x.py", "project/home/templates/x.py"),
        ("/rooted/x", "/rooted/x"),
    ],
)
def test_homes_are_known_by_their_form(text: str, masked: str) -> None:
    assert Masker().text(text) == masked


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("--token", True),
        ("HF_TOKEN", True),
        ("--wandb-api-key", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("password", True),
        ("--tokenizer", False),
        ("--max-tokens", False),
        ("--pad_token", False),
        ("--token-file", False),
        ("--key", False),
        ("--monkey", False),
    ],
)
def test_secret_options_are_told_by_their_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_words_of_a_command_keep_what_is_no_secret() -> None:
    plain = (
        *(
            "python",
            "-m",
            "train",
            "--lr=1e-3",
            "--max-tokens",
            "512",
            "--resume",
            "runs/Exp12/ckpt_Epoch10.pt",
        ),
        *("--revision", "0123456789abcdef0123456789abcdef01234567", "ResNet50_ImageNet1k_V2_fp16_bs256"),
        *("--model", "TransformerEncoderLayer2", "-u", "train.py", "--token", "--verbose"),
    )
    assert masked_words(plain) == plain


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--token abc x", "--token *** x"),
        ("A_TOKEN=abc python x", "A_TOKEN=*** python x"),
        ("'API_KEY=a b' --password 'c d'", "'API_KEY=***' --password ***"),
        ("https://u:p@host/x?token=abc&n=1", "https://***@host/x?token=***&n=1"),
        ("Authorization: Bearer abcdef123", "Authorization: *** ***"),
        (f"got {HUB_TOKEN}, {GIT_TOKEN}", "got ***, ***"),
        (f"{CLOUD_KEY} {WEB_TOKEN}", "*** ***"),
        (f"blob {RANDOM}", "blob ***"),
        ("12345678-1234-1234-1234-123456789abc", "***"),
        ("sk-" + "proj-abcdef123456", "***"),
    ],
)
def test_secrets_in_text(text: str, masked: str) -> None:
    assert masked_text(text) == masked


def test_names_of_generated_code_are_no_secrets() -> None:
    mangled = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
    assert masked_text(mangled, random=False) == mangled
    assert not looks_random("test_that_everything_which_is_long_stays_as_it_is_2")


@given(st.text(max_size=60), st.sampled_from([HUB_TOKEN, GIT_TOKEN, CLOUD_KEY]))
def test_a_known_form_is_found_anywhere(around: str, secret: str) -> None:
    text = f"{around} {secret} {around}"
    assert secret not in masked_text(text)


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_command_can_be_masked(words: list[str]) -> None:
    masked = masked_words(words)
    assert len(masked) == len(words)
    assert isinstance(Masker().words(words), tuple)
