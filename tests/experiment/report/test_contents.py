from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.definition import SHIPPED
from cldrank.experiment.records import load_results
from cldrank.experiment.report.contents import Block, blocks
from cldrank.experiment.report.figures import figures
from cldrank.experiment.report.palette import looks
from cldrank.experiment.report.published import published
from cldrank.experiment.report.sentences import what_came_out, what_was_run
from cldrank.experiment.report.svg import HEIGHT, draw
from cldrank.experiment.report.tables import notes, shares, tables


def only(made: Any, folder: Path, *arguments: Any, **options: Any) -> Block:
    (block,) = blocks(load_results(made.save(made.rows(*arguments, **options), folder)))
    return block


@pytest.fixture(scope="module")
def found(all_seven: Path) -> dict[tuple[str, str], Block]:
    return {(block.experiment, block.data): block for block in blocks(load_results(all_seven))}


class TestBlocks:
    def test_come_in_the_paper_s_order(self, found: dict[tuple[str, str], Block]) -> None:
        names = list(dict.fromkeys(experiment for experiment, _ in found))
        assert tuple(names) == SHIPPED
        assert found["table1", "msrd"].measures == ("nDCG@1", "nDCG@3", "AP")
        assert found["table1", "msrd"].methods[0] == "Naive"
        assert found["table1", "web10k-like"].methods[-2:] == ("Mine", "Oracle")

    def test_the_key_that_varies_most_runs_across(self, found: dict[tuple[str, str], Block]) -> None:
        block = found["rq4-misspecified", "msrd"]
        assert block.across == "simulation.assumed_eta"
        assert [panel.label for panel in block.panels] == ["cutoff K = 3", "cutoff K = 5"]
        assert block.panels[0].places == (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
        assert found["table1", "msrd"].across is None

    def test_what_varies_without_numbers_makes_panels(self, made: Any, tmp_path: Path) -> None:
        settings = [{"production.sample": sample} for sample in ("queries", "rows")]
        block = only(made, tmp_path, "mine", settings=settings)
        assert block.across is None
        assert [panel.label for panel in block.panels] == ["production.sample = queries", "production.sample = rows"]
        assert len(tables(block)) == 2
        assert len(figures(block)) == 6

    def test_failures_are_gathered_by_error(self, found: dict[tuple[str, str], Block]) -> None:
        block = found["rq3-noise", "msrd"]
        (failure,) = block.failures
        assert (failure.method, failure.units, block.failed) == ("IPS", 6, 6)
        assert failure.where == "click noise = 0, 0.1, 0.2, 0.3, 0.4, 0.5: seed 3"

    def test_a_unit_that_stands_in_several_places_took_its_time_once(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("mine", settings=[{"simulation.eta": eta} for eta in (0.0, 1.0)], methods=("Oracle",))
        for row in rows:
            row["unit"], row["seconds"] = f"seed {row['seed']}", 2.0
        (block,) = blocks(load_results(made.save(rows, tmp_path)))
        assert (block.units, block.timings[0].fits, block.seconds) == (10, 5, 10.0)

    def test_names_stay_apart(self, made: Any, tmp_path: Path) -> None:
        rows = [row for data in ("a b", "a-b", "ø", "å") for row in made.rows("mine", data=data)]
        names = [block.name for block in blocks(load_results(made.save(rows, tmp_path)))]
        assert len(set(names)) == 4

    def test_parameters_that_tuning_chose_are_listed(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("mine", methods=("CLD",), seeds=range(2))
        for row in rows:
            told = json.loads(row["configuration"])
            row["configuration"] = json.dumps({**told, "tuned": {"gamma": 0.1 + 0.1 * row["seed"]}})
        (block,) = blocks(load_results(made.save(rows, tmp_path)))
        assert block.parameters == {"CLD": "cldrank.estimators:CLD, gamma = 0.1 or 0.2, l2 = 0.003"}


class TestPublished:
    def test_stands_beside_the_paper_s_data_only(self, found: dict[tuple[str, str], Block]) -> None:
        beside = published(found["table1", "web10k"], "{}")
        assert beside["CLD", "nDCG@1"] == 0.434
        assert beside["Oracle", "AP"] == 0.332
        assert published(found["table1", "msrd"], "{}") == {}
        assert published(found["table1", "web10k-like"], "{}") == {}

    @pytest.mark.parametrize(
        ("data", "fold", "eta", "known"),
        [("yahoo", "set1", 0.1, True), ("yahoo", "set2", 0.1, False), ("web10k", "fold1", 1.0, False)],
    )
    def test_needs_the_paper_s_fold_and_simulation(
        self, made: Any, tmp_path: Path, data: str, fold: str, eta: float, known: bool
    ) -> None:
        simulation = {**made.simulation, "eta": eta}
        block = only(made, tmp_path, "table1", data=data, fold=fold, simulation=simulation)
        assert bool(published(block, "{}")) is known
        assert any(not group.ours for group in tables(block)[0].groups) is known

    def test_needs_methods_that_know_the_true_curve(self, made: Any, tmp_path: Path) -> None:
        simulation = {**made.simulation, "eta": 0.1}
        settings = [{"simulation.assumed_eta": assumed} for assumed in (0.1, 1.0)]
        paper = {"data": "web10k", "fold": "fold1", "simulation": simulation}
        block = only(made, tmp_path / "two", "mine", settings=settings, **paper)
        assert [bool(published(block, json.dumps(setting))) for setting in settings] == [True, False]
        block = only(made, tmp_path / "one", "mine", settings=settings[1:], **paper)
        assert published(block, json.dumps(settings[1])) == {}

    def test_other_measures_have_none(self, made: Any, tmp_path: Path) -> None:
        measures = ("nDCG@3", "nDCG@10", "AP(rel=3)", "RR", "nDCG(gain=linear)@3")
        simulation = {**made.simulation, "eta": 0.1}
        block = only(made, tmp_path, "t", data="web10k", fold="fold1", measures=measures, simulation=simulation)
        assert {measure for _, measure in published(block, "{}")} == {"nDCG@3", "AP(rel=3)"}


class TestSentences:
    def test_say_what_was_run(self, found: dict[tuple[str, str], Block]) -> None:
        assert what_was_run(found["table1", "web10k"]) == (
            "100,000 simulated sessions on the top 5 of a production ranker, position bias η = 0.1, click noise 0.1. "
            "7 methods, 5 seeds (0 to 4), fold1."
        )
        assert "Varied: assumed η from 0 to 2; cutoff K = 3 and 5." in what_was_run(found["rq4-misspecified", "msrd"])

    def test_say_who_is_best(self, found: dict[tuple[str, str], Block]) -> None:
        block = found["table1", "msrd"]
        best = next(cell for cell in block.cells.values() if cell.measure == "nDCG@3" and cell.best)
        told = what_came_out(block)
        assert told.startswith(f"{best.method} is best by nDCG@3 with {best.interval}")
        assert f"closes {100 * best.gap:.0f}% of the gap" in told

    def test_one_seed(self, made: Any, tmp_path: Path) -> None:
        block = only(made, tmp_path, "mine", seeds=[3])
        assert "one seed (3)" in what_was_run(block)
        assert not block.has_intervals
        assert any("no intervals" in note for note in notes(block))
        assert all("±" not in entry.text for row in tables(block)[0].rows for entry in row.entries)

    def test_one_method(self, made: Any, tmp_path: Path) -> None:
        block = only(made, tmp_path, "mine", methods=("CLD",))
        assert what_came_out(block).endswith("there is no other method to compare it with.")
        assert not any(entry.best for row in tables(block)[0].rows for entry in row.entries)

    @pytest.mark.parametrize("settings", [[{}], [{"simulation.eta": 0.0}, {"simulation.eta": 1.0}]])
    def test_only_oracle(self, made: Any, tmp_path: Path, settings: list[dict[str, float]]) -> None:
        block = only(made, tmp_path, "mine", methods=("Oracle",), settings=settings)
        assert what_came_out(block) == "Only Oracle has finished, and it has no rival here."

    @pytest.mark.parametrize(
        ("methods", "told"),
        [
            (("CLD", "Oracle"), "There is no Naive here"),
            (("Naive", "CLD"), "There is no Oracle here"),
            (("IPS", "CLD"), "There is no Naive and no Oracle here"),
        ],
    )
    def test_no_gap_without_both_ends(self, made: Any, tmp_path: Path, methods: tuple[str, ...], told: str) -> None:
        block = only(made, tmp_path, "mine", methods=methods)
        assert any(note.startswith(told) for note in notes(block))
        assert [group.name for group in tables(block)[0].groups] == [""]
        assert shares(block) == ()

    def test_an_oracle_below_naive(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("mine")
        for row in rows:
            row["value"] -= row["method"] == "Oracle"
        (block,) = blocks(load_results(made.save(rows, tmp_path)))
        assert any("Oracle is not better than Naive" in note for note in notes(block))

    def test_nothing_but_failures(self, made: Any, tmp_path: Path) -> None:
        block = only(made, tmp_path, "mine", failing="{} broke with seed {}".format)
        assert what_came_out(block) == "All units failed; the errors are below."
        assert notes(block) == ("No unit has finished, so there is nothing to measure yet.",)
        assert figures(block) == ()
        assert block.timings == ()

    def test_a_seed_short(self, found: dict[tuple[str, str], Block]) -> None:
        row = next(row for row in tables(found["rq3-noise", "msrd"])[0].rows if row.method == "IPS")
        assert {entry.note for entry in row.entries} == {"4 seeds"}


def test_figures_show_the_summary(found: dict[tuple[str, str], Block]) -> None:
    for block in found.values():
        drawn = figures(block)
        assert len(drawn) == len(block.panels) * len(block.measures)
        dots = [dot for figure in drawn for series in figure.series for dot in series.dots]
        assert sorted(dot.value for dot in dots) == sorted(cell.mean for cell in block.cells.values())
        assert sorted(dot.low or 0 for dot in dots) == sorted(cell.low for cell in block.cells.values())
    panels = [figure.values for figure in figures(found["rq4-misspecified", "msrd"]) if figure.measure == "AP"]
    assert panels[0] == panels[1]  # panels of a measure can be compared


class TestWideIntervals:
    def test_means_stay_readable(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("rq3-noise", settings=[{"simulation.noise": noise} for noise in (0.0, 0.5)], seeds=(0, 1))
        for row in rows:
            if row["method"] == "IPS" and row["seed"] == 1:
                row["value"] = 0.9  # so that its interval spans from far below 0 to far above 1
        (block,) = blocks(load_results(made.save(rows, tmp_path)))
        figure = figures(block)[0]
        means = [dot.value for series in figure.series for dot in series.dots]
        assert figure.cut_off
        assert figure.values.low > -0.15 * (max(means) - min(means))  # no measure is below 0
        assert figure.values.high - figure.values.low <= 3.3 * (max(means) - min(means))
        drawn = draw(figure, looks(block.methods))
        shapes = [points.split() for points in re.findall(r'class="band" points="([^"]*)"', drawn)]
        heights = [float(point.split(",")[1]) for points in shapes for point in points]
        assert min(heights) == 10
        assert max(heights) == HEIGHT - 46

    def test_narrow_ones_are_whole(self, found: dict[tuple[str, str], Block]) -> None:
        drawn = [figure for block in found.values() for figure in figures(block) if not figure.across]
        assert drawn
        assert not any(figure.cut_off for figure in drawn)


def test_naive_closes_no_gap(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine", methods=("Naive", "IPS", "Oracle"))
    for row in rows:
        row["value"] += 0.2 * (row["method"] == "Naive") + 0.4 * (row["method"] == "Oracle")
    (block,) = blocks(load_results(made.save(rows, tmp_path)))
    assert what_came_out(block).startswith("Naive is best by nDCG@3")
    assert "gap" not in what_came_out(block)


def test_what_the_methods_assume_is_told(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine", settings=[{"simulation.assumed_eta": 1.25}])
    (block,) = blocks(load_results(made.save(rows, tmp_path / "other")))
    assert "position bias η = 1 (the methods take it for 1.25), click noise" in what_was_run(block)
    (true,) = blocks(load_results(made.save(made.rows("mine"), tmp_path / "true")))
    assert "position bias η = 1, click noise" in what_was_run(true)
