"""Examples in the help of every command; a test parses each. Separate, so that help imports one command."""

from __future__ import annotations

#: An example a line, with a remark; a line that begins with spaces is an example of the command above it.
_TEXT = """
profkit capture -- python train.py --epochs 2  # writes run.prof
profkit capture -o fast.prof -- python train.py  # under a name
profkit capture --repeat 5 -o fast.prof -- python train.py  # fast-1.prof … fast-5.prof
profkit capture -- mpirun -n 4 python train.py  # all ranks in one file
profkit attach 4711  # half a minute of process 4711 and its children
profkit attach 4711 --duration 5 -o now.prof  # five seconds
profkit show run.prof  # what the run lacked, on one screen
profkit show run.prof --full --limit 50  # the whole report
profkit show run.prof -o report.html  # as a page
profkit show run.prof --format json  # for scripts
profkit diff fast.prof slow.prof  # why the second is slower
profkit diff 'fast-*.prof' 'slow-*.prof'  # several runs a side; the quotes matter
profkit diff fast.prof slow.prof --ticket -o slow.md  # to post: slow.md, and slow.zip
profkit diff fast.prof slow.prof --fail-on code-change  # exit status for CI
profkit verify slow.prof  # tries the first advice of profkit show
profkit verify fast.prof slow.prof 2  # the second of profkit diff
profkit compare run.prof fast.prof slow.prof  # one row each
profkit compare --against best 'fast-*.prof' 'slow-*.prof'  # against the fastest
profkit history runs  # the runs of a directory, in order of time
profkit history runs --min-change 5% -o trend.html  # changes of 5 % and more, as a page
profkit baseline save main 'fast-*.prof'  # keeps copies under a name
profkit baseline use main  # makes it the one in use
  profkit diff baseline: slow.prof  # compares with it
profkit fleet add 'runs/*.prof'  # adds new files to ./fleet
profkit fleet slowest  # jobs, functions and runs that got slower
profkit fleet trend normalise --job train  # one function over days
profkit fleet hosts  # slower at the same work, or starved
profkit fleet compare train@last-week train  # why, from run files of both
profkit fleet query "SELECT job, count(*) FROM runs GROUP BY job"  # SQL
profkit ranks job.prof  # ranks of one capture, or joined by profkit merge
profkit ranks 'node-rank*.prof'  # one file for each rank
profkit scaling 1.prof 2.prof 4.prof  # the same work on more processes
profkit scaling --weak 1.prof 2.prof 4.prof  # work that grows with them
profkit sweep -p n=1,2,4 -- python train.py --workers {n}  # each value, in turn
profkit sweep -e OMP_NUM_THREADS=1,2 -- python train.py  # a variable
profkit sweep --dir sweep -o sweep.html  # the study again, as a page
profkit tune -p n=1..16 -- python train.py --workers {n}  # the fastest, confirmed
profkit tune -p bs=16..512:log --objective json:out.json:loss -- python train.py --bs {bs}\
  # minimises a figure in a file that the program writes
profkit doctor  # libraries of the active Python
profkit doctor --ranks 8 --workers 4  # a plan
profkit doctor -- python train.py  # what a command really starts
profkit mcp  # what a client of MCP starts; docs/howto/assistants.md
profkit merge node-rank*.prof -o node.prof  # one file for each rank → one run
profkit merge .run.prof.spool-k3x9 -o run.prof  # rescues a capture that was killed
profkit extract run.prof -o main.prof  # the main process, for any viewer of cProfile
profkit extract run.prof --process all -o all.prof  # all processes, summed
profkit view run.prof  # the main process, in the browser
profkit view run.prof --process all --no-browser  # all of them; prints the address
profkit export run.prof --to perfetto -o trace.json.gz  # opens in ui.perfetto.dev
profkit export run.prof --to speedscope -o run.speedscope.json  # functions
profkit export run.prof --to pstats -o masked.prof  # functions, masked, to post
profkit demo  # captures a fast and a slow run, and compares them
"""
#: Width of an example in the help, its remark included.
_COLUMNS = 76


def _parsed(text: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.strip().splitlines():
        example, _, remark = line.partition("  # ")
        name = name if line.startswith(" ") else example.split()[1]
        found.setdefault(name, []).append((example.strip(), remark))
    return found


#: Examples and their remarks, by command.
EXAMPLES = _parsed(_TEXT)


def epilog(name: str) -> str:
    """Return a command's examples as click prints them: unwrapped, with all remarks beside or all above."""
    examples = EXAMPLES[name]
    width = max(len(command) for command, _ in examples)
    beside = all(width + 2 + len(remark) <= _COLUMNS for _, remark in examples)
    lines = ["\b", "Examples:"]
    for command, remark in examples:
        lines += [f"  {command:{width}}  {remark}"] if beside else [f"  # {remark}", f"  {command}"]
    return "\n".join(lines)
