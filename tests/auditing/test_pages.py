from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_logs import MakeLogs, days, found, topics

from cldrank.auditing import audit


class TestPages:
    def test_regular_ones(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(100, made.fixed).write())
        assert {"gaps", "shared positions", "first position"}.isdisjoint(topics(result))
        assert found(result, "positions").severity == "ok"

    def test_gaps(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12))
        made.rows = [row for row in made.rows if not (row["position"] in (3, 4) and row["session_id"] < "s5")]
        result = audit(made.write())
        gaps = len({row["session_id"] for row in made.rows if row["session_id"] < "s5"})
        assert result.facts.log is not None
        assert result.facts.log.pages.gaps == gaps > 0
        assert found(result, "gaps").severity == "warning"

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
        assert result.facts.account is not None
        assert result.facts.account.rejected == {"repeated row": 7}
        assert result.facts.log is not None
        assert result.facts.log.pages.shared == 0
        assert found(result, "rows").severity == "note"

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
        assert 'segment="surface"' in found(result, "surfaces").advice

    @pytest.mark.parametrize("depth", [5, 12])
    def test_positions_from_zero(self, logs: MakeLogs, depth: int) -> None:
        made = logs(depth=depth).add(200, lambda _: np.arange(12))
        for row in made.rows:
            row["position"] -= 1
        path = made.write()
        result = audit(path)
        wrong = found(result, "first position")
        assert wrong.severity == result.verdict.severity == "blocking"
        assert "counts positions from 0: 200 rows" in wrong.found
        assert "first_position=0" in wrong.advice
        assert "first position" not in topics(audit(path, first_position=0))
        assert found(audit(path, first_position=0), "rows").severity == "ok"

    def test_positions_not_from_zero(self, logs: MakeLogs) -> None:
        made = logs()
        wrong = found(audit(made.add(20, made.fixed).write(), first_position=0), "first position")
        assert wrong.severity == "blocking"
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
        assert result.facts.account is not None
        assert result.facts.account.rejected == {"second view": 500}
        views = found(result, "views")
        assert views.severity == "warning"
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
