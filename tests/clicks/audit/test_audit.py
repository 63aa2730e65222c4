from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from audit_logs import Logs
from typer.testing import CliRunner

from cldrank.cli.clicks_audit import audit as command
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.audit import Audit, Finding, Severity, audit, audit_table
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError

MakeLogs = Callable[..., Logs]


@pytest.fixture
def logs(tmp_path: Path) -> MakeLogs:
    return lambda **options: Logs(tmp_path, **options)


def found(result: Audit, topic: str) -> Finding:
    matching = [finding for finding in result.verdict.findings if finding.topic == topic]
    assert matching, f"nothing about {topic} in {[finding.topic for finding in result.verdict.findings]}"
    return matching[0]


def topics(result: Audit) -> set[str]:
    return {finding.topic for finding in result.verdict.findings}


def possible(result: Audit) -> set[str]:
    return {method.name for method in result.facts.ways if method.possible}


HARVESTING = {"AllPairs", "AdjacentChain", "Pivot"}


class TestPropensities:
    def test_a_fixed_ranker_cannot_be_harvested(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(600, made.fixed).write())
        assert result.facts.order.looks == "fixed"
        assert result.facts.overlap.moving == 0
        assert result.facts.overlap.components == ((1,), (2,), (3,), (4,), (5,))
        assert possible(result) == set()
        assert found(result, "propensities").severity == Severity.warning
        assert "one position only" in found(result, "propensities").found

    def test_two_rankers_can(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(2000, made.two_rankers).write())
        assert result.facts.order.looks == "mixed"
        assert result.facts.overlap.components == ((1, 2, 3, 4, 5),)
        assert {"AllPairs", "AdjacentChain"} <= possible(result)
        assert "Pivot" not in possible(result)  # neighbours have candidates in common, nobody else
        assert "Randomised" not in possible(result)
        assert result.facts.overlap.pairs == 4
        assert found(result, "propensities").severity == Severity.ok

    def test_a_random_order_is_recognised(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(2000, made.shuffled).write())
        assert result.facts.order.looks == "random"
        assert possible(result) == {"Randomised"} | HARVESTING
        assert "Randomised" in result.verdict.sentence
        assert found(result, "propensities").advice.startswith("Estimate them with `Randomised`")

    def test_few_pages_are_too_few_to_tell(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(20, made.shuffled).write())
        assert result.facts.order.looks == "unknown"
        assert "Randomised" not in possible(result)

    def test_sets_of_positions_that_nothing_connects(self, logs: MakeLogs) -> None:
        made = logs(depth=4)

        def halves(page: int) -> Any:
            upper, lower = ([0, 1], [2, 3]) if (page // 10) % 2 else ([1, 0], [3, 2])
            return np.array(upper + lower)

        result = audit(made.add(1000, halves).write())
        assert result.facts.overlap.components == ((1, 2), (3, 4))
        assert possible(result) == set()
        assert "2 sets" in found(result, "propensities").found


class TestPages:
    def test_regular_ones(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(100, made.fixed).write())
        assert {"gaps", "shared positions", "first position"}.isdisjoint(topics(result))
        assert found(result, "positions").severity == Severity.ok

    def test_gaps(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12))
        made.rows = [row for row in made.rows if not (row["position"] in (3, 4) and row["session_id"] < "s5")]
        result = audit(made.write())
        gaps = len({row["session_id"] for row in made.rows if row["session_id"] < "s5"})
        assert result.facts.log is not None
        assert result.facts.log.pages.gaps == gaps > 0
        assert found(result, "gaps").severity == Severity.warning

    @pytest.mark.parametrize("depth", [5, 12])
    def test_two_documents_at_one_position(self, logs: MakeLogs, depth: int) -> None:
        made = logs(depth=depth).add(100, lambda _: np.arange(12))
        for row in made.rows[: 3 * depth : depth]:
            row["position"] = 2
        result = audit(made.write())
        assert result.facts.log is not None
        assert result.facts.log.pages.shared == 3
        assert result.facts.log.pages.late == 3
        assert result.facts.log.pages.gaps == 0

    def test_a_row_twice_is_no_shared_position(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12))
        made.rows += made.rows[:7]
        result = audit(made.write())
        assert result.facts.rejects is not None
        assert result.facts.rejects.rejected == {"repeated row": 7}
        assert result.facts.log is not None
        assert result.facts.log.pages.shared == 0
        assert found(result, "rows").severity == Severity.note

    def test_pages_deeper_than_the_bits_of_a_number(self, tmp_path: Path) -> None:
        positions = np.arange(1, 151)
        path = tmp_path / "deep.parquet"
        hole = np.delete(positions, 100)
        rows = [(0, positions), (1, hole), (2, positions)]
        columns = {
            "session_id": np.concatenate([np.full(len(p), s) for s, p in rows]),
            "position": np.concatenate([p for _, p in rows]),
        }
        size = len(columns["position"])
        pq.write_table(
            pa.table(
                {
                    **columns,
                    "query_id": np.zeros(size, np.int64),
                    "doc_id": columns["position"],
                    "clicked": columns["position"] % 7 == 0,
                }
            ),
            path,
        )
        log = audit(path).facts.log
        assert log is not None
        assert (log.pages.pages, log.pages.gaps, log.pages.shared) == (3, 1, 0)

    def test_depth_by_surface_and_ranker(self, logs: MakeLogs) -> None:
        made = logs().add(60, lambda _: np.arange(12), surface="web", ranker_id=1)
        made.depth = 3
        result = audit(made.add(20, made.fixed, surface="app", ranker_id=2).write())
        assert result.facts.log is not None
        assert result.facts.log.surfaces is not None
        assert [(g.name, g.pages, g.depth) for g in result.facts.log.surfaces] == [("web", 60, 5), ("app", 20, 3)]
        assert result.facts.log.rankers is not None
        assert [(g.name, g.impressions) for g in result.facts.log.rankers] == [("1", 300), ("2", 60)]
        assert "app: 3" in found(result, "surfaces").found

    @pytest.mark.parametrize("depth", [5, 12])
    def test_positions_from_zero(self, logs: MakeLogs, depth: int) -> None:
        made = logs(depth=depth).add(200, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] -= 1
        path = made.write()
        result = audit(path)
        wrong = found(result, "first position")
        assert wrong.severity == result.verdict.severity == Severity.blocking
        assert "counts positions from 0: 200 rows" in wrong.found
        assert "first_position=0" in wrong.advice
        assert "first position" not in topics(audit(path, first_position=0))
        assert found(audit(path, first_position=0), "rows").severity == Severity.ok

    def test_positions_not_from_zero(self, logs: MakeLogs) -> None:
        made = logs()
        wrong = found(audit(made.add(20, made.fixed).write(), first_position=0), "first position")
        assert wrong.severity == Severity.blocking
        assert "does not count positions from 0" in wrong.found

    def test_second_pages_that_count_from_one_again(self, logs: MakeLogs) -> None:
        made = logs(depth=12, queries=1).add(60, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] = (row["position"] - 1) % 6 + 1
        result = audit(made.write())
        assert result.facts.queries.sessions["median"] == 60
        assert "has 60 pages" in found(result, "queries").found
        assert "count from 1 again" in found(result, "shared positions").advice

    def test_no_pages_have_no_layout(self, logs: MakeLogs) -> None:
        made = logs().add(5, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] = -1
        assert "positions" not in topics(audit(made.write()))


