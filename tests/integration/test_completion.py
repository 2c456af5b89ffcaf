"""Shell completion: the scripts that are printed and installed, and what a shell gets when it asks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.capturing import environment, profkit, profkit_command
from tests.requirements import require
from tests.shared import finished, succeeded


def run(*words: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    return profkit(None, *words, status=status, timeout=60, **variables)


def completed(words: str) -> list[str]:
    """What click's bash script gets for a line that ends where the cursor is."""
    at = len(words.split(" ")) - 1
    done = run(_PROFKIT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(at))
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_options_and_values() -> None:
    assert completed("profkit d") == ["diff", "doctor", "demo"]
    assert set(completed("profkit ")) >= {"capture", "show", "diff", "merge"}
    assert "--fail-on" in completed("profkit diff --f")
    assert completed("profkit show --format m") == ["md"]
    assert completed("profkit diff --by ") == ["tottime", "cumtime"]
    assert completed("profkit show --process r") == ["rank:"]
    assert completed("profkit --v") == ["--version"]


def test_files_are_left_to_the_shell() -> None:
    done = run(_PROFKIT_COMPLETE="bash_complete", COMP_WORDS="profkit show a", COMP_CWORD="2")
    assert done.stdout.startswith("file,")


def test_completing_a_command_imports_none() -> None:
    script = (
        "import os, sys\n"
        "os.environ.update(_PROFKIT_COMPLETE='bash_complete', COMP_WORDS='profkit d', COMP_CWORD='1')\n"
        "from profkit.cli import main\n"
        "try:\n    main([])\nexcept SystemExit:\n    pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith('profkit.')), file=sys.stderr)\n"
    )
    done = succeeded([sys.executable, "-c", script])
    assert done.stderr == "profkit.cli profkit.cli.app profkit.errors\n"


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", ".local/share/bash-completion/completions/profkit"),
        ("zsh", ".zfunc/_profkit"),
        ("fish", ".config/fish/completions/profkit.fish"),
    ],
)
def test_a_script_is_printed_and_installed(shell: str, place: str, tmp_path: Path) -> None:
    done = run("--show-completion", shell)
    assert "_PROFKIT_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout
    assert run("--show-completion", SHELL=f"/usr/bin/{shell}").stdout == done.stdout
    variables = {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    installed = run("--install-completion", shell, **variables)
    assert str(tmp_path / place) in installed.stderr
    assert (tmp_path / place).read_text() == done.stdout


def test_an_unknown_shell_is_bad_usage(tmp_path: Path) -> None:
    for words, variables in ((["--show-completion", "tcsh"], {}), (["--install-completion"], {"SHELL": ""})):
        done = run(*words, status=2, HOME=str(tmp_path), **variables)
        assert "use bash, zsh or fish" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bash_completes_with_it(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    require("bash", bash is not None, "no bash on this machine")
    starter = tmp_path / "profkit"
    starter.write_text(f'#!/bin/sh\nexec {shlex.join(profkit_command())} "$@"\n')
    starter.chmod(0o755)
    script = run("--show-completion", "bash").stdout
    ask = (
        "COMP_WORDS=(profkit di); COMP_CWORD=1; _profkit_completion profkit di profkit; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = environment(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    done = finished([bash, "--norc", "-c", f"{script}\n{ask}"], env=env, timeout=60)
    assert done.stdout.split() == ["diff"], done.stderr
