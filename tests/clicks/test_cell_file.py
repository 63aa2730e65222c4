from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click_tables import DATA, cells, tables
from hypothesis import given, settings

from cldrank import ClickTable
from cldrank.errors import CldrankError, DataError, FormatError


class TestFiles:
    @settings(max_examples=30)
    @given(tables())
    def test_round_trip(self, tmp_path_factory: pytest.TempPathFactory, table: ClickTable) -> None:
        path = tmp_path_factory.mktemp("cells") / "cells.parquet"
        table.save(path)
        again = ClickTable.read(path, DATA)
        assert cells(again) == cells(table)
        again.check_same(DATA)
        assert sorted(cells(ClickTable.read(path))) == sorted(cells(table))

    def test_cells_of_another_dataset(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        ClickTable.from_arrays(DATA, position=[1] * 6, impressions=[1] * 6, clicks=[0] * 6).save(path)
        with pytest.raises(DataError, match=r"1 of 6 cells are of candidates .* first of query 3"):
            ClickTable.read(path, DATA[:2])
        with pytest.raises(CldrankError, match="holds cells already"):
            ClickTable.read(path, DATA, columns={"doc_id": "d"})

    GOOD: ClassVar[dict[str, Any]] = {
        "query_id": pa.array([1, 1]),
        "doc_id": pa.array([1, 2]),
        "position": pa.array([1, 2]),
        "impressions": pa.array([5, 5]),
        "clicks": pa.array([1, 0]),
    }

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"query_id": pa.array([None, 1])}, "'query_id' has null entries"),
            ({"doc_id": pa.array([1.5, 2.0])}, "'doc_id' holds double; ids are whole numbers"),
            ({"doc_id": pa.array(["a", "a\0"])}, "ends in a NUL character"),
            ({"position": pa.array([2**63, 1], pa.uint64())}, "entry 0 of position is 9223372036854775808"),
            ({"position": pa.array([True, False])}, r"entry 1 of position is 0\.0"),
            ({"clicks": pa.array([9, 0])}, "9 clicks in 5 impressions"),
            ({"impressions": pa.array([2**62, 2**62])}, "add up to more than"),
        ],
    )
    def test_wrong_types_and_values(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        path = tmp_path / "cells.parquet"
        pq.write_table(pa.table({**self.GOOD, **change}), path)
        with pytest.raises(DataError, match=message) as error:
            ClickTable.read(path)
        assert str(path) in str(error.value)

    @pytest.mark.parametrize("metadata", [b"{", b"[" * 100_000, b'{"sources": 5}', b'{"sources": [{"name": "a"}]}'])
    def test_damaged_metadata(self, tmp_path: Path, metadata: bytes) -> None:
        path = tmp_path / "cells.parquet"
        pq.write_table(pa.table(self.GOOD).replace_schema_metadata({b"cldrank.cells": metadata}), path)
        with pytest.raises(FormatError, match="metadata"):
            ClickTable.read(path)

    def test_damaged_files(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        path.write_bytes(b"PAR1 nothing more")
        with pytest.raises(DataError, match="not a readable Parquet file"):
            ClickTable.read(path)
        many = ClickTable.from_arrays(DATA, position=[1] * 6, impressions=range(1, 7), clicks=[0] * 6)
        many.save(path)
        whole = path.read_bytes()
        place = whole.index((3).to_bytes(8, "little"))  # an impression count, in plain sight
        path.write_bytes(whole[:place] + (4).to_bytes(8, "little") + whole[place + 8 :])
        with pytest.raises(DataError, match="not a readable Parquet file"):
            ClickTable.read(path)
