from __future__ import annotations

from pathlib import Path
from typing import Any

from audit_logs import Logs

from cldrank.auditing import audit


def test_spark_finds_the_same(tmp_path: Path, spark: Any) -> None:
    made = Logs(tmp_path)
    made.add(
        60,
        made.shuffled,
        user_id=lambda page: f"u{page % 7}",
        surface=lambda page: "web" if page % 3 else None,
        timestamp=lambda page: f"2024-02-0{1 + page // 12}T05:06:07{'+02:00' if page % 2 else 'Z'}",
    )
    made.rows[0]["position"] = 2  # two documents at one position
    made.rows[7]["position"] = 40  # a gap
    made.rows += made.rows[20:23]  # rows twice
    path = made.write()
    assert audit(path, engine=spark).as_dict() == audit(path).as_dict()
