from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_logs import DAY, START, MakeLogs, days, found

from cldrank.auditing import audit


class TestDrift:
    def test_units_are_told_by_size(self, logs: MakeLogs) -> None:
        made = logs()
        facts: Any = audit(made.add(120, made.fixed, timestamp=days(1000, 20)).write()).facts
        drift: Any = facts.log.drift
        assert any("milliseconds" in text for text in facts.account.found)
        assert drift.first == "2023-11-15 01:00:00"
        assert drift.last.startswith("2023-11-20")

    def test_a_steady_log(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(1200, made.shuffled, timestamp=days(1, 200)).write())
        assert found(result, "drift").severity == "ok"

    def test_a_change_half_way(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(600, made.shuffled, timestamp=days(1, 200))
        made.add(600, made.shuffled, boost=0.4, timestamp=days(1, 200))
        result = audit(made.write())
        assert found(result, "drift").severity == "warning"
        drift: Any = result.facts.log.drift  # type: ignore[union-attr]
        assert drift.top_rate.p_value < 1e-6

    def test_pages_without_a_time(self, logs: MakeLogs) -> None:
        made = logs().add(100, lambda _: np.arange(12), timestamp=days(1, 20))
        made.rows = [row for row in made.rows if row["timestamp"] != START + 2 * DAY + 3600]
        made.add(10, made.fixed, timestamp=None)
        result = audit(made.write())
        drift: Any = result.facts.log.drift  # type: ignore[union-attr]
        assert drift.undated == 10

    def test_text_and_no_time_at_all(self, logs: MakeLogs) -> None:
        made = logs()
        text = made.add(50, made.fixed, timestamp="2024-05-06 07:08:09").write("text.parquet")
        drift: Any = audit(text).facts.log.drift  # type: ignore[union-attr]
        assert drift.first == "2024-05-06 07:08:09"
        made.rows = [{**row, "timestamp": "soon"} for row in made.rows]
        assert "unknown" in found(audit(made.write("words.parquet")), "drift").found
        made.rows = [{key: row[key] for key in row if key != "timestamp"} for row in made.rows]
        assert "unknown" in found(audit(made.write("none.parquet")), "drift").found


class TestBrokenDays:
    def broken(self, log: Path) -> list[tuple[str, int, int]]:
        result = audit(log)
        facts: Any = result.facts.log
        if facts.drift.broken_days:
            assert found(result, "broken days").severity == result.verdict.severity == "blocking"
            for day in facts.drift.broken_days:
                assert day.day in found(result, "broken days").found
                rest = (result.facts.clicks - day.clicks) / (result.facts.impressions - day.impressions)
                assert day.usual == pytest.approx(rest)  # of the other days
        return [(day.day, day.impressions, day.clicks) for day in facts.drift.broken_days]

    @pytest.mark.parametrize("clicked", [0, 7])
    def test_a_day_with_no_clicks_or_hardly_any(self, logs: MakeLogs, clicked: int) -> None:
        made = logs()
        made.add(600, made.shuffled, timestamp=days(1, 100))
        last = [row for row in made.rows if row["timestamp"] == START + 5 * DAY + 3600]
        for at, row in enumerate(last):
            row["clicked"] = at < clicked
        assert self.broken(made.write()) == [("2023-11-20", 500, clicked)]

    def test_a_third_of_the_clicks_is_drift(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(500, made.shuffled, timestamp=days(1, 100)).add(100, made.shuffled, 0.3, timestamp=days(1, 100))
        assert self.broken(made.write()) == []

    def test_a_few_pages_without_a_click_are_chance(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(500, made.shuffled, timestamp=days(1, 100))
        made.add(4, made.shuffled, 0.0, timestamp=START + 5 * DAY + 3600)
        assert self.broken(made.write()) == []


class TestTimes:
    def drift(self, tmp_path: Path, times: pa.Array) -> Any:
        size = len(times)
        log = {"session_id": range(size), "query_id": ["q"] * size, "doc_id": ["a"] * size, "position": [1] * size}
        clicked = [n % 2 for n in range(size)]
        pq.write_table(pa.table({**log, "clicked": clicked, "timestamp": times}), tmp_path / "log.parquet")
        log_facts: Any = audit(tmp_path / "log.parquet").facts.log
        return log_facts.drift

    @pytest.mark.parametrize("times", [[True, False], [[1], [2]]])
    def test_what_is_no_time(self, tmp_path: Path, times: list[Any]) -> None:
        assert self.drift(tmp_path, pa.array(times)) is None