class TestViews:
    def test_a_page_seen_again_is_no_copy(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12), timestamp=days(1, 20))
        made.rows += [{**row, "timestamp": row["timestamp"] + 60, "clicked": False} for row in made.rows]
        path = made.write()
        result = audit(path)
        assert result.facts.rejects is not None
        assert result.facts.rejects.rejected == {"second view": 500}
        views = found(result, "views")
        assert views.severity == Severity.warning
        assert "500 of 1,000 rows (50.00%)" in views.found
        assert "by_time=True" in views.advice
        apart = audit(path, by_time=True).facts
        assert apart.impressions == 1000
        assert apart.log is not None
        assert apart.log.pages.pages == 200

    def test_copies_are_no_views(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12), timestamp=days(1, 20))
        made.rows += made.rows
        result = audit(made.write())
        assert "views" not in topics(result)
        assert "retried export" in found(result, "rows").advice
        assert "no harm" not in found(result, "rows").advice


class TestActors:
    def test_people_are_not_suspicious(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(500, made.shuffled, user_id=lambda page: page % 50).write())
        assert found(result, "bots").severity == Severity.ok
        assert result.facts.log is not None
        assert (result.facts.log.actors.kind, result.facts.log.actors.actors) == ("user", 50)

    def test_a_crawler_and_a_clicker(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(400, made.shuffled, user_id=lambda page: f"u{page % 100}")
        made.add(200, made.shuffled, boost=0.0, user_id="crawler")
        made.add(30, made.shuffled, boost=1e9, user_id="<b>clicker")
        result = audit(made.write())
        assert result.facts.log is not None
        actors = result.facts.log.actors
        assert (actors.many_pages, actors.all_clicked, actors.suspicious) == (1, 1, 2)
        assert [suspect.name for suspect in actors.named] == ["crawler", "<b>clicker"]
        assert (actors.impressions, actors.clicks) == (230 * 5, 30 * 5)
        assert found(result, "bots").severity == Severity.warning

    def test_a_high_rate_must_be_beyond_chance(self, tmp_path: Path) -> None:
        """Both click far more than anybody else; over 20 impressions that is chance, over 400 it is not."""
        users: list[tuple[str, int, int]] = [(f"u{i}", 20, 1 + i % 2) for i in range(200)]
        users += [("lucky", 20, 6), ("odd", 400, 120)]
        rows = [
            {"session_id": f"{name}-{n // 5}", "query_id": "q", "doc_id": f"d{n % 5}", "position": n % 5 + 1}
            | {"clicked": n < clicks, "user_id": name}
            for name, impressions, clicks in users
            for n in range(impressions)
        ]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
        log = audit(tmp_path / "log.parquet").facts.log
        assert log is not None
        assert log.actors.rate_limit is not None
        assert log.actors.rate_limit < 6 / 20
        assert [suspect.name for suspect in log.actors.named] == ["odd"]
        assert log.actors.high_rate == 1

    def test_sessions_stand_in_for_users(self, logs: MakeLogs) -> None:
        made = logs(depth=12)
        made.add(300, made.shuffled).add(4, made.shuffled, boost=1e9)
        result = audit(made.write())
        assert result.facts.log is not None
        actors = result.facts.log.actors
        assert actors.kind == "session"
        assert actors.all_clicked == 4


DAY = 86_400
START = 1_700_006_400  # 2023-11-15 00:00 UTC


def days(unit: int, per_day: int) -> Callable[[int], int]:
    return lambda page: (START + (page // per_day) * DAY + 3600) * unit


class TestDrift:
    @pytest.mark.parametrize(
        ("unit", "name"), [(1, "epoch seconds"), (1000, "epoch milliseconds"), (10**6, "epoch microseconds")]
    )
    def test_units_are_told_by_size(self, logs: MakeLogs, unit: int, name: str) -> None:
        made = logs()
        drift = audit(made.add(120, made.fixed, timestamp=days(unit, 20)).write()).facts.log.drift  # type: ignore[union-attr]
        assert drift is not None
        assert (drift.unit, drift.seconds, drift.first) == (name, DAY, "2023-11-15 01:00:00")
        assert [part.pages for part in drift.slices] == [20] * 6

    def test_a_steady_log(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(1200, made.shuffled, timestamp=days(1, 200)).write())
        assert found(result, "drift").severity == Severity.ok
        assert "silence" not in topics(result)

    def test_a_change_half_way(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(600, made.shuffled, timestamp=days(1, 200))
        made.add(600, made.shuffled, boost=0.4, timestamp=days(1, 200))
        result = audit(made.write())
        assert found(result, "drift").severity == Severity.warning
        drift = result.facts.log.drift  # type: ignore[union-attr]
        assert drift is not None
        assert drift.top_rate is not None
        assert drift.top_rate.p_value < 1e-6

    def test_silent_days_and_pages_without_a_time(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12), timestamp=days(1, 20))
        made.rows = [row for row in made.rows if row["timestamp"] != START + 2 * DAY + 3600]
        made.add(10, made.fixed, timestamp=None)
        result = audit(made.write())
        drift = result.facts.log.drift  # type: ignore[union-attr]
        assert drift is not None
        assert drift.silent == 1
        assert drift.undated == 10
        assert found(result, "silence").severity == Severity.note

    def test_hours_in_twelve_slices(self, logs: MakeLogs) -> None:
        made = logs()
        path = made.add(120, made.fixed, timestamp=lambda page: START + 30 * page).write()
        drift = audit(path).facts.log.drift  # type: ignore[union-attr]
        assert drift is not None
        assert len(drift.slices) == 12
        assert sum(part.pages for part in drift.slices) == 120

    def test_text_and_no_time_at_all(self, logs: MakeLogs) -> None:
        made = logs()
        text = made.add(50, made.fixed, timestamp="2024-05-06 07:08:09").write("text.parquet")
        drift = audit(text).facts.log.drift  # type: ignore[union-attr]
        assert drift is not None
        assert (drift.unit, drift.first) == ("text", "2024-05-06 07:08:09")
        made.rows = [{**row, "timestamp": "soon"} for row in made.rows]
        assert "unknown" in found(audit(made.write("words.parquet")), "drift").found
        made.rows = [{key: row[key] for key in row if key != "timestamp"} for row in made.rows]
        assert "unknown" in found(audit(made.write("none.parquet")), "drift").found


class TestTimes:
    """Each kind of timestamp that spans from 08:30 to 17:00 UTC."""

    def drift(self, tmp_path: Path, times: pa.Array) -> Any:
        size = len(times)
        log = {"session_id": range(size), "query_id": ["q"] * size, "doc_id": ["a"] * size, "position": [1] * size}
        clicked = [n % 2 for n in range(size)]
        pq.write_table(pa.table({**log, "clicked": clicked, "timestamp": times}), tmp_path / "log.parquet")
        log_facts = audit(tmp_path / "log.parquet").facts.log
        assert log_facts is not None
        return log_facts.drift

    def check(self, drift: Any, undated: int = 0) -> None:
        assert (drift.first, drift.last) == ("2024-05-06 08:30:00", "2024-05-06 17:00:00")
        assert drift.undated == undated

    def test_text_with_offsets_that_differ_by_row(self, tmp_path: Path) -> None:
        times = [
            "2024-05-06T18:30:00+10:00",
            "2024-05-06 12:00:00Z",
            "2024-05-06T09:00:00.500-0800",
            "2024-05-06 14:00+05",
        ]
        self.check(self.drift(tmp_path, pa.array(times)))

    def test_naive_text_null_and_garbage(self, tmp_path: Path) -> None:
        times = ["2024-05-06 08:30:00", "2024-05-06T17:00:00", None, "soon", "", "nan", "1e300", "2024-13-45"]
        self.check(self.drift(tmp_path, pa.array(times)), undated=6)

    def test_a_date_has_no_offset(self, tmp_path: Path) -> None:
        drift = self.drift(tmp_path, pa.array(["2024-05-06", "2024-05-07"]))
        assert (drift.first, drift.last) == ("2024-05-06 00:00:00", "2024-05-07 00:00:00")

    @pytest.mark.parametrize("ticks", [1, 1000, 10**6, 10**9])
    def test_numbers_and_their_text(self, tmp_path: Path, ticks: int) -> None:
        times = [1_714_984_200 * ticks, 1_715_014_800 * ticks]
        self.check(self.drift(tmp_path, pa.array(times)))
        self.check(self.drift(tmp_path, pa.array([*map(str, times), "?"])), undated=1)

    def test_numbers_that_are_none(self, tmp_path: Path) -> None:
        times = [1_714_984_200.0, 1_715_014_800.0, float("nan"), float("inf"), None]
        self.check(self.drift(tmp_path, pa.array(times)), undated=3)

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    @pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
    def test_timestamps(self, tmp_path: Path, unit: Any, zone: str | None) -> None:
        times = [datetime(2024, 5, 6, 8, 30), datetime(2024, 5, 6, 17), None]
        self.check(self.drift(tmp_path, pa.array(times, pa.timestamp(unit, tz=zone))), undated=1)

    @pytest.mark.parametrize("times", [[True, False], [[1], [2]], [datetime(2024, 5, 6).time()] * 2])
    def test_what_is_no_time(self, tmp_path: Path, times: list[Any]) -> None:
        assert self.drift(tmp_path, pa.array(times)) is None


class TestAmounts:
    def test_candidates_never_shown(self, logs: MakeLogs) -> None:
        made = logs(queries=3)
        path = made.add(30, made.fixed).write()
        features = RankingDataset.from_arrays(
            np.zeros((48, 1)), np.repeat([0, 1, 2, 3], 12), doc_ids=[f"d{i}" for i in range(12)] * 4
        )
        result = audit(path, features)
        assert (result.facts.queries.candidates, result.facts.queries.never_shown) == (36, 21)
        assert "unsearched queries" in topics(result)
        assert audit(path).facts.queries.never_shown is None

    def test_only_shown_candidates_are_asked_about(self, logs: MakeLogs) -> None:
        made = logs(queries=1)
        path = made.add(30, made.fixed).write()
        features = RankingDataset.from_arrays(np.zeros((5, 1)), [0] * 5, doc_ids=[f"d{i}" for i in range(5)])
        asked = found(audit(path, features), "selection")
        assert asked.severity == Severity.warning
        assert "All 5 candidates" in asked.found
        assert "leave out candidates" in asked.found

    def test_queries_without_a_click(self, logs: MakeLogs) -> None:
        made = logs(queries=40)
        made.add(40, made.fixed)
        for row in made.rows:
            row["clicked"] = row["query_id"] < 3
        result = audit(made.write())
        assert result.facts.queries.unclicked == 37
        assert found(result, "queries").severity == Severity.warning
        assert sum(entry.count for entry in result.facts.queries.histogram) == 40

    @pytest.mark.parametrize("clicked", [False, True])
    def test_nothing_or_everything_clicked_blocks(self, logs: MakeLogs, clicked: bool) -> None:
        made = logs().add(50, lambda _: np.arange(12))
        for row in made.rows:
            row["clicked"] = clicked
        result = audit(made.write())
        assert result.verdict.severity == Severity.blocking
        assert result.verdict.findings[0].topic == "clicks"
        assert result.verdict.sentence.startswith("Do not train")

    def test_one_position(self, logs: MakeLogs) -> None:
        made = logs(depth=1)
        result = audit(made.add(50, made.shuffled).write())
        assert "position 1" in found(result, "propensities").found
        assert not any(method.possible for method in result.facts.ways)

    def test_a_log_of_nothing_but_rejects(self, logs: MakeLogs) -> None:
        made = logs().add(5, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] = -1
        result = audit(made.write())
        assert result.verdict.severity == Severity.blocking
        assert result.facts.curve == ()
        json.dumps(result.as_dict(), allow_nan=False)
        assert "<svg" in result.to_html()

    @pytest.mark.parametrize(
        ("impressions", "severity"), [(4, Severity.warning), (15, Severity.note), (3000, Severity.ok)]
    )
    def test_what_is_rough_is_not_ok(self, impressions: int, severity: Severity) -> None:
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
        for part in ("curve", "queries", "overlap", "order", "precision", "ways"):
            assert getattr(whole, part) == getattr(cells, part)
        assert cells.log is None
        assert cells.rejects is None

    def test_several_files_of_cells_are_added(self, logs: MakeLogs, tmp_path: Path) -> None:
        made = logs()
        for name in ("one", "two"):
            path = made.add(50, made.shuffled).write(f"{name}.parquet")
            aggregate(path).clicks.save(tmp_path / f"{name}-cells.parquet")
            made.rows.clear()
        cells = [tmp_path / "one-cells.parquet", tmp_path / "two-cells.parquet"]
        assert audit(cells).facts.impressions == 2 * 50 * 5
        shutil.copy(cells[0], tmp_path / "copy.parquet")
        with pytest.raises(DataError, match=r"one\.parquet went into both"):
            audit([*cells, tmp_path / "copy.parquet"])
        for file in (cells[0], tmp_path / "one.parquet"):
            with pytest.raises(UsageError, match="is named twice"):
                audit([file, file])

    def test_options_of_logs_are_refused(self, logs: MakeLogs, tmp_path: Path) -> None:
        made = logs()
        aggregate(made.add(5, made.fixed).write()).clicks.save(tmp_path / "cells.parquet")
        with pytest.raises(UsageError, match="cells already"):
            audit(tmp_path / "cells.parquet", one_query=True)


MOMENTS: dict[str, Callable[[int], Any]] = {
    "text": lambda page: f"2024-02-0{1 + page // 12}T05:06:07{'+02:00' if page % 2 else ''}",
    "milliseconds": days(1000, 12),
    "timestamps": lambda page: datetime(2024, 2, 1 + page // 12, 5, 6, 7),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_spark_finds_the_same(logs: MakeLogs, spark: Any, kind: str) -> None:
    made = logs()
    made.add(
        60,
        made.shuffled,
        user_id=lambda page: f"u{page % 7}",
        surface=lambda page: "web" if page % 3 else None,
        timestamp=MOMENTS[kind],
    )
    made.rows[0]["position"] = 2  # two documents at one position
    made.rows[7]["position"] = 40  # a gap
    made.rows += made.rows[20:23]  # rows twice
    path = made.write()
    assert audit(path, engine=spark).as_dict() == audit(path).as_dict()


class TestCommand:
    @pytest.fixture
    def call(self) -> Callable[..., Any]:
        app = typer.Typer()
        app.command()(command)
        return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)

    def test_json_and_page(self, logs: MakeLogs, call: Callable[..., Any], tmp_path: Path) -> None:
        made = logs()
        path = made.add(300, made.shuffled, who=lambda page: page % 30).write()
        ran = call(path, "--column", "user_id=who", "--html", tmp_path / "audit.html", "--json")
        assert ran.exit_code == 0
        result = json.loads(ran.stdout)
        assert result == json.loads(json.dumps(audit(path, columns={"user_id": "who"}).said("shell").as_dict()))
        assert result["log"]["actors"]["kind"] == "user"
        assert result["totals"]["impressions"] == 1500
        assert (tmp_path / "audit.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_blocking_has_an_exit_code_of_its_own(
        self, logs: MakeLogs, call: Callable[..., Any], tmp_path: Path
    ) -> None:
        made = logs().add(50, lambda _: np.arange(12))
        for row in made.rows:
            row["clicked"] = False
        ran = call(made.write(), "--html", tmp_path / "audit.html", "--json")
        assert ran.exit_code == 3
        assert json.loads(ran.stdout)["verdict"]["severity"] == "blocking"
        assert (tmp_path / "audit.html").exists()

    def test_the_terminal(self, logs: MakeLogs, call: Callable[..., Any]) -> None:
        made = logs()
        path = made.add(300, made.shuffled).write()
        out = call(path).stdout
        assert "1,500 impressions" in out
        assert "in common" in out
        assert audit(path).said("shell").verdict.sentence in out
        assert str(audit(path)).count("\n") > 20

    def test_one_query(self, logs: MakeLogs, call: Callable[..., Any]) -> None:
        made = logs()
        made.add(300, made.shuffled)
        made.rows = [{key: row[key] for key in row if key != "query_id"} for row in made.rows]
        ran = call(made.write(), "--one-query", "--json")
        assert json.loads(ran.stdout)["queries"]["searched"] == 1


@pytest.mark.data
def test_ranklens(real_data: Path) -> None:
    columns = {"session_id": "ranking", "user_id": "user", "timestamp": "ts_ms", "doc_id": "item", "clicked": "click"}
    result = audit(real_data / "ranklens" / "impressions.parquet", columns=columns, one_query=True)
    facts = result.facts
    assert facts.order.looks == "random"
    assert "Randomised" in result.verdict.sentence
    assert [entry.impressions for entry in facts.curve] == [9800] * 24
    assert [entry.clicks for entry in facts.curve[:3]] == [2435, 2309, 2199]  # by DuckDB's own SQL
    assert facts.log is not None
    assert (facts.log.pages.pages, facts.log.actors.actors) == (9800, 2145)
    assert facts.log.drift is not None
    assert facts.log.drift.unit == "epoch milliseconds"
    assert "shape" in topics(result)  # the last of 24 is clicked more often than the one above
