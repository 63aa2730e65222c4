"""A log made plain once: one table, a reason for each row set aside, users left out on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odd_logs import PLAIN, expected, plain_rows, read, write_json, write_parquet
from small_logs import cells

from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
from cldrank.clicks.bots import bot_rule
from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.log.plain_log import open_log
from cldrank.errors import UsageError
from cldrank.tables import connect, open_table
from cldrank.tables.duckdb_engine import DuckDB

HEADER = "session_id,query_id,doc_id,position,clicked"


def write_csv(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


class TestOnePass:
    def test_text_is_parsed_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also with repeated rows, which are looked at again: in the table, not in the file."""
        rows = [",".join(map(str, row)) for row in (*PLAIN, *PLAIN[:5])]
        path = write_csv(tmp_path / "log.csv", rows)
        queries: list[str] = []
        arrow = DuckDB.arrow

        def note_read(engine: DuckDB, query: str) -> Any:
            queries.append(str(engine.connection.execute(f"EXPLAIN {query}").fetchall()))
            return arrow(engine, query)

        monkeypatch.setattr(DuckDB, "arrow", note_read)
        result = aggregate(path, max_rejected=1)
        assert result.account.rejected == {"repeated row": 5}
        assert cells(result.clicks) == expected()
        assert len(queries) > 3
        assert not [plan for plan in queries if "READ_CSV" in plan.upper()]

    def test_parquet_is_not_copied(self, tmp_path: Path) -> None:
        path = write_parquet(tmp_path / "log.parquet", plain_rows())
        with connect() as engine:
            log = open_log(path, engine, LogLayout())
            kinds = engine.rows(f"SELECT table_type FROM information_schema.tables WHERE table_name = '{log.table}'")
        assert kinds == [{"table_type": "VIEW"}]


class TestExcluding:
    def rows(self) -> list[dict[str, Any]]:
        return [{**row, "user_id": f"u{row['session_id']}"} for row in plain_rows()]

    def test_users_by_id_and_by_file(self, tmp_path: Path) -> None:
        path = write_parquet(tmp_path / "log.parquet", self.rows())
        (tmp_path / "users.txt").write_text("u1\nu2\n\n")
        for users in (["u1", "u2"], tmp_path / "users.txt"):
            result = aggregate(path, exclude_users=users)  # what is asked for is no fault of the log
            assert result.account.rejected == {"excluded user": 12}
            assert result.clicks.impressions.sum() == len(PLAIN) - 12

    def test_a_log_without_users(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="`exclude_users`"):
            aggregate(write_parquet(tmp_path / "log.parquet", plain_rows()), exclude_users=["u1"])

    def test_bots(self, tmp_path: Path) -> None:
        people: list[dict[str, Any]] = [
            {"session_id": s, "user_id": f"u{s % 40}", "query_id": "q", "doc_id": f"d{k}", "position": k + 1,
             "clicked": int((s + k) % 10 == 0)}
            for s in range(400) for k in range(5)
        ]  # fmt: skip
        bot = [{**row, "session_id": 1000 + row["session_id"], "user_id": "bot", "clicked": 1} for row in people[:500]]
        result = aggregate(write_parquet(tmp_path / "log.parquet", [*people, *bot]), exclude_bots=True)
        assert result.account.rejected == {"bot": 500}
        assert result.clicks.impressions.sum() == len(people)
        faulty = [{**row, "user_id": "u7", "position": None, "clicked": 0} for row in bot]
        path = write_parquet(tmp_path / "log.parquet", [*people, *faulty])
        result = aggregate(path, exclude_bots=True, max_rejected=1)
        assert result.account.rejected == {"null key": 500}  # rows that are wrong make nobody a bot
        assert result.clicks.impressions.sum() == len(people)

    def test_a_click_rate_far_above_the_upper_quartile_is_no_human_one(self) -> None:
        counts = {"pages": [10] * 40, "impressions": [1000] * 40, "clicks": [100] * 20 + [140] * 20}
        with open_table(pa.table({"name": list(map(str, range(40))), **counts})) as users:
            assert bot_rule(users).rate_limit == 0.26  # 14% and three times the 4% between the quartiles


def test_just_above_the_limit(tmp_path: Path) -> None:
    """6 of 100 rows are more than 5%, and no more than 6%."""
    rows = [f"{n},q,a,{1 if n > 5 else ''},0" for n in range(100)]
    path = write_csv(tmp_path / "log.csv", rows)
    with pytest.raises(TooManyRejectsError, match="6.0%"):
        aggregate(path, max_rejected=0.05)
    assert aggregate(path, max_rejected=0.06).account.n_rejected == 6


@pytest.mark.parametrize("in_lists", [False, True])
def test_times_that_cannot_be_read_are_shown_as_logged(tmp_path: Path, in_lists: bool) -> None:
    times = ["2024-07-01T12:00:00z", "Very soon"]
    rows = [{**row, "timestamp": times[row["session_id"] % 2]} for row in plain_rows()]
    if in_lists:
        page = {"query_id": "q", "documents": ["a", "b"], "clicked": [0, 1], "timestamp": times}
        rows = [{"session_id": session, **page} for session in range(4)]
    _, result = read(write_json(tmp_path / "log.jsonl", rows), days=True)
    assert "timestamps cannot be read, such as 'Very soon'" in " ".join(result.account.found)
