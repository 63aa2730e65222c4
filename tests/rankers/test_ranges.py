"""The ranges of features that a ranker keeps, and what is said of features that are unlike them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_rankers import FEATURES, NAMES, linear, trees

import cldrank as cr
from cldrank.errors import CldrankWarning
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


@pytest.mark.parametrize(("factor", "rows"), [(100.0, 300), (100.0, 20), (0.001, 5000)])
def test_a_feature_in_another_unit_is_warned_of_by_name_and_range(factor: float, rows: int, tmp_path: Path) -> None:
    ranker = linear().with_ranges(FEATURES)
    source = candidates(tmp_path / "candidates.parquet", factor, rows)
    with pytest.warns(CldrankWarning, match=r"feature pagerank goes from \S+ to \S+ here, from \S+ to \S+ in") as heard:
        cr.score(ranker, source, tmp_path / "scores.csv")
    assert len(heard) == 1


def test_the_features_of_the_training_data_are_not_warned_of(tmp_path: Path) -> None:
    for ranker in (linear().with_ranges(FEATURES), linear()):
        cr.score(ranker, candidates(tmp_path / "candidates.parquet", 1.0, 5000), tmp_path / "scores.csv")


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
