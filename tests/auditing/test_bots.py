from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from audit_logs import MakeLogs, found

from cldrank.auditing import audit


class TestBots:
    def test_people_are_not_suspicious(self, logs: MakeLogs) -> None:
        made = logs()
        result = audit(made.add(500, made.shuffled, user_id=lambda page: page % 50).write())
        assert found(result, "bots").severity == "ok"
        assert result.facts.log is not None
        assert (result.facts.log.bots.kind, result.facts.log.bots.users) == ("user", 50)

    def test_a_crawler_and_a_clicker(self, logs: MakeLogs) -> None:
        made = logs()
        made.add(400, made.shuffled, user_id=lambda page: f"u{page % 100}")
        made.add(200, made.shuffled, boost=0.0, user_id="crawler")
        made.add(30, made.shuffled, boost=1e9, user_id="<b>clicker")
        result = audit(made.write())
        assert result.facts.log is not None
        bots = result.facts.log.bots
        assert (bots.many_pages, bots.all_clicked, bots.suspicious) == (1, 1, 2)
        assert [suspect.name for suspect in bots.named] == ["crawler", "<b>clicker"]
        assert (bots.impressions, bots.clicks) == (230 * 5, 30 * 5)
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
        log = audit(tmp_path / "log.parquet").facts.log
        assert log is not None
        assert log.bots.rate_limit is not None
        assert log.bots.rate_limit < 6 / 20
        assert [suspect.name for suspect in log.bots.named] == ["odd"]
        assert log.bots.high_rate == 1

    def test_sessions_stand_in_for_users(self, logs: MakeLogs) -> None:
        made = logs(depth=12)
        made.add(300, made.shuffled).add(4, made.shuffled, boost=1e9)
        result = audit(made.write())
        assert result.facts.log is not None
        bots = result.facts.log.bots
        assert bots.kind == "session"
        assert bots.all_clicked == 4
