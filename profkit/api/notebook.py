"""``%load_ext profkit`` and ``%%profkit`` for IPython and Jupyter; only IPython imports this module."""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from IPython.core import magic_arguments
from IPython.core.error import UsageError as MagicUsageError

from profkit.api.diff import diff
from profkit.api.files import keep_inputs
from profkit.api.reported import Reported
from profkit.api.run import read
from profkit.capture.block import Block
from profkit.errors import ProfkitError
from profkit.formats.load import load_side
from profkit.measure.selected_processes import check_ranked_by

_NAME = "profkit"


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to an IPython shell."""
    parser = _arguments()

    def profkit(line: str, cell: str) -> Any:
        try:
            options = parser.parse_args(shlex.split(line, posix=os.name == "posix"))  # a path may be quoted
        except ValueError as error:
            raise MagicUsageError(f"{line}: {error}") from None
        try:
            return _profile(shell, options, cell)
        except ProfkitError as error:
            raise MagicUsageError(str(error)) from None

    profkit.__doc__ = parser.format_help()
    shell.register_magic_function(profkit, magic_kind="cell", magic_name=_NAME)


def _arguments() -> Any:
    untyped: Any = magic_arguments
    parser = untyped.MagicArgumentParser(
        prog=_NAME,
        description="Capture a cell with profkit, and show what it did, or why it differs from another run.\n\n"
        "The names that the cell sets are those of the notebook, and its last expression is its value.",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="run file to keep; without it none is left")
    parser.add_argument(
        "--diff", metavar="BASELINE", help="compare the cell with this run file, directory or glob"
    )
    parser.add_argument(
        "--by", default="tottime", help="rank functions by tottime or cumtime (default: tottime)"
    )
    parser.add_argument(
        "--full-paths", action="store_true", help="leave paths, users and host names as they are"
    )
    return parser


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magic from an IPython shell."""
    shell.magics_manager.magics["cell"].pop(_NAME, None)


def _profile(shell: Any, options: argparse.Namespace, cell: str) -> Any:
    kept = None if options.output is None else os.path.expanduser(options.output)
    baseline = None if options.diff is None else os.path.expanduser(options.diff)
    # What is wrong is said before the cell runs.
    check_ranked_by(options.by)
    if baseline is not None:
        inputs = [run.path for run in load_side(baseline).runs]
        keep_inputs(inputs, None if kept is None else Path(kept))
    with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
        output = kept or os.path.join(directory, "cell.prof")
        value = _run(shell, cell, output)  # what the cell raises ends it, and a notebook that runs unattended
        run = read(output, by=options.by)
        result: Reported = run
        if baseline is not None:
            result = diff(baseline, run, by=options.by)
        # The front end chooses: HTML if it can show it, else text.
        shown = {
            "text/plain": result.report("terminal", full_paths=options.full_paths),
            "text/html": result.notebook_html(full_paths=options.full_paths),
        }
        shell.display_pub.publish(shown)
    return value


def _run(shell: Any, cell: str, output: str) -> Any:
    """Capture a cell that runs as in IPython, and return the value of its last expression."""
    transformed = shell.transform_cell(cell)
    # Tracebacks find the source under this name.
    name = shell.compile.cache(transformed, shell.execution_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    statements = shell.compile(tree, name, "exec")
    expression = None if last is None else shell.compile(ast.Expression(last.value), name, "eval")
    with Block(output, charged=False):
        exec(statements, shell.user_ns)
        return None if expression is None else eval(expression, shell.user_ns)
