from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cldrank.errors import DataError, UsageError
from cldrank.experiment import results

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def row(method: str, seed: int, value: float, **changes: Any) -> dict[str, Any]:
    failed = math.isnan(value)
    return {
        "experiment": "table1",
        "unit": f"{method}-{seed}-{changes.get('fold', '')}",
        "data": "msrd",
        "synthetic": False,
        "fold": "",
        "setting": "{}",
        "method": method,
        "seed": seed,
        "measure": "nDCG@3",
        "value": value,
        "status": "failed" if failed else "ok",
        "error": "it broke" if failed else "",
        "warnings": "[]",
        "seconds": 2.0,
        "peak_mib": 100.0 + seed,
        "configuration": "{}",
        "data_fingerprint": "abc",
        "versions": "{}",
        "commit": "",
        "command": "",
        "finished": NOON,
        **changes,
    }


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=results.SCHEMA)


def seeds(method: str, values: list[float], **changes: Any) -> list[dict[str, Any]]:
    return [row(method, seed, value, **changes) for seed, value in enumerate(values)]


# -- on disk -----------------------------------------------------------------------------------------------------


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    results.append(tmp_path, [row("CLD", 0, 0.5), row("CLD", 0, 0.25, measure="AP")])
    results.append(tmp_path, [row("CLD", 1, 0.75)])
    found = results.read(tmp_path)
    assert found.schema == results.SCHEMA
    assert sorted(found["value"].to_pylist()) == [0.25, 0.5, 0.75]
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_unit_run_again_replaces_what_was_recorded(tmp_path: Path) -> None:
    results.append(tmp_path, [row("CLD", 0, math.nan)])
    results.consolidate(tmp_path)
    results.append(tmp_path, [row("CLD", 0, 0.5, finished=NOON + datetime.timedelta(minutes=1))])
    found = results.read(tmp_path)
    assert found["status"].to_pylist() == ["ok"]


def test_one_unit_may_stand_in_several_settings(tmp_path: Path) -> None:
    for cutoff in (2, 3):
        results.append(tmp_path, [row("Oracle", 0, 0.5, setting=json.dumps({"simulation.cutoff": cutoff}))])
    assert results.read(tmp_path).num_rows == 2


def test_a_consolidated_file_stands_alone(tmp_path: Path) -> None:
    results.append(tmp_path, [row("CLD", 0, 0.5)])
    file = results.consolidate(tmp_path)
    assert results.read(file).equals(results.read(tmp_path))
    (tmp_path / "alone").mkdir()
    file.rename(tmp_path / "alone" / "results.parquet")
    assert results.read(tmp_path / "alone").num_rows == 1


def test_a_half_written_file_is_not_seen(tmp_path: Path) -> None:
    results.append(tmp_path, [row("CLD", 0, 0.5)])
    (tmp_path / "results" / ".unit.parquet.x.part").write_bytes(b"PAR1 half")
    assert results.read(tmp_path).num_rows == 1


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results here"):
        results.read(tmp_path)
    with pytest.raises(UsageError, match="at least one row"):
        results.append(tmp_path, [])


def test_a_table_without_rows(tmp_path: Path) -> None:
    pq.write_table(results.SCHEMA.empty_table(), tmp_path / "results.parquet")
    found = results.read(tmp_path)
    assert found.equals(results.SCHEMA.empty_table())
    assert results.summary(found) == []
    results.append(tmp_path, [row("CLD", 0, 0.5)])
    assert results.read(tmp_path).num_rows == 1


def test_a_value_that_is_no_number_is_read_as_failed(tmp_path: Path) -> None:
    rows = [row("CLD", 0, 0.5), {**row("CLD", 0, 0.5, measure="AP"), "value": math.nan}]
    results.append(tmp_path, rows)
    found = {one["measure"]: (one["status"], one["error"]) for one in results.read(tmp_path).to_pylist()}
    assert found == {"nDCG@3": ("ok", ""), "AP": ("failed", "AP is nan, although the fit went well")}
    results.consolidate(tmp_path)
    assert results.read(tmp_path).num_rows == 2


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"results.parquet: not a table of results: no column experiment"):
        results.read(tmp_path)


def test_a_place_that_does_not_exist_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere: there are no results here, there is no such folder or file"):
        results.read(tmp_path / "nowhere")


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    doubled = table([row("CLD", 0, 0.5)])
    doubled = doubled.append_column("method", pa.array(["IPS"]))
    pq.write_table(doubled, tmp_path / "results.parquet")
    with pytest.raises(DataError, match=r"not a table of results: more than one column method"):
        results.read(tmp_path)


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
        ("measure", "nGCD@3", "measure 'nGCD@3' is not what it should be"),
        ("setting", "{", "setting '{' is not what it should be"),
        ("setting", "[1]", "setting .* is not what it should be .not a table"),
        ("setting", '{"a": null}', "setting .* is not what it should be"),
        ("setting", '{"a": NaN}', "a must be a finite number, not nan"),
        ("setting", '{"a": 1e999}', "a must be a finite number, not inf"),
        ("setting", f'{{"a": {"9" * 400}}}', "a is too large a number"),
        ("setting", f'{{"a": {DEEP}}}', "setting .* is not what it should be"),
        ("configuration", "", "configuration '' is not what it should be"),
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
        results.read(file)
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
        results.read(tmp_path)


# -- what it says ------------------------------------------------------------------------------------------------


def found_of(rows: list[dict[str, Any]]) -> dict[str, results.Summary]:
    return {one.method: one for one in results.summary(table(rows))}


