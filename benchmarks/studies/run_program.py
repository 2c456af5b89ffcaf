"""Run a program of the verdict benchmark with some workers and threads: ``run_program.py NAME WORKERS THREADS``."""

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the settings beside a copy of the program, and become the program."""
    name, workers, threads, work = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    folder = Path(tempfile.gettempdir()) / f"profkit-studies-{name}-{workers}-{threads}"
    folder.mkdir(exist_ok=True)
    source = HERE.parent / "verdict" / "programs" / f"{name}.py"
    (folder / f"{name}.py").write_bytes(source.read_bytes())
    settings = {"work": work, "size": 1.0, "threads": threads, "workers": workers, "port": 0}
    (folder / "settings.json").write_text(json.dumps(settings))
    os.chdir(folder)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.execv(sys.executable, [sys.executable, f"{name}.py"])


main()
