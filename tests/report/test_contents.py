from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cldrank.documents import Details, Paragraph, Strong, Table
from cldrank.documents.svg import BOTTOM, TOP, draw
from cldrank.experiment.results import SCHEMA, load_results
from cldrank.report.contents import figures, method_looks, notes, report_document, tables
from cldrank.report.findings import what_came_out
from cldrank.report.sections import Section, sections


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        (("CLD", "Oracle"), "There is no Naive here"),
        (("Naive", "CLD"), "There is no Oracle here"),
        (("IPS", "CLD"), "There is no Naive and no Oracle here"),
    ],
)
def test_no_gap_without_both_ends(made: Any, tmp_path: Path, methods: tuple[str, ...], told: str) -> None:
    section = made.only(tmp_path, "mine", methods=methods)
    assert any(note.startswith(told) for note in notes(section))
    assert tables(section)[0].columns == ("method", *section.measures)


def test_an_oracle_below_naive(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine")
    for row in rows:
        row["value"] -= row["method"] == "Oracle"
    (section,) = sections(load_results(made.save(rows, tmp_path)))
    assert any("Oracle is not better than Naive" in note for note in notes(section))


def test_a_seed_short(found: dict[tuple[str, str], Section]) -> None:
    row = next(row for row in tables(found["rq3-noise", "msrd"])[0].rows if row[0] == "IPS")
    assert all(str(cell).endswith(" (4 seeds)") for cell in row[1:])


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
        drawn = draw(figure)
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


class TestDocument:
    def test_numbers_are_the_summary_s(self, found: dict[tuple[str, str], Section]) -> None:
        section = found["table1", "web10k"]
        (table,) = tables(section)
        assert table.columns == ("method", *section.measures * 2)
        assert table.groups == [("", 4), ("gap closed", 3)]
        assert [row[0] for row in table.rows] == list(section.methods)
        for method, *row in table.rows:
            for place, measure in enumerate(section.measures):
                cell = section.cells["{}", str(method), measure]
                assert row[place] == f"{cell.interval:.3f}{' ≈' if cell.tied and not cell.best else ''}"
                assert isinstance(row[place], Strong) == cell.best
                assert row[3 + place] == f"{100 * cell.gap:.0f}%".replace("-", "−")

    def test_numbers_of_curves_are_folded_away(self, found: dict[tuple[str, str], Section]) -> None:
        section = found["rq6-robust", "msrd"]
        folded = next(block for block in report_document([section]).blocks if isinstance(block, Details))
        assert [block for block in folded.blocks if isinstance(block, Table)] == tables(section)
        assert len(tables(section)) == 2 * 3 * 3  # means and shares, for each assumed η and measure

    def test_a_conclusion_is_told_once(self, found: dict[tuple[str, str], Section]) -> None:
        texts = [block.text for block in report_document(list(found.values())).blocks if isinstance(block, Paragraph)]
        for section in found.values():
            assert texts.count([what_came_out(section)]) == 1, section.name

    def test_all_values_of_parameters_are_listed(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("mine", methods=("CLD",), seeds=range(2))
        for row in rows:
            told = json.loads(row["configuration"])
            row["configuration"] = json.dumps(
                {
                    **told,
                    "method": {
                        **told["method"],
                        "parameters": {**told["method"]["parameters"], "gamma": 0.1 + 0.1 * row["seed"]},
                    },
                }
            )
        document = report_document(sections(load_results(made.save(rows, tmp_path))))
        cells = [
            cell for block in document.every_block() if isinstance(block, Table) for row in block.rows for cell in row
        ]
        assert "cldrank.methods:CLD, gamma = 0.1 or 0.2, l2 = 0.003" in cells

    def test_failures_are_gathered_by_error(self, found: dict[tuple[str, str], Section]) -> None:
        document = report_document([found["rq3-noise", "msrd"]])
        (table,) = (block for block in document.blocks if isinstance(block, Table) and "error" in block.columns)
        ((method, error, units),) = table.rows
        assert (method, units) == ("IPS", "6")
        assert str(error).startswith("the loss is not finite")

    def test_a_fit_that_two_experiments_share_is_counted_once(self, made: Any, tmp_path: Path) -> None:
        rows = [row for name in ("one", "two") for row in made.rows(name, methods=("Oracle",), seeds=[0, 1])]
        for row in rows:
            row["unit"], row["seconds"] = f"seed {row['seed']}", 2.0
        document = report_document(sections(load_results(made.save(rows, tmp_path))))
        assert "2 fits" in document.about[0]
        assert "4.0 s of computing" in document.about[0]

    def test_nothing_at_all(self) -> None:
        assert sections(SCHEMA.empty_table()) == ()
        (block,) = report_document(()).blocks
        assert isinstance(block, Paragraph)
        assert "no results" in block.text
