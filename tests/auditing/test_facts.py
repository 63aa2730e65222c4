"""Facts of a log: positions and queries, suspicious users, odd pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_logs import MakeLogs, days, found
from click_tables import Cells, some_cells, table_of
from hypothesis import given, settings

from cldrank.auditing import audit
from cldrank.auditing.drift import wilson
from cldrank.auditing.facts import by_position, describe_queries


class TestPositions:
    def test_wilson(self) -> None:
        low, high = wilson(np.array([5.0, 0.0, 20.0]), np.array([10.0, 20.0, 20.0]))
        # Newcombe (1998), and by hand: z² / (n + z²) for none of n
        assert low == pytest.approx([0.2366, 0.0, 0.8389], abs=1e-4)
        assert high == pytest.approx([0.7634, 0.1611, 1.0], abs=1e-4)

    @settings(max_examples=30)
    @given(some_cells)
    def test_the_curve_has_every_impression_and_click(self, cells: Cells) -> None:
        found = by_position(table_of(cells, 12))
        assert sum(entry.impressions for entry in found) == sum(n for n, _ in cells.values())
        assert sum(entry.clicks for entry in found) == sum(c for _, c in cells.values())
        assert all(entry.low <= entry.rate <= entry.high for entry in found)

    def test_queries(self) -> None:
        cells = {(0, 1): (8, 1), (1, 2): (8, 0), (4, 1): (3, 0), (5, 1): (2, 0)}
        found = describe_queries(table_of(cells, 12), knows_candidates=True)
        assert (found.queries, found.searched, found.unclicked) == (3, 2, 1)
        assert (found.candidates, found.never_shown) == (8, 4)
        assert found.most_pages == 8


# -- users unlike people ----------------------------------------------------------------------------------------------


class TestBots:
    def test_a_crawler_and_a_clicker(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(400, made.shuffled, user_id=lambda page: f"u{page % 100}")
        made.add(200, made.shuffled, boost=0.0, user_id="crawler")
        made.add(30, made.shuffled, boost=1e9, user_id="<b>clicker")
        result: Any = audit(made.write())
        bots = result.facts.log.bots
        assert (bots.reasons["everything clicked"], bots.suspicious) == (1, 2)
        assert [number for reason, number in bots.reasons.items() if reason.endswith("pages")] == [1]
        assert [suspect.name for suspect in bots.named] == ["crawler", "<b>clicker"]
        assert (bots.impressions, bots.clicks) == (230 * 5, 30 * 5)
        assert found(result, "bots").severity == "warning"

    def test_a_clicker_with_few_impressions_and_many_of_the_clicks(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(600, made.shuffled, boost=0.1, user_id=lambda page: f"u{page % 100}")
        made.add(15, made.shuffled, boost=1e9, user_id="clicker")
        result: Any = audit(made.write())
        facts, bots = result.facts, result.facts.log.bots
        assert bots.impressions / facts.impressions < 0.03 < 0.2 < bots.clicks / facts.clicks
        assert found(result, "bots").severity == "warning"

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
        log: Any = audit(tmp_path / "log.parquet").facts.log
        assert [suspect.name for suspect in log.bots.named] == ["odd"]
        assert [number for reason, number in log.bots.reasons.items() if "a click rate above" in reason] == [1]


# -- pages ------------------------------------------------------------------------------------------------------------


class TestPages:
    def test_gaps(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12))
        made.rows = [row for row in made.rows if not (row["position"] in (3, 4) and row["session_id"] < "s5")]
        result: Any = audit(made.write())
        gaps = len({row["session_id"] for row in made.rows if row["session_id"] < "s5"})
        assert result.facts.log.gaps == gaps > 0
        assert found(result, "gaps").severity == "warning"

    def test_two_documents_at_one_position(self, logs: MakeLogs) -> None:
        made = logs(depth=5).add(100, lambda _: np.arange(12))
        for row in made.rows[:15:5]:
            row["position"] = 2
        result: Any = audit(made.write())
        assert result.facts.log.shared == 3
        assert result.facts.log.late == 3
        assert result.facts.log.gaps == 0

    def test_a_row_twice_is_no_shared_position(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12))
        made.rows += made.rows[:7]
        result: Any = audit(made.write())
        assert result.facts.account.rejected == {"repeated row": 7}
        assert result.facts.log.shared == 0
        assert found(result, "rows").severity == "note"

    def test_pages_deeper_than_the_bits_of_a_number(self, tmp_path: Path) -> None:
        positions = np.arange(1, 151)
        path = tmp_path / "deep.parquet"
        hole = np.delete(positions, 100)
        rows = [(0, positions), (1, hole), (2, positions)]
        position = np.concatenate([p for _, p in rows])
        columns = {"session_id": np.concatenate([np.full(len(p), s) for s, p in rows]), "query_id": 0 * position}
        pq.write_table(
            pa.table({**columns, "doc_id": position, "position": position, "clicked": position % 7 == 0}), path
        )
        log: Any = audit(path).facts.log
        assert (log.pages, log.gaps, log.shared) == (3, 1, 0)

    def test_depth_by_surface(self, logs: MakeLogs) -> None:
        made = logs().add(60, lambda _: np.arange(12), surface="web")
        made.depth = 3
        result: Any = audit(made.add(20, made.fixed, surface="app").write())
        assert [(g.name, g.pages, g.depth) for g in result.facts.log.surfaces] == [("web", 60, 5), ("app", 20, 3)]
        assert "app: 3" in found(result, "surfaces").found
        assert "--log-column segment=surface`" in found(result, "surfaces").advice

    def test_positions_not_from_zero(self, logs: MakeLogs) -> None:
        made = logs()
        wrong = found(audit(made.add(20, made.fixed).write(), first_position=0), "first position")
        assert wrong.severity == "blocking"
        assert "does not count positions from 0" in wrong.found


def test_a_page_seen_again_is_no_copy(logs: MakeLogs) -> None:
    made = logs().add(100, lambda _: np.arange(12), timestamp=days(1, 20))
    made.rows += [{**row, "timestamp": row["timestamp"] + 60, "clicked": False} for row in made.rows]
    path = made.write()
    result: Any = audit(path)
    assert result.facts.account.rejected == {"second view": 500}
    rows = found(result, "rows")
    assert "500 of 1,000 rows (50.00%)" in rows.found
    assert "log a session_id per page" in rows.advice
