"""One process of a run: ``profkit view`` in snakeviz, in the browser, and ``profkit extract`` as a plain file.

Unlike snakeviz's own server, that of ``view`` serves only this profile, from memory, and escapes the names of
functions.
"""

from __future__ import annotations

import marshal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import printable, say
from profkit.cli.app import CONTEXT
from profkit.cli.options import flag, number_option, one_process_option, output_option, run_argument
from profkit.cli.progress import Progress
from profkit.errors import ProfkitError, UsageError

if TYPE_CHECKING:
    from profkit.model import Process, Profile, Run

_MISSING = "snakeviz is not installed here, run: pip install snakeviz"


@click.command(context_settings=CONTEXT)
@run_argument
@one_process_option
@flag("--no-browser", "Only print the address; open it yourself.")
@number_option("--port", "Port to listen on.  [default: a free one]", 0, least=0)
def view(run: Path, process: str | None, no_browser: bool, port: int) -> None:
    """Open one process of a run in snakeviz.

    It needs snakeviz beside profkit: pip install snakeviz.
    """
    from profkit.formats import load_run

    with Progress("opening"):
        loaded = load_run(run)
    profile = chosen_profile(loaded, process)
    serve(page_of(profile, run.name), port, browser=not no_browser)


def page_of(profile: Profile, name: str) -> tuple[str, str, str]:
    """Return the name, the rows and the call tree for snakeviz's page."""
    import json
    import pstats

    from profkit.formats import write_pstats

    try:
        from snakeviz.stats import json_stats, table_rows  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ProfkitError(_MISSING) from None
    # An input of `pstats.Stats` is an object that makes and has the dictionary.
    made = SimpleNamespace(stats=marshal.loads(write_pstats(profile)), create_stats=lambda: None)
    stats = pstats.Stats(made)  # type: ignore[arg-type]
    # Both are embedded in a script, which a function called ``</script>`` would end.
    rows, tree = (json.dumps(part).replace("<", "\\u003c") for part in (table_rows(stats), json_stats(stats)))
    return name, rows, tree


def serve(page: tuple[str, str, str], port: int, *, browser: bool) -> None:
    """Serve the page until the user interrupts; raises `UsageError` if the port (0: any) cannot be used."""
    import asyncio
    import socket

    try:
        from snakeviz.main import settings  # type: ignore[import-untyped,unused-ignore]
        from tornado.httpserver import HTTPServer
        from tornado.web import Application, RequestHandler
    except ImportError:
        raise ProfkitError(_MISSING) from None
    name, rows, tree = page

    class Page(RequestHandler):  # type: ignore[misc,unused-ignore]
        def get(self) -> None:
            self.render("viz.html", profile_name=name, table_rows=rows, callees=tree)

    places: dict[str, Any] = {key: settings[key] for key in ("static_path", "template_path")}
    application = Application(compress_response=True, **places)
    # Refuse other host names: a web site could use one to read the page (DNS rebinding).
    application.add_handlers(r"(127\.0\.0\.1|localhost)", [(r"/", Page)])
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen there, {error}; leave --port out", "port", port) from None

    async def run() -> None:
        server = HTTPServer(application)
        listening.setblocking(False)
        server.add_sockets([listening])
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        print(f"{printable(name)} is at {address} until Ctrl-C", flush=True)
        if browser:
            import webbrowser

            # A browser may be slow, or run in this terminal; the server must answer meanwhile.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        await asyncio.Event().wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        # The normal way to end.
        print()


@click.command(context_settings=CONTEXT)
@run_argument
@output_option("File to write.", "OUT.prof", required=True)
@one_process_option
def extract(run: Path, output: Path, process: str | None) -> None:
    """Write one process as a plain pstats file.

    Nothing in it is masked: paths and names are as they were recorded. To post a run, use --ticket or export.
    """
    from profkit.api.files import keep_inputs, write_file
    from profkit.formats import load_run, write_pstats

    with Progress("extracting"):
        loaded = load_run(run)
    keep_inputs((loaded.path,), output)
    write_file((write_pstats(chosen_profile(loaded, process)),), output)


def chosen_profile(run: Run, process: str | None) -> Profile:
    """Return the profile of a process, and say which if the user chose none.

    Raises `UsageError` if there is no such process, or it has no function.
    """
    from profkit.measure.selected_processes import select

    chosen = select(run, process or "main")
    if not len(chosen.profile):
        raise UsageError(f"{run.path}: this process has no functions; profkit show lists the others")
    others = [p for p in run.processes if p.profiled and p not in chosen.processes]
    if process is None and others:
        taken = ", ".join(_name(p) for p in chosen.processes)
        say(
            f"took {taken} of {len(others) + len(chosen.processes)} processes; --process all takes all of them"
        )
    return chosen.profile


def _name(process: Process) -> str:
    parts = [] if process.rank is None else [f"rank {process.rank}"]
    parts += [] if process.pid is None else [f"pid {process.pid}"]
    return f"the {process.role} process" + (f" ({', '.join(parts)})" if parts else "")
