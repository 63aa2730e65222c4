from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from result_rows import row, table

from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.experiment import results


def saved(folder: Path, rows: list[dict[str, object]]) -> None:
    pq.write_table(table(rows), folder / "results.parquet")


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no results"):
        results.load_results(tmp_path)
    with pytest.raises(UsageError, match="nowhere"):
        results.load_results(tmp_path / "nowhere")


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"results.parquet: not a table of results"):
        results.load_results(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"), [("measure", "nGCD@3"), ("setting", None), ("configuration", ""), ("warnings", '{"a": 1}')]
)
def test_damaged_values_are_refused(tmp_path: Path, column: str, value: object) -> None:
    saved(tmp_path, [row("CLD", 0, 0.5), {**row("CLD", 1, 0.5), column: value}])
    with pytest.raises(CldrankError):
        results.load_results(tmp_path)


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    results.save_results(tmp_path, [row("CLD", seed, 0.5) for seed in range(100)])
    file = tmp_path / "results.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 4] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"results\.parquet"):
        results.load_results(file)


@pytest.mark.parametrize(("column", "values"), [("seed", pa.array([0.5, 1.0])), ("value", pa.array(["x", "y"]))])
def test_columns_of_other_types_are_refused(tmp_path: Path, column: str, values: pa.Array) -> None:
    made = table([row("CLD", 0, 0.5), row("CLD", 1, 0.5)])
    made = made.set_column(made.schema.get_field_index(column), column, values)
    pq.write_table(made, tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"results.parquet: not a table of results"):
        results.load_results(tmp_path)
