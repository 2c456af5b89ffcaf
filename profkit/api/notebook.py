"""``%load_ext profkit`` and ``%%profkit`` for IPython and Jupyter: capture a cell, and show its report.

What IPython looks for in an extension is in ``profkit`` under its names (`load_ipython_extension`). IPython is imported
by who has it already; profkit does not depend on it.
"""

from __future__ import annotations

import ast
import os
import tempfile
from typing import Any

from IPython.core.error import UsageError as MagicUsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from profkit.api.diff import diff
from profkit.api.reported import Reported
from profkit.api.run import read
from profkit.capture.block import Block
from profkit.errors import ProfkitError

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to an IPython shell."""
    shell.register_magics(ProfkitMagics)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magic out of an IPython shell."""
    shell.magics_manager.magics["cell"].pop("profkit", None)


@magics_class
class ProfkitMagics(Magics):  # type: ignore[misc,unused-ignore]
    """The magic of profkit."""

    @magic_arguments()  # type: ignore[untyped-decorator,misc,unused-ignore]
    @argument("-o", "--output", metavar="FILE", help="Run file to keep; without it none is left.")
    @argument("--diff", metavar="BASELINE", help="Compare the cell with this run file, directory or glob.")
    @argument("--by", default="tottime", help="Rank functions by tottime or cumtime.  [default: tottime]")
    @argument("--full-paths", action="store_true", help="Leave paths, users and host names as they are.")
    @cell_magic
    def profkit(self, line: str, cell: str) -> Any:
        """Capture a cell with profkit, and show what it did or why it differs from another run.

        The names that the cell sets are those of the notebook, and its last expression is its value.
        """
        options = parse_argstring(self.profkit, line)
        try:
            return self._profile(options, cell)
        except ProfkitError as error:
            raise MagicUsageError(str(error)) from None

    def _profile(self, options: Any, cell: str) -> Any:
        with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
            kept = None if options.output is None else os.path.expanduser(options.output)
            output = kept or os.path.join(directory, "cell.prof")
            try:
                value = self._run(cell, output)
            except ProfkitError:
                raise
            except BaseException:
                self.shell.showtraceback()
                return None
            run = read(output, by=options.by)
            result: Reported = run
            if options.diff is not None:
                result = diff(os.path.expanduser(options.diff), run, by=options.by)
            # What shows HTML takes it, a terminal the text: the front end knows which it is.
            display(
                {
                    "text/plain": result.report("terminal", full_paths=options.full_paths),
                    "text/html": result.notebook_html(full_paths=options.full_paths),
                },
                raw=True,
            )
        return value

    def _run(self, cell: str, output: str) -> Any:
        """Run a cell as IPython does, captured, and return the value of its last expression."""
        shell = self.shell
        transformed = shell.transform_cell(cell)
        # Under this name tracebacks find the source.
        name = shell.compile.cache(transformed, shell.execution_count, raw_code=cell)
        tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=name))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        statements = shell.compile(tree, name, "exec")
        expression = None if last is None else shell.compile(ast.Expression(last.value), name, "eval")
        with Block(output, charged=False):
            exec(statements, shell.user_ns)
            return None if expression is None else eval(expression, shell.user_ns)
