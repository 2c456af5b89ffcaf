"""``profkit mcp``: a server of the Model Context Protocol on stdin and stdout, whose tools read run files.

Answers are masked JSON. No argument names a command, an interpreter or a file to write.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import profkit
from profkit.cli import one_line
from profkit.cli.app import CONTEXT
from profkit.errors import ProfkitError, UsageError

if TYPE_CHECKING:
    from profkit.api.reported import Reported

#: Default rows of a list in an answer: an assistant reads them all.
ROWS = 20


@click.command(context_settings=CONTEXT)
def mcp() -> None:
    """Serve diff, show, explain and doctor to an assistant over MCP.

    A client starts it, and speaks to it through standard input and output. It reads files and changes nothing.
    """
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise UsageError("this needs the MCP SDK, version 2: pip install 'profkit[mcp]'") from None
    server = MCPServer("profkit", version=profkit.__version__, log_level="ERROR")
    from mcp.types import ToolAnnotations

    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (diff, show, explain, doctor):
        server.tool(annotations=reads, structured_output=False)(_answering(tool))
    server.run("stdio")


def diff(baseline: str, candidate: str, limit: int = ROWS) -> str:
    """Say why one profiled run is slower than another: verdict, account of the time, evidence, functions, advice.

    Sides are paths of run files of `profkit capture` or of cProfile, directories of them, or patterns; limit is the
    most rows of a list.
    """
    return profkit.diff(baseline, candidate).report("json", limit=limit)


def show(run: str, limit: int = ROWS) -> str:
    """Say what one profiled run lacked and where its time went. Run is the path of a run file or of a pstats file."""
    return profkit.read(run).report("json", limit=limit)


def explain(candidate: str, baseline: str = "", limit: int = ROWS) -> str:
    """Say why the verdict on a run, alone or against a baseline, is what it is: with all conditions of all rules."""
    found: Reported = profkit.diff(baseline, candidate) if baseline else profkit.read(candidate)
    return found.report("json", limit=limit, explain=True)


def doctor(ranks: int | None = None, workers: int | None = None, threads: int | None = None) -> str:
    """Say how many threads and processes libraries of Python would start here, and whether that is too much.

    A plan may be given: ranks on this machine, worker processes of each rank, threads of each process.
    """
    from profkit.api.doctor import doctor as examine

    return examine(ranks=ranks, workers=workers, threads=threads).report("json")


def _answering(tool: Callable[..., str]) -> Callable[..., Any]:
    """Return a tool that answers with headline and JSON, and with errors in the command line's words."""
    from mcp.types import CallToolResult, TextContent

    @functools.wraps(tool)
    def answer(**given: Any) -> CallToolResult:
        try:
            text = tool(**given)
        except (ProfkitError, OSError) as error:
            said = (
                one_line(error) if isinstance(error, ProfkitError) else f"{error.filename}: {error.strerror}"
            )
            return CallToolResult(content=[TextContent(type="text", text=said)], is_error=True)
        found = json.loads(text)
        told_of = found["text"] if "text" in found else found["verdict"]
        headline = (
            f"{told_of['headline']}. {told_of['summary']}"
            if told_of
            else "Nothing that was measured slowed it down."
        )
        # Clients without structured content read the JSON as text.
        blocks = [TextContent(type="text", text=part) for part in (headline, text)]
        return CallToolResult(content=[*blocks], structured_content=found)

    answer.__annotations__ = {**tool.__annotations__, "return": CallToolResult}
    return answer
