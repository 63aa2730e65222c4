from __future__ import annotations

import datetime
import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from result_rows import NOON, row, table

from cldrank.errors import DataError, UsageError
from cldrank.experiment import records, results


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    records.save_unit(tmp_path, [row("CLD", 0, 0.5), row("CLD", 0, 0.25, measure="AP")])
    records.save_unit(tmp_path, [row("CLD", 1, 0.75)])
    found = records.load_results(tmp_path)
    assert found.schema == records.SCHEMA
    assert sorted(found["value"].to_pylist()) == [0.25, 0.5, 0.75]
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_unit_run_again_replaces_what_was_recorded(tmp_path: Path) -> None:
    records.save_unit(tmp_path, [row("CLD", 0, math.nan)])
    records.consolidate(tmp_path)
    records.save_unit(tmp_path, [row("CLD", 0, 0.5, finished=NOON + datetime.timedelta(minutes=1))])
    found = records.load_results(tmp_path)
    assert found["status"].to_pylist() == ["ok"]


def test_one_unit_may_stand_in_several_settings(tmp_path: Path) -> None:
    for depth in (2, 3):
        records.save_unit(tmp_path, [row("Oracle", 0, 0.5, setting=json.dumps({"simulation.depth": depth}))])
    assert records.load_results(tmp_path).num_rows == 2


def test_a_consolidated_file_stands_alone(tmp_path: Path) -> None:
    records.save_unit(tmp_path, [row("CLD", 0, 0.5)])
    file = records.consolidate(tmp_path)
    assert records.load_results(file).equals(records.load_results(tmp_path))
    (tmp_path / "alone").mkdir()
    file.rename(tmp_path / "alone" / "results.parquet")
    assert records.load_results(tmp_path / "alone").num_rows == 1


def test_a_half_written_file_is_not_seen(tmp_path: Path) -> None:
    records.save_unit(tmp_path, [row("CLD", 0, 0.5)])
    (tmp_path / "results" / ".unit.parquet.x.part").write_bytes(b"PAR1 half")
    assert records.load_results(tmp_path).num_rows == 1


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results here"):
        records.load_results(tmp_path)
    with pytest.raises(UsageError, match="at least one row"):
        records.save_unit(tmp_path, [])


def test_a_table_without_rows(tmp_path: Path) -> None:
    pq.write_table(records.SCHEMA.empty_table(), tmp_path / "results.parquet")
    found = records.load_results(tmp_path)
    assert found.equals(records.SCHEMA.empty_table())
    assert results.summary(found) == []
    records.save_unit(tmp_path, [row("CLD", 0, 0.5)])
    assert records.load_results(tmp_path).num_rows == 1


def test_a_value_that_is_no_number_is_read_as_failed(tmp_path: Path) -> None:
    rows = [row("CLD", 0, 0.5), {**row("CLD", 0, 0.5, measure="AP"), "value": math.nan}]
    records.save_unit(tmp_path, rows)
    found = {one["measure"]: (one["status"], one["error"]) for one in records.load_results(tmp_path).to_pylist()}
    assert found == {"nDCG@3": ("ok", ""), "AP": ("failed", "AP is nan, although the fit succeeded")}
    records.consolidate(tmp_path)
    assert records.load_results(tmp_path).num_rows == 2


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"results.parquet: not a table of results: no column experiment"):
        records.load_results(tmp_path)


def test_a_place_that_does_not_exist_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere: there are no results here; no such folder or file"):
        records.load_results(tmp_path / "nowhere")


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    doubled = table([row("CLD", 0, 0.5)])
    doubled = doubled.append_column("method", pa.array(["IPS"]))
    pq.write_table(doubled, tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"not a table of results: more than one column method"):
        records.load_results(tmp_path)


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("setting", None, "setting is missing in row 1"),
        ("finished", None, "finished is missing in row 1"),
        ("seconds", None, "seconds is missing in row 1"),
        ("seconds", math.nan, "seconds is nan in row 1"),
        ("seconds", math.inf, "seconds is inf in row 1"),
        ("peak_mib", -1.0, "peak_mib is -1.0 in row 1"),
        ("status", "fine", "status is 'fine' in row 1"),
        ("seed", -3, "seed is -3 in row 1"),
        ("value", 1e300, r"value is 1e\+300 in row 1"),
        ("measure", "nGCD@3", "measure 'nGCD@3' is not valid"),
        ("setting", "{", "setting '{' is not valid"),
        ("setting", "[1]", "setting .* is not valid .not a table"),
        ("setting", '{"a": null}', "setting .* is not valid"),
        ("setting", '{"a": NaN}', "a must be a finite number, not nan"),
        ("setting", '{"a": 1e999}', "a must be a finite number, not inf"),
        ("setting", f'{{"a": {"9" * 400}}}', "a is too large"),
        ("setting", f'{{"a": {DEEP}}}', "setting .* is not valid"),
        ("configuration", "", "configuration '' is not valid"),
        ("configuration", '{"method": 3}', "method is 3"),
        ("configuration", '{"method": {"parameters": []}}', r"method.parameters is \[\]"),
        ("configuration", f'{{"a": {"[" * 60}{"]" * 60}}}', "nested too deeply"),
        ("warnings", '{"a": 1}', "not a list"),
        ("warnings", "[1]", "not a list of texts"),
        ("versions", "3.11", "not a table"),
    ],
)
def test_damaged_values_are_refused(tmp_path: Path, column: str, value: object, complaint: str) -> None:
    rows = [row("CLD", 0, 0.5), {**row("CLD", 1, 0.5), column: value}]
    file = tmp_path / "results.parquet"
    pq.write_table(table(rows), file)
    with pytest.raises(DataError, match=complaint) as caught:
        records.load_results(file)
    assert str(caught.value).startswith(f"{file}: not a table of results: ")
    assert "remove it" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("method", pa.array([["a"], ["b"]])),
        ("seed", pa.array([0.5, 1.0])),
        ("seed", pa.array([2**63, 1], pa.uint64())),
        ("value", pa.array(["x", "y"])),
        ("finished", pa.array([2**62, 1], pa.timestamp("us", tz="UTC"))),
        ("method", pa.array([b"\xff\xfe", b"a"])),
        ("setting", pa.StructArray.from_arrays([pa.array([1, 2])], ["a"])),
        ("synthetic", pa.nulls(2)),
    ],
)
def test_columns_of_other_types_are_refused(tmp_path: Path, column: str, values: pa.Array) -> None:
    made = table([row("CLD", 0, 0.5), row("CLD", 1, 0.5)])
    made = made.set_column(made.schema.get_field_index(column), column, values)
    pq.write_table(made, tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"results.parquet: not a table of results"):
        records.load_results(tmp_path)
