from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from audit_logs import Logs, days

from cldrank.auditing import audit

MOMENTS: dict[str, Callable[[int], Any]] = {
    "text": lambda page: f"2024-02-0{1 + page // 12}T05:06:07{'+02:00' if page % 2 else 'Z'}",
    "milliseconds": days(1000, 12),
    "timestamps": lambda page: datetime(2024, 2, 1 + page // 12, 5, 6, 7),
}


@pytest.mark.parametrize(
    "kind", ["text", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("milliseconds", "timestamps"))]
)
def test_spark_finds_the_same(tmp_path: Path, spark: Any, kind: str) -> None:
    made = Logs(tmp_path)
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
