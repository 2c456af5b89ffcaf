"""Options of commands that write a report."""

from __future__ import annotations

from profkit.cli.options import (
    chosen,
    flag,
    number_option,
    one_of,
    option,
    options,
    output_option,
    process_of,
    rank_option,
)
from profkit.cli.output import ReportOptions
from profkit.report.renderers import RENDERERS, Svg

_FORMATS = [renderer.name for renderer in RENDERERS]

_output = output_option("Write to a .html, .svg, .json, .md or .txt file instead of stdout.", stdout=True)
#: For reports without SVG.
text_output = output_option(
    "Write the report to a .html, .json, .md or .txt file instead of stdout.", stdout=True
)
#: The second is for reports without a picture of their own.
format_option, text_format_option = (
    option(
        "--format", "|".join(names), "Format.  [default: by the suffix of -o]", shell_complete=one_of(*names)
    )
    for names in (_FORMATS, [name for name in _FORMATS if name != Svg.name])
)
_limit = option(
    "--limit", "N", "Maximum rows of a list; 0 for all.  [default: 20 on the terminal, else 50]", type=int
)
full_paths_option = options(
    flag("--full-paths", "Do not mask paths, users, host names and command lines in files and tickets."),
    flag(
        "--mask-names",
        "Replace names of functions, ranges and files by pseudonyms, except in Python and packages.",
    ),
)

#: For commands that read one run or two sides; the other options are parameters of `profkit.read`.
report_options = options(
    _output,
    format_option,
    option(
        "--by",
        "tottime|cumtime",
        "Rank by self time, or by time including callees.  [default: tottime]",
        default="tottime",
        shell_complete=one_of("tottime", "cumtime"),
    ),
    process_of("all"),
    _limit,
    option(
        "--iteration",
        "NAME",
        "NVTX range that is one iteration; * matches anything. Repeatable.  [default: by name]",
        multiple=True,
    ),
    option("--load", "NAME", "NVTX range that loads data. Repeatable.  [default: by name]", multiple=True),
    option("--compute", "NAME", "NVTX range that computes. Repeatable.  [default: by name]", multiple=True),
    number_option("--batch-size", "Samples in one iteration.  [default: payload of its range]"),
    flag("--full", "Print the whole report on the terminal, not only the answer; --limit implies it."),
    flag(
        "--explain",
        "Explain the verdict: rules that hold, and what other rules lack; with --full, in files and in "
        "JSON, every condition of every rule.",
    ),
    full_paths_option,
    flag(
        "--ticket", "Write Markdown to paste (to -o or stdout), and next to it a .zip of the runs to attach."
    ),
    flag("--open open_report", "Write the page (to -o, else a temporary file) and open it in the browser."),
    rank_option,
    chosen,
    report=ReportOptions,
)

#: For commands that read many runs.
many_runs_options = options(_output, format_option, _limit, full_paths_option, report=ReportOptions)

dask_option = option("--dask", "ADDRESS", "Dask scheduler whose workers read the files instead.")
#: For commands that read the files of many processes.
study_options = options(
    option(
        "--wait waits",
        "NAME",
        "Function in which processes wait for each other; * matches anything. Repeatable.  [default: by name]",
        multiple=True,
    ),
    number_option("--jobs", "Processes that read the files.  [default: one for each CPU]"),
    dask_option,
    many_runs_options,
)
