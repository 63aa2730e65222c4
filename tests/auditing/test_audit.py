from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_logs import MakeLogs, found, topics

from cldrank.auditing import Audit, audit, audit_table
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.simulate import Cascade, DependentClicks, PositionBased, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError


def possible(result: Audit) -> set[str]:
    return {need.estimator for need in result.facts.requirements if need.met}


HARVESTING = {"all-pairs", "adjacent-chain", "pivot"}


class TestPropensities:
    def test_a_fixed_ranker_cannot_be_harvested(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(600, made.fixed).write())
        assert result.facts.order.looks == "fixed"
        assert result.facts.overlap.moving == 0
        assert possible(result) == {"click-through"}
        assert found(result, "propensities").severity == "warning"
        assert "one position only" in found(result, "propensities").found
        assert all(
            finding.found in str(result) and finding.advice in str(result) for finding in result.verdict.findings
        )

    def test_queries_with_one_page_each_say_nothing_about_the_order(self, logs: MakeLogs) -> None:
        made = logs(queries=1200)
        made.add(1200, made.shuffled).write()
        by_query, together = (audit(made.folder / "log.parquet", one_query=alone) for alone in (False, True))
        told = found(by_query, "propensities")
        assert told.found.startswith("Each of the 1,200 queries was searched once")
        assert "estimate with `one_query=True`." in told.advice
        assert together.facts.order.looks == "random"

    def test_two_rankers_can(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(2000, made.two_rankers).write())
        assert result.facts.order.looks == "mixed"
        assert {"all-pairs", "adjacent-chain"} <= possible(result)
        assert "pivot" not in possible(result)  # neighbours have candidates in common, nobody else
        assert "randomised" not in possible(result)
        assert found(result, "propensities").severity == "ok"

    def test_a_random_order_is_recognised(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(2000, made.shuffled).write())
        assert result.facts.order.looks == "random"
        assert possible(result) >= {"randomised", "envelope"} | HARVESTING
        assert "randomised" in result.verdict.sentence
        assert found(result, "propensities").advice.startswith("Estimate them with randomised")

    @pytest.mark.parametrize(("pages", "severity"), [(99, "blocking"), (100, "warning")])
    def test_a_handful_of_pages_blocks(self, logs: MakeLogs, pages: int, severity: str) -> None:
        made = logs()
        result = audit(made.add(pages, made.two_rankers).write())
        assert result.verdict.severity == severity
        assert ("size" in [finding.topic for finding in result.verdict.findings]) == (pages < 100)

    def test_sets_of_positions_that_nothing_connects(self, logs: MakeLogs) -> None:
        made = logs(depth=4)

        def halves(page: int) -> Any:
            upper, lower = ([0, 1], [2, 3]) if (page // 10) % 2 else ([1, 0], [3, 2])
            return np.array(upper + lower)

        result = audit(made.add(1000, halves).write())
        assert possible(result) == {"envelope", "click-through"}
        assert "no candidate was shown both at position 3" in found(result, "propensities").found
        assert "Find a lower bound with envelope" in found(result, "propensities").advice

    @pytest.mark.parametrize(("chance", "advised"), [(1 / 12, True), (7.0, False)])
    def test_propensities_of_the_log_are_judged_by_the_estimator(
        self, logs: MakeLogs, chance: float | None, advised: bool
    ) -> None:
        made = logs()
        result = audit(made.add(2000, made.shuffled, propensity=chance).write())
        told = [finding for finding in result.verdict.findings if "column of propensities" in finding.found]
        assert [("--method logged" in finding.advice, "`logged` cannot" in finding.found) for finding in told] == [
            (advised, not advised)
        ]
        assert ("logged" in possible(result)) == advised


class TestAmounts:
    def test_candidates_never_shown(self, logs: MakeLogs) -> None:
        made = logs(queries=3)
        path = made.add(30, made.fixed).write()
        features = RankingDataset.from_arrays(
            np.zeros((48, 1)), np.repeat([0, 1, 2, 3], 12), doc_ids=[f"d{i}" for i in range(12)] * 4
        )
        result = audit(path, features)
        assert (result.facts.queries.candidates, result.facts.queries.never_shown) == (36, 21)
        assert "1 of 4 queries of the features were never searched for" in found(result, "queries").found
        assert audit(path).facts.queries.never_shown is None

    def test_only_shown_candidates_are_asked_about(self, logs: MakeLogs) -> None:
        made = logs(queries=1)
        path = made.add(30, made.fixed).write()
        features = RankingDataset.from_arrays(np.zeros((5, 1)), [0] * 5, doc_ids=[f"d{i}" for i in range(5)])
        asked = found(audit(path, features), "selection")
        assert asked.severity == "warning"
        assert "All 5 candidates" in asked.found
        assert "leave out candidates" in asked.found

    def test_queries_without_a_click(self, logs: MakeLogs) -> None:
        made = logs(queries=40)
        made.add(40, made.fixed)
        for row in made.rows:
            row["clicked"] = row["query_id"] < 3
        result = audit(made.write())
        assert result.facts.queries.unclicked == 37
        assert found(result, "queries").severity == "warning"

    @pytest.mark.parametrize("clicked", [False, True])
    def test_nothing_or_everything_clicked_blocks(self, logs: MakeLogs, clicked: bool) -> None:
        made = logs().add(50, lambda _: np.arange(12))
        for row in made.rows:
            row["clicked"] = clicked
        result = audit(made.write())
        assert result.verdict.severity == "blocking"
        assert result.verdict.findings[0].topic == "clicks"
        assert result.verdict.sentence.startswith("Do not train")

    def test_a_log_of_nothing_but_rejects(self, logs: MakeLogs) -> None:
        made = logs().add(5, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] = -1
        result = audit(made.write())
        assert result.verdict.severity == "blocking"
        assert "is below 1 in 15 rows, such as '-1'" in result.verdict.sentence
        assert not {"clicks", "bots", "selection"} & set(topics(result))
        documents = [f"d{i}" for i in range(12)]
        features = RankingDataset.from_arrays(np.zeros((12, 1)), np.zeros(12), doc_ids=documents)
        assert "selection" not in topics(audit(made.folder / "log.parquet", features))
        assert result.facts.by_position == ()
        json.dumps(result.as_dict(), allow_nan=False)
        assert "<svg" in result.to_html()

    @pytest.mark.parametrize("values", [{"position": "top"}, {"query_id": None}])
    def test_what_is_wrong_with_which_column(self, logs: MakeLogs, values: dict[str, Any]) -> None:
        made = logs(depth=12).add(5, lambda _: np.arange(12))
        for row in made.rows:
            row.update(values)
        sentence = audit(made.write()).verdict.sentence
        assert f"column {next(iter(values))!r}" in sentence
        assert "in all 60 rows" in sentence

    @pytest.mark.parametrize(("impressions", "severity"), [(4, "warning"), (15, "note"), (3000, "ok")])
    def test_what_is_rough_is_not_ok(self, impressions: int, severity: str) -> None:
        random = np.random.default_rng(0)
        data = RankingDataset.from_arrays([[0.0]] * 40, np.arange(40) // 2)
        position = np.repeat([1, 2], 40)
        clicks = random.binomial(impressions, np.repeat([0.4, 0.2], 40))
        table = ClickTable.from_arrays(
            data, row=np.tile(np.arange(40), 2), position=position, impressions=[impressions] * 80, clicks=clicks
        )
        precision = found(audit_table(table), "precision")
        assert precision.severity == severity, precision


class TestCells:
    def test_cells_tell_the_same_and_leave_the_rest_unknown(self, logs: MakeLogs, tmp_path: Path) -> None:
        made = logs()
        log = made.add(500, made.shuffled, user_id=1).write()
        aggregate(log).clicks.save(tmp_path / "cells.parquet")
        whole, cells = audit(log).facts, audit(tmp_path / "cells.parquet").facts
        for part in ("by_position", "queries", "overlap", "order", "requirements"):
            assert getattr(whole, part) == getattr(cells, part)
        assert cells.log is None
        assert cells.account is None

    def test_several_files_of_cells_are_added(self, logs: MakeLogs, tmp_path: Path) -> None:
        made = logs()
        for name in ("one", "two"):
            path = made.add(50, made.shuffled).write(f"{name}.parquet")
            aggregate(path).clicks.save(tmp_path / f"{name}-cells.parquet")
            made.rows.clear()
        cells = [tmp_path / "one-cells.parquet", tmp_path / "two-cells.parquet"]
        assert audit(cells).facts.impressions == 2 * 50 * 5
        with pytest.raises(UsageError, match="is named twice"):
            audit([cells[0], cells[0]])


class TestBehaviour:
    @pytest.mark.parametrize(
        ("model", "severity"), [(PositionBased(eta=1), "ok"), (Cascade(), "warning"), (DependentClicks(), "warning")]
    )
    def test_people_who_stop_after_a_click_are_warned_of(self, model: Any, severity: str) -> None:
        labels = np.arange(400.0) % 5
        data = RankingDataset.from_arrays(labels[:, None], np.arange(400) // 8, labels)
        scores = np.random.default_rng(0).random(400)
        result = audit_table(Simulation(data, scores, model).draw(20_000, contexts=True))
        assert found(result, "behaviour").severity == severity
        assert bool(found(result, "behaviour").advice) == (severity == "warning")
        assert [entry["position"] for entry in result.as_dict()["behaviour"]["by_position"]] == [2, 3, 4, 5]
        assert "Examination below a click" in result.to_html()

    def test_cells_without_contexts_do_not_tell(self, logs: MakeLogs) -> None:
        cells = aggregate(logs().add(600, logs().fixed).write()).clicks
        result = audit_table(replace(cells, contexts=None))
        assert found(result, "behaviour").severity == "note"
        assert result.facts.behaviour.looks == "unknown"
