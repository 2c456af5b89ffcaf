"""The registry of renderers: every format is found by its name and its suffixes, and one more is one class."""

from __future__ import annotations

from pathlib import Path

import pytest

import profkit
from profkit.api.reported import Layout
from profkit.cli.options import FORMATS
from profkit.errors import UsageError
from profkit.report import renderers
from profkit.report.figures import Figure
from profkit.report.renderers import RENDERERS, Renderer, renderer_for, renderer_named
from profkit.report.reports import Report, RunReport

SAMPLE = Path(__file__).resolve().parents[2] / "sample_profiles" / "train_mlp" / "clean-1.prof"


def test_names_and_suffixes_are_each_of_one() -> None:
    names = [renderer.name for renderer in RENDERERS]
    suffixes = [suffix for renderer in RENDERERS for suffix in renderer.suffixes]
    assert tuple(names) == FORMATS
    assert len(set(names)) == len(names)
    assert len(set(suffixes)) == len(suffixes)
    for renderer in RENDERERS:
        assert renderer_named(renderer.name) is renderer
        assert renderer.default_rows > 0
        for suffix in renderer.suffixes:
            assert renderer_for(Path(f"a{suffix.upper()}")) is renderer
    assert {renderer.name for renderer in RENDERERS if renderer.draws} == {"html", "svg"}


class Csv(Renderer):
    """Functions as comma-separated values."""

    name = "csv"
    suffixes = (".csv",)
    default_rows = 3

    def render(self, report: Report, rows: int) -> str:
        document = report.document(rows)
        assert document.figures == ()
        return f"{document.title},{rows}\n"


def test_another_format_is_a_class_and_an_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(renderers, "RENDERERS", (*RENDERERS, Csv))
    run = profkit.read(SAMPLE)
    assert run.report("csv") == "profkit show,3\n"
    run.save(tmp_path / "a.csv", limit=7)
    assert (tmp_path / "a.csv").read_text() == "profkit show,7\n"
    with pytest.raises(UsageError, match="html, svg or csv"):
        run.report("tsv")


@pytest.mark.parametrize("renderer", RENDERERS)
def test_figures_are_made_only_for_what_draws(
    renderer: type[Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    figures = RunReport.figures

    def watched(report: RunReport) -> tuple[Figure, ...]:
        made.append(report)
        return figures(report)

    monkeypatch.setattr(RunReport, "figures", watched)
    text = renderer().render(profkit.read(SAMPLE).laid_out(Layout(drawn=True)), 5)
    assert text.endswith("\n")
    assert bool(made) == renderer.draws