def test_mean_and_t_interval_over_seeds() -> None:
    values = [0.41, 0.42, 0.40, 0.41, 0.42]
    one = found_of(seeds("CLD", values))["CLD"]
    low, high = stats.t.interval(0.9, 4, np.mean(values), stats.sem(values))
    assert (one.mean, one.low, one.high, one.seeds) == pytest.approx((np.mean(values), low, high, 5))
    assert (one.seconds, one.peak_mib, one.failed) == (2.0, 104.0, 0)
    assert f"{one.interval:.3f}" == "0.412 ± 0.008"


def test_folds_are_averaged_within_a_seed() -> None:
    rows = [row("CLD", seed, value, fold=fold) for seed, fold, value in
            [(0, "fold1", 0.2), (0, "fold2", 0.4), (1, "fold1", 0.6), (1, "fold2", 0.8)]]  # fmt: skip
    one = found_of(rows)["CLD"]
    assert (one.mean, one.seeds) == pytest.approx((0.5, 2))
    incomplete = found_of(rows[:3])["CLD"]
    assert (incomplete.mean, incomplete.seeds) == pytest.approx((0.3, 1))


def test_a_failed_seed_is_left_out_and_counted() -> None:
    one = found_of(seeds("CLD", [0.4, math.nan, 0.6]))["CLD"]
    assert (one.mean, one.seeds, one.failed) == pytest.approx((0.5, 2, 1))
    none = found_of(seeds("CLD", [math.nan]))["CLD"]
    assert math.isnan(none.mean)
    assert none.interval is None
    assert not none.best


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_value_that_is_no_number_counts_as_failed(value: float | None) -> None:
    broken = {**row("CLD", 1, 0.5), "value": value}
    found = found_of([row("CLD", 0, 0.4), broken, row("CLD", 2, 0.6), *seeds("IPS", [0.3, 0.2, 0.1])])
    assert (found["CLD"].mean, found["CLD"].seeds, found["CLD"].failed) == pytest.approx((0.5, 2, 1))
    assert found["CLD"].best
    assert results.per_seed(table([broken])) == {results.Cell("table1", "msrd", "{}", "CLD", "nDCG@3"): {}}


def test_the_share_of_the_gap() -> None:
    found = found_of(seeds("Naive", [0.3, 0.3]) + seeds("CLD", [0.45, 0.45]) + seeds("Oracle", [0.5, 0.5]))
    assert [found[name].gap for name in ("Naive", "CLD", "Oracle")] == pytest.approx([0.0, 0.75, 1.0])
    assert math.isnan(found_of(seeds("CLD", [0.4, 0.5]))["CLD"].gap)
    backwards = found_of(seeds("Naive", [0.5, 0.5]) + seeds("Oracle", [0.3, 0.3]))
    assert math.isnan(backwards["Naive"].gap)
    unsure = found_of(seeds("Naive", [0.3, 0.5, 0.4]) + seeds("CLD", [0.1] * 3) + seeds("Oracle", [0.5, 0.3, 0.41]))
    assert math.isnan(unsure["CLD"].gap)  # a hair's breadth is no way to take a share of
    single = found_of(seeds("Naive", [0.3]) + seeds("CLD", [0.4]) + seeds("Oracle", [0.5]))
    assert single["CLD"].gap == pytest.approx(0.5)


def test_best_and_tied() -> None:
    rows = (
        seeds("Oracle", [0.9, 0.9, 0.9])
        + seeds("CLD", [0.50, 0.60, 0.70])
        + seeds("IPS", [0.51, 0.58, 0.70])  # now above, now below
        + seeds("Naive", [0.40, 0.50, 0.60])  # always a tenth below: overlapping intervals, yet surely worse
    )
    found = found_of(rows)
    assert {name for name, one in found.items() if one.best} == {"CLD"}
    assert {name for name, one in found.items() if one.tied} == {"CLD", "IPS"}
    difference = stats.ttest_rel([0.51, 0.58, 0.70], [0.50, 0.60, 0.70])
    assert difference.pvalue > 0.1


def test_less_can_be_better() -> None:
    rows = seeds("Naive", [9.0, 9.1], measure="ARP") + seeds("CLD", [5.0, 5.1], measure="ARP")
    rows += seeds("Oracle", [1.0, 1.1], measure="ARP")
    found = found_of(rows)
    assert found["CLD"].best
    assert found["CLD"].gap == pytest.approx(0.5)


def test_settings_of_any_kind_of_value_can_be_sorted() -> None:
    values = ["b", True, [1], 2.5, {"a": 1}, 1, "a"]
    ordered = sorted((json.dumps({"key": value}) for value in values), key=results.setting_order)
    assert [json.loads(text)["key"] for text in ordered] == [True, 1, 2.5, [1], "a", "b", {"a": 1}]


def test_order_of_settings_and_methods() -> None:
    rows = [row(method, 0, 0.5, setting=json.dumps({"simulation.cutoff": cutoff}))
            for cutoff in (10, 2) for method in ("Oracle", "mine", "CLD", "Naive")]  # fmt: skip
    found = [(one.varied["simulation.cutoff"], one.method) for one in results.summary(table(rows))]
    names = ["Naive", "CLD", "mine", "Oracle"]
    assert found == [(2, name) for name in names] + [(10, name) for name in names]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_every_setting_has_a_best_and_the_best_is_tied(first: list[float], second: list[float]) -> None:
    found = found_of(seeds("CLD", first) + seeds("IPS", second))
    assert any(one.best for one in found.values())
    assert all(one.tied for one in found.values() if one.best and one.mean > min(o.mean for o in found.values()))
