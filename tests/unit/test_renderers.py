"""The registry of renderers: every format is found by its name and its suffixes."""

from __future__ import annotations

from pathlib import Path

import pytest

import profkit
from profkit.api.reported import Layout
from profkit.cli.options import FORMATS
from profkit.errors import UsageError
from profkit.report.figures import Figure
from profkit.report.renderers import RENDERERS, Renderer, renderer_for, renderer_named
from profkit.report.reports import RunReport

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


def test_a_format_that_is_none_is_answered_by_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="html or svg"):
        profkit.read(SAMPLE).report("tsv")


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
