"""Reports as they look: golden files, widths, colours, hostile strings, and the answer on one screen."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import profkit
from fuzz.oracles import check_terminal
from profkit.api.reported import Layout
from profkit.model import Notice, OpenCall, Process, Run, Window
from profkit.report import html as page
from profkit.report import markdown, svg, terminal
from profkit.report.brief import brief_diff, brief_run
from profkit.report.diffdoc import diff_document
from profkit.report.document import Bullets, Column, Document, Note, Row, Section, Table, VerdictBlock
from profkit.report.figures import Figures
from profkit.report.notices import notice_text
from profkit.report.renderers import RENDERERS, Renderer, Terminal, renderer_for, renderer_named
from profkit.report.reports import RunReport
from profkit.report.showdoc import show_document
from profkit.report.text import cell_width
from profkit.report.wording.evidence import evidence_texts
from profkit.report.wording.functions import display_name
from profkit.verdict.types import CAUSES, Diff
from tests import report_builders as build

DOCUMENTS: dict[str, Callable[[], Document]] = {
    "diff-contended": lambda: diff_document(build.contended()),
    "diff-quiet": lambda: diff_document(build.quiet(), 20),
    "diff-cumtime": lambda: diff_document(by_cumtime(build.contended())),
    "diff-code-change": lambda: diff_document(build.code_change(), 20, "slow.zip"),
    "diff-undecided": lambda: diff_document(build.undecided(), 20),
    "diff-several": lambda: diff_document(build.several_causes(), 20),
    "diff-unmatched": lambda: diff_document(build.unmatched(), 20),
    "diff-unfinished": lambda: diff_document(build.unfinished(), 20),
    "show-foreign": lambda: show_document(build.foreign_run(), judged=build.UNJUDGED),
    "show-captured": lambda: show_document(build.captured_run(), by="cumtime", judged=build.UNJUDGED),
    "show-sampled": lambda: show_document(build.sampled_run(), judged=build.UNJUDGED),
    "show-verdict": lambda: show_document(build.captured_run(), judged=build.alone()),
}
HOSTILE: dict[str, Callable[[], Document]] = {
    "diff": lambda: diff_document(build.hostile(), 0),
    "show": lambda: show_document(build.hostile_run(), limit=0, judged=build.hostile_alone()),
}


def by_cumtime(diff: Diff) -> Diff:
    return replace(diff, ranking=replace(diff.ranking, by="cumtime"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_outputs_are_as_recorded(name: str, golden: Callable[[str, str], None]) -> None:
    document = DOCUMENTS[name]()
    for width in (80, 140):
        golden(f"{name}-{width}.txt", terminal.render(document, width=width))
    golden(f"{name}.md", markdown.render(document))


@pytest.mark.parametrize("make", [*DOCUMENTS.values(), *HOSTILE.values()])
@pytest.mark.parametrize("width", [60, 80, 97, 140, 200])
def test_no_line_is_wider_than_the_terminal(make: Callable[[], Document], width: int) -> None:
    document = make()
    commands = {
        item for s in document.sections for b in s.blocks if getattr(b, "commands", False) for item in b.items
    }
    for line in terminal.render(document, width=width).splitlines():
        assert cell_width(line) <= width or line.strip() in commands, line


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_reach_no_terminal_as_control_characters(make: Callable[[], Document]) -> None:
    document = make()
    plain = terminal.render(document, width=100)
    check_terminal(plain)
    assert "[bold]rich" in plain
    assert "\\x1b[31m" in plain
    colored = terminal.render(document, width=100, color_system="truecolor")
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()
    assert terminal.render(document, width=100, ascii_only=True).isascii()


def test_hostile_names_of_windows_are_text() -> None:
    run = build.captured_run()
    windows = tuple(Window(name, float(at), at + 0.5, True) for at, name in enumerate(build.HOSTILE))
    run = replace(run, manifest=replace(run.manifest, whole_s=12.4, windows=windows))
    text = terminal.render(show_document(run, limit=0, judged=build.UNJUDGED), width=200)
    check_terminal(text)
    assert "\\x1b[31mred" in text


def test_plain_text_has_no_codes_and_colours_are_closed() -> None:
    document = diff_document(build.contended())
    assert "\x1b" not in terminal.render(document)
    colored = terminal.render(document, color_system="standard")
    for line in colored.splitlines():
        assert line.count("\x1b[0m") * 2 == line.count("\x1b["), line
    assert "\x1b[1;31m✗ 3.09× slower, 3.21 → 9.93 s: resource contention" in colored


def many(n: int) -> Diff:
    rows = [
        build.Row(f"function_{i}" * 12, f"package/module_{i}.py", before=(1.0, 5), after=(3.0, 5), moved=True)
        for i in range(n)
    ]
    return replace(build.contended(), table=build.table(rows))


def test_markdown_is_cut_to_one_comment_and_says_so() -> None:
    """The biggest table is cut first, at a row, and the small tables are whole."""
    diff = many(3000)
    text = markdown.render(diff_document(diff, 0))
    # Nearly all of the room is used.
    assert 0.9 * markdown.MAX_BYTES < len(text.encode()) <= markdown.MAX_BYTES
    assert "Cut to" in text.splitlines()[0]
    assert "What to do next" in text
    for evidence in diff.verdict.evidence:
        assert evidence_texts(evidence).signal in text
    cut = re.search(r"_([\d,]+) more rows were cut\._", text)
    assert cut
    shown = text.count("<code>function&#95;") + text.count("<code>function_")
    assert shown + int(cut[1].replace(",", "")) == 3000
    assert "Cut" not in markdown.render(diff_document(many(20), 0))
    warnings = tuple(Notice("text", f"warning {i} " + "w" * 3000) for i in range(3000))
    long = markdown.render(diff_document(replace(build.contended(), warnings=warnings)))
    assert len(long.encode()) <= markdown.MAX_BYTES
    wide = Table((Column("a"),), (Row(("x" * 20_000,)),) * 4)
    text = markdown.render(Document("", (Section("", (wide,)),)))
    assert "comment: 1 row is left out;" in text.splitlines()[0]


def test_no_function_is_dropped_silently() -> None:
    """Each row of the table is listed or counted: those in no list are below the noted share."""
    diff = build.contended()
    text = terminal.render(diff_document(diff), width=200)
    assert "1 function is not listed: below 0.1 % of the self time on both sides." in text
    everything = html.unescape(markdown.render(diff_document(diff, 0)))
    assert "functions shown" not in everything
    assert all(display_name(row.name) in everything for row in build.ROWS)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_a_headline_that_names_it(cause: str) -> None:
    diff = build.contended()
    verdict = replace(diff.verdict, cause=cause, rule="less-time", kind=None)
    first = terminal.render(diff_document(replace(diff, verdict=verdict)), width=120).splitlines()[0]
    assert first.lower().count(cause) == 1 or f"({cause})" in first


def test_empty_sides_render() -> None:
    empty = replace(build.quiet(), table=build.table([]))
    assert "No function that both sides have" in terminal.render(diff_document(empty))
    assert markdown.render(diff_document(empty))
    run = build.foreign_run()
    assert "no function" in terminal.render(show_document(replace(run, processes=()), judged=build.UNJUDGED))


def test_skipped_files_and_warnings_are_shown() -> None:
    diff = build.contended()
    skipped = (Notice("file-skipped", "old.prof", {"problem": "is empty"}),)
    diff = replace(diff, baseline=replace(diff.baseline, skipped=skipped))
    for text in (terminal.render(diff_document(diff)), markdown.render(diff_document(diff))):
        assert "baseline: old.prof: is empty" in text
        assert all(notice_text(warning) in text for warning in diff.warnings)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<method 'acquire' of '_thread.lock' objects>", "_thread.lock.acquire"),
        ("<built-in method builtins.exec>", "builtins.exec"),
        ("<built-in method __new__ of type object at 0x7f01>", "__new__"),
        ("<built-in method run of torch._C._EngineBase object at 0x7f>", "torch._C._EngineBase.run"),
        ("<listcomp>", "<listcomp>"),
        ("Model.forward.<locals>.<lambda>", "Model.forward.<locals>.<lambda>"),
    ],
)
def test_builtin_functions_are_shown_by_their_name(name: str, shown: str) -> None:
    assert display_name(name) == shown


def test_open_calls_are_those_of_processes_that_were_ended() -> None:
    def told(run: Run) -> bool:
        sections = show_document(run, judged=build.UNJUDGED).sections
        return "Calls that had not returned" in [section.title for section in sections]

    run = build.captured_run()
    first, killed = run.processes
    of_pool = replace(run, processes=(first, replace(killed, role="worker")))
    assert told(run)
    assert told(of_pool)
    assert not told(replace(of_pool, manifest=replace(run.manifest, exit_status=0)))
    assert not told(replace(run, processes=(first, replace(killed, exit="exited"))))


def test_the_stack_of_a_killed_program_stands_before_its_workers() -> None:
    run = build.captured_run()
    killed = run.processes[1]
    (thread,) = killed.threads

    def ended(role: str, *seconds: float) -> Process:
        calls = tuple(OpenCall(at, s) for at, s in enumerate(seconds))
        return replace(killed, role=role, threads=(replace(thread, open_calls=calls),))

    run = replace(run, processes=(ended("worker", 9.0, 8.0), ended("main", 1.0, 7.0)))
    document = show_document(run, judged=build.UNJUDGED)
    (section,) = (s for s in document.sections if s.title == "Calls that had not returned")
    (table,) = section.blocks
    assert [row.cells[1] for row in table.rows] == [7.0, 1.0, 9.0, 8.0]


def test_a_page_keeps_numbers_and_units_together() -> None:
    text = "queued in 57 % of 3.5 s, 2 sides"
    document = Document("", (Section("", (Note(text), Bullets((text,)))),))
    assert page.render(document).count("queued in 57\u00a0% of 3.5\u00a0s, 2 sides") == 2


@pytest.mark.parametrize(
    ("rbo", "apart", "reordered", "reading"),
    [
        (0.5, 0.5, True, "beyond what repeats of one program show"),
        (0.5, 0.01, False, "only functions of nearly equal time changed places"),
        (0.02, 0.2, False, "within the noise (rank-biased"),
        (0.02, 0.2, False, "20.0 % of the self time is in different functions, beyond the noise"),
    ],
)
def test_the_order_and_the_time_between_functions_are_told_apart(
    rbo: float, apart: float, reordered: bool, reading: str
) -> None:
    diff = build.contended()
    ranking = replace(diff.ranking, rbo=rbo, total_variation=apart, reordered=reordered)
    text = terminal.render(diff_document(replace(diff, ranking=ranking)), width=200)
    assert reading in " ".join(text.split())


def test_the_answer_is_repeated_where_the_top_has_scrolled_away() -> None:
    document = diff_document(build.contended())
    once = terminal.render(document)
    head = once.splitlines()[0]
    assert head.startswith("✗ 3.09× slower, 3.21 → 9.93 s: resource contention")
    assert terminal.render(document, height=10_000) == once
    again = terminal.render(document, height=24)
    assert again.startswith(once)
    assert again.splitlines()[len(once.splitlines()) :][1] == head
    foreign = show_document(build.foreign_run(), judged=build.UNJUDGED)
    assert terminal.render(foreign, height=3).startswith("file")


# The registry


def test_names_and_suffixes_are_each_of_one() -> None:
    names = [renderer.name for renderer in RENDERERS]
    suffixes = [suffix for renderer in RENDERERS for suffix in renderer.suffixes]
    assert len(set(names)) == len(names)
    assert len(set(suffixes)) == len(suffixes)
    for renderer in RENDERERS:
        assert renderer_named(renderer.name) is renderer
        assert renderer.default_rows > 0
        for suffix in renderer.suffixes:
            assert renderer_for(Path(f"a{suffix.upper()}")) is renderer
    assert {renderer.name for renderer in RENDERERS if renderer.draws} == {"html", "svg"}


@pytest.mark.parametrize("renderer", RENDERERS)
def test_figures_are_made_only_for_what_draws(
    renderer: type[Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    figures = RunReport.figures

    def watched(report: RunReport) -> Figures:
        made.append(report)
        return figures(report)

    monkeypatch.setattr(RunReport, "figures", watched)
    report = profkit.read(SAMPLES / "mpi_train" / "oversubscribed.prof")
    text = renderer().render(report.laid_out(Layout(drawn=True)), 5)
    assert text.endswith("\n")
    assert bool(made) == renderer.draws


# What a terminal shows unless the whole report is asked for: the answer, on one screen

SAMPLES = Path(__file__).resolve().parents[2] / "sample_profiles"
RUNS = sorted(SAMPLES.glob("*/*.prof"))
PAIRS = [pair for pair in itertools.permutations(RUNS, 2) if pair[0].parent == pair[1].parent]


def head(diff: Diff) -> VerdictBlock:
    (block,) = [b for s in brief_diff(diff).sections for b in s.blocks if isinstance(b, VerdictBlock)]
    return block


def tables(document: Document) -> list[Table]:
    return [b for s in document.sections for b in s.blocks if isinstance(b, Table)]


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair[0].parent.name}-{pair[0].stem}-{pair[1].stem}"
)
def test_a_real_comparison_fits_on_one_screen(pair: tuple[Path, Path]) -> None:
    text = profkit.diff(*pair).report(Terminal(brief=True))
    lines = text.splitlines()
    assert len(lines) <= 30
    assert lines[0][:1] in "✗✓?"
    # Only what is to be pasted is wider than the terminal, and it stands last.
    wide = [line for line in lines if len(line) > 80]
    assert all(line.startswith("    ") for line in wide)
    (last,) = [at for at, line in enumerate(lines) if "--full prints the whole report" in line]
    assert all(line.startswith("    ") for line in lines[last + 1 :])


@pytest.mark.parametrize(
    "make",
    [
        *(build.contended, build.quiet, build.code_change, build.undecided),
        *(build.unfinished, build.several_causes, build.unmatched, lambda: many(3000)),
    ],
)
def test_every_kind_of_comparison_fits(make: Callable[[], Diff]) -> None:
    assert len(terminal.render(brief_diff(make())).splitlines()) <= 30


def test_the_functions_of_a_run_that_failed_are_not_compared() -> None:
    first, *rest = brief_diff(build.unfinished()).sections
    assert {type(block).__name__ for block in first.blocks} <= {"VerdictBlock", "Note"}
    assert all(section.title.startswith("What to do next") for section in rest if section.blocks)


def test_no_lost_time_is_no_alarm() -> None:
    diff = build.contended()
    alike = replace(diff, account=build.account(3.21, 3.25, queue=0.04))
    assert head(alike).tone == "unsure"
    assert head(alike).headline.startswith("1.01× slower")
    same = replace(diff, account=build.account(3.21, 3.21))
    assert head(same).headline.startswith("No slower, 3.21 → 3.21 s, but resource contention")
    assert head(diff).tone == "bad"


def test_two_starved_runs_are_no_good_news() -> None:
    diff = build.quiet()
    assert head(diff).tone == "good"
    waited = {"both.lacked-cpus": True}
    starved = replace(diff, verdict=replace(diff.verdict, numbers={**diff.verdict.numbers, **waited}))
    assert head(starved).tone == "unsure"
    assert head(starved).headline == "No change, but both runs lacked CPUs: 3.96 → 4.00 s"


def test_functions_are_listed_where_they_matter() -> None:
    functions = tables(brief_diff(build.contended()))[-1]
    assert functions.columns[0].title == "function"
    change = [row.cells[1] for row in functions.rows]
    seconds = [abs(after - before) for before, after in change]  # type: ignore[misc, union-attr]
    assert seconds == sorted(seconds, reverse=True)
    assert len(functions.rows) <= 5
    # Where nothing changed no function matters.
    assert all(table.columns[0].title != "function" for table in tables(brief_diff(build.quiet())))


def test_by_cumtime_shares_and_queues_are_of_the_cumtime() -> None:
    run = build.captured_run()
    brief = tables(brief_run(run, build.UNJUDGED, "cumtime"))[-1]
    assert [column.title for column in brief.columns[1:4]] == ["cumtime", "share", "queued"]
    whole = [row.cells[1:4] for row in brief.rows]
    assert [share for _, share, _ in whole] == pytest.approx([1.0, 12.4 / 18, 5.9 / 18, 1.2 / 18])
    assert {queued for *_, queued in whole} == {0.5}
    full = show_document(run, by="cumtime", judged=build.UNJUDGED)
    listed = next(b for s in full.sections if s.title == "Functions by cumtime" for b in s.blocks)
    assert isinstance(listed, Table)
    assert [column.title for column in listed.columns[2:5]] == ["cumtime", "share", "tottime"]
    assert [row.cells[2:4] for row in listed.rows] == [cells[:2] for cells in whole]
    assert "18.0 s, 100 %" in svg.render(full)
