"""The ranges of features that a ranker keeps, and what is said of features that are unlike them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from made_rankers import FEATURES, NAMES, ORIGIN, linear, rewrite, trees

import cldrank as cr
from cldrank import rankers
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, FormatError
from cldrank.evaluation import evaluate
from cldrank.rankers import load_ranker
from cldrank.rankers.ranges import RangeWatch, training_ranges


def test_they_hold_all_but_the_tails_whatever_the_size(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(50_000, 3)).astype(np.float32)
    table[::2, 1] = np.nan
    low, high = training_ranges(table)  # type: ignore[misc]
    np.testing.assert_allclose(low, np.nanquantile(table, 0.01, axis=0), atol=0.15)
    np.testing.assert_allclose(high, np.nanquantile(table, 0.99, axis=0), atol=0.15)
    table.tofile(tmp_path / "features")
    mapped = np.memmap(tmp_path / "features", np.float32, "r", shape=table.shape)
    np.testing.assert_array_equal(training_ranges(mapped), [low, high])


@pytest.mark.parametrize("make", [linear, trees])
def test_they_are_saved_with_the_ranker_and_change_no_score(make: object, tmp_path: Path) -> None:
    plain = make()  # type: ignore[operator]
    ranker = plain.with_ranges(FEATURES)
    ranker.save(tmp_path / "ranker")
    plain.save(tmp_path / "plain")
    again = load_ranker(tmp_path / "ranker")
    np.testing.assert_array_equal(again.ranges, training_ranges(FEATURES))
    np.testing.assert_array_equal(again.predict(FEATURES), plain.predict(FEATURES))
    assert load_ranker(tmp_path / "plain").ranges is None
    assert (tmp_path / "ranker" / "README.md").read_bytes() == (tmp_path / "plain" / "README.md").read_bytes()


def test_a_fit_keeps_them() -> None:
    data = cr.RankingDataset.from_arrays(FEATURES, np.arange(300) // 7, np.arange(300) % 3, feature_names=NAMES)
    np.testing.assert_array_equal(cr.Oracle().fit(data).ranker_.ranges, training_ranges(FEATURES))


def candidates(path: Path, factor: float, rows: int = 300) -> Path:
    table = np.random.default_rng(5).lognormal(0, 2, (rows, 4)).astype(np.float32)
    table[:, 1] *= factor
    columns = {name: table[:, at] for at, name in enumerate(NAMES)}
    pq.write_table(pa.table({"query_id": np.arange(rows) // 10, **columns}), path)
    return path


@pytest.mark.parametrize(("factor", "rows"), [(100.0, 20), (0.001, 5000)])
def test_a_feature_in_another_unit_is_warned_of_by_name_and_range(factor: float, rows: int, tmp_path: Path) -> None:
    ranker = linear().with_ranges(FEATURES)
    source = candidates(tmp_path / "candidates.parquet", factor, rows)
    with pytest.warns(CldrankWarning, match="feature pagerank") as heard:
        cr.score(ranker, source, tmp_path / "scores.csv")
    assert len(heard) == 1


@pytest.mark.parametrize("value", [-400.0, 500.0])
def test_values_far_on_either_side_are_told(value: float) -> None:
    watch = RangeWatch(["a"], np.array([[0], [20]], np.float32))
    watch.look(np.array([[10.0], [value]]))
    assert list(watch.differences()) == ["a"]
    watch.forget()
    watch.look(np.array([[10.0], [value / 3]]))
    assert watch.differences() == {}


def test_missing_and_constant_features_say_nothing() -> None:
    table = np.full((2000, 2), np.nan, np.float32)
    table[:, 1] = 3.0
    watch = RangeWatch(["a", "b"], training_ranges(table))
    watch.look(np.random.default_rng(0).normal(size=(2000, 2)) * 1e6)
    assert watch.differences() == {}
    watch = RangeWatch(["a"], np.array([[0], [1]], np.float32))
    watch.look(np.full((2000, 1), np.nan))
    watch.look(np.empty((0, 1)))
    assert watch.differences() == {}


SEEN = np.array([3, 5, 2**64 - 1], np.uint64)


def test_they_stay_when_an_evaluation_is_recorded(tmp_path: Path) -> None:
    linear().with_queries(SEEN).save(tmp_path)
    ranker = load_ranker(tmp_path)
    data = RankingDataset.from_arrays(FEATURES[:9], [1] * 9, np.arange(9), feature_names=NAMES)
    rankers.record_evaluation(ranker, evaluate(ranker, data, "AP"), tmp_path)
    again = load_ranker(tmp_path)
    assert len(again.provenance.evaluations) == len(ORIGIN.evaluations) + 1
    np.testing.assert_array_equal(again.trained_on, SEEN)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"trained_on": SEEN[::-1].copy()}, "must be sorted"),
        ({"trained_on": SEEN[None]}, "flat array of uint64"),
        ({"ranges": np.zeros((2, 3), np.float32)}, r"float32 \(2, 4\)"),
        ({"ranges": np.array([[1.0] * 4, [0.0] * 4], np.float32)}, "from its low to its high end"),
    ],
)
def test_other_arrays_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    linear().save(tmp_path)
    tensors = dict(safetensors.numpy.load_file(tmp_path / "weights.safetensors"))
    tensors |= {f"training.{name}": values for name, values in arrays.items()}
    rewrite(tmp_path, json.loads((tmp_path / "ranker.json").read_text()), tensors)
    with pytest.raises(FormatError, match=message) as caught:
        load_ranker(tmp_path)
    assert str(tmp_path) in str(caught.value)
