from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_logs import expected, plain_rows, write_parquet
from small_logs import cells

from cldrank import ClickTable
from cldrank.auditing import audit
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.log.layout import LogLayout
from cldrank.errors import UsageError
from cldrank.propensity import logged_probability

COLUMNS = {"doc_id": "item", "position": "rank"}


def renamed(tmp_path: Path, **more: Any) -> Path:
    rows = [{**row, "item": row["doc_id"], "rank": row["position"] - 1, **more} for row in plain_rows()]
    return write_parquet(tmp_path / "log.parquet", rows)


def test_one_value_for_every_reader(tmp_path: Path) -> None:
    path = renamed(tmp_path, propensity=0.5)
    layout = LogLayout(columns=COLUMNS, first_position=0)
    by_name: dict[str, Any] = {"columns": COLUMNS, "first_position": 0}
    table = aggregate(path, layout=layout).clicks
    assert cells(table) == cells(ClickTable.read(path, **by_name)) == expected()
    assert cells(ClickTable.read(path, layout=layout)) == expected()
    assert audit(path, layout=layout).as_dict() == audit(path, **by_name).as_dict()
    assert np.array_equal(logged_probability(path, table, layout=layout), logged_probability(path, table, **by_name))


def test_options_take_the_place_of_those_of_a_layout() -> None:
    layout = LogLayout(columns=COLUMNS, first_position=0)
    assert LogLayout.of(layout, {"first_position": 1}) == LogLayout(columns=COLUMNS, first_position=1)
    assert LogLayout.of(layout, {}) is not None
    assert LogLayout.of(None, {"columns": None}) == LogLayout()


def test_an_option_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`max_reject`"):
        aggregate(renamed(tmp_path), max_reject=1)


def test_cells_have_no_layout(tmp_path: Path) -> None:
    aggregate(renamed(tmp_path)).clicks.save(tmp_path / "cells.parquet")
    for options in ({"first_position": 0}, {"layout": LogLayout(first_position=1)}):
        with pytest.raises(UsageError, match="holds cells already"):
            audit(tmp_path / "cells.parquet", **options)
    assert audit(tmp_path / "cells.parquet", layout=LogLayout()).facts.impressions == len(plain_rows())
