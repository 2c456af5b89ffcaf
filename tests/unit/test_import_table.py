"""What packages took to import: of real profiles, with what they import, and as a limit in CI."""

from __future__ import annotations

import cProfile
import json
import sys
from pathlib import Path

import pytest

from tests.shared import Capture, printed

SLEEP = "import time\ntime.sleep({})\n"


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Profiles of importing one package, and of importing further ones; sleeping makes their least seconds known."""
    files = {
        "pk_inner.py": SLEEP.format(0.12),
        "pk_outer/__init__.py": "import pk_inner\nfrom . import early\n",
        "pk_outer/early.py": SLEEP.format(0.1),
        "pk_outer/late.py": SLEEP.format(0.25),
    }
    (tmp_path / "pk_outer").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for number, code in enumerate(("import pk_inner", "import pk_outer\nimport pk_outer.late")):
        for name in [name for name in sys.modules if name.startswith("pk_")]:
            del sys.modules[name]
        profiler = cProfile.Profile()
        profiler.runctx(code, {}, {})
        found.append(str(tmp_path / f"{number}.prof"))
        profiler.dump_stats(found[-1])
    return found[0], found[1]


def test_a_package_has_what_it_imports_and_each_module_once(
    profiles: tuple[str, str], capsys: Capture
) -> None:
    imports = json.loads(printed(capsys, "show", profiles[1], "--format", "json")[0])["imports"]
    seconds = {row["package"]: row["seconds"] for row in imports["packages"]}
    assert seconds["pk_inner"] >= 0.12
    assert seconds["pk_outer"] >= seconds["pk_inner"] + 0.1 + 0.25
    # early.py is in what __init__.py took; counted again, it would be more than everything.
    assert seconds["pk_outer"] <= imports["seconds"] == imports["main_s"]
    assert "Imports took" in printed(capsys, "show", profiles[1])[0]


def test_a_comparison_names_what_changed_and_ci_can_limit_it(
    profiles: tuple[str, str], capsys: Capture
) -> None:
    imports = json.loads(printed(capsys, "diff", *profiles, "--format", "json")[0])["imports"]
    first = imports["packages"][0]
    assert (first["package"], first["baseline"], first["candidate"]["processes"]) == ("pk_outer", None, 1)
    assert "Imports" in printed(capsys, "diff", *profiles, "--full")[0].splitlines()
    for limit in ("import-time>1.5x", "import-time>50%", "import-time>0.2s"):
        assert limit in printed(capsys, "diff", *profiles, "--fail-on", limit, code=1)[1]
        printed(capsys, "diff", *reversed(profiles), "--fail-on", f"{limit},contention")
    assert "import-time>1.3x" in printed(capsys, "diff", *profiles, "--fail-on", "import-time>2", code=2)[1]


def test_a_limit_of_imports_counts_only_where_the_whole_is_slower(
    profiles: tuple[str, str], capsys: Capture
) -> None:
    words = ("diff", *profiles, "--fail-on", "import-time>1.3x", "--min-slowdown")
    assert "exit status 1: imports took" in printed(capsys, *words, "5%", code=1)[1]
    _, said = printed(capsys, *words, "9900%")
    assert "exit status 0: imports took" in said
    assert said.rstrip().endswith("× the baseline; --min-slowdown is 9900%")
