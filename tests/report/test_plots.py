from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cldrank.drawing.svg import BOTTOM, TOP, draw_figure
from cldrank.experiment.records import load_results
from cldrank.report.plots import figures, method_looks
from cldrank.report.sections import Section, sections


def test_figures_show_the_summary(found: dict[tuple[str, str], Section]) -> None:
    for section in found.values():
        drawn = figures(section, method_looks(section.methods.values()))
        assert len(drawn) == len(section.panels) * len(section.measures)
        points = [point for figure in drawn for series in figure.series for point in series.points]
        assert sorted(point.value for point in points) == sorted(cell.mean for cell in section.cells.values())
        assert sorted(point.low or 0 for point in points) == sorted(cell.low for cell in section.cells.values())
    section = found["rq4-misspecified", "msrd"]
    drawn = figures(section, method_looks(section.methods.values()))
    panels = [figure.values for figure in drawn if figure.title.startswith("AP")]
    assert panels[0] == panels[1]  # panels of a measure can be compared


def test_trees_have_figures_of_their_own_where_curves_are_many(made: Any, tmp_path: Path) -> None:
    settings = [{"simulation.sessions": sessions} for sessions in (1_000, 1_000_000)]
    methods = (*made.methods, *made.beyond)
    section = made.only(tmp_path / "many", "rq2-sessions", settings=settings, methods=methods)
    drawn = figures(section, method_looks(section.methods.values()))
    assert [figure.title for figure in drawn[2:4]] == ["AP · linear and neural", "nDCG@1 · trees"]
    assert [len(figure.series) for figure in drawn] == [8, 8, 8, 6, 6, 6]
    assert {series.name for figure in drawn for series in figure.series} == set(methods)
    assert drawn[0].values == drawn[3].values  # both kinds can be compared
    few = made.only(tmp_path / "few", "rq2-sessions", settings=settings, methods=methods[:10])
    assert [figure.title for figure in figures(few, method_looks(few.methods.values()))] == list(few.measures)
    rows = made.only(tmp_path / "rows", "table1", methods=methods)  # each in a row of its own
    assert [figure.title for figure in figures(rows, method_looks(rows.methods.values()))] == list(rows.measures)


class TestWideIntervals:
    def test_means_stay_readable(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("rq3-noise", settings=[{"simulation.noise": noise} for noise in (0.0, 0.5)], seeds=(0, 1))
        for row in rows:
            if row["method"] == "IPS" and row["seed"] == 1:
                row["value"] = 0.9  # so that its interval spans from far below 0 to far above 1
        (section,) = sections(load_results(made.save(rows, tmp_path)))
        figure = figures(section, method_looks(section.methods.values()))[0]
        means = [point.value for series in figure.series for point in series.points]
        assert figure.is_cut_off
        assert figure.values.low > -0.15 * (max(means) - min(means))  # no measure is below 0
        assert figure.values.high - figure.values.low <= 3.3 * (max(means) - min(means))
        drawn = draw_figure(figure)
        shapes = [points.split() for points in re.findall(r'class="band" points="([^"]*)"', drawn)]
        heights = [float(point.split(",")[1]) for points in shapes for point in points]
        assert min(heights) == TOP
        assert max(heights) == figure.height - BOTTOM

    def test_narrow_ones_are_whole(self, found: dict[tuple[str, str], Section]) -> None:
        drawn = [
            figure
            for section in found.values()
            for figure in figures(section, method_looks(section.methods.values()))
            if figure.kind == "rows"
        ]
        assert drawn
        assert not any(figure.is_cut_off for figure in drawn)
