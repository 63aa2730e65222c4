"""What a saved ranker remembers of its training: hashes of queries, and ranges of features."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from made_rankers import FEATURES, NAMES, ORIGIN, RANKERS, linear, rewrite

from cldrank import rankers
from cldrank.data.dataset import RankingDataset
from cldrank.errors import FormatError, UsageError
from cldrank.evaluation import evaluate
from cldrank.rankers import load_ranker

SEEN = np.array([3, 5, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("name", ["linear", *RANKERS])
def test_hashes_come_back_with_every_kind(name: str, tmp_path: Path) -> None:
    plain = {"linear": linear, **RANKERS}[name]()
    ranker = plain.with_queries(SEEN)
    ranker.save(tmp_path / "ranker")
    plain.save(tmp_path / "plain")
    again = load_ranker(tmp_path / "ranker")
    np.testing.assert_array_equal(again.trained_on, SEEN)
    assert again.trained_on.dtype == np.uint64  # type: ignore[union-attr]
    assert load_ranker(tmp_path / "plain").trained_on is None


def test_they_are_replaced_with_the_ranker(tmp_path: Path) -> None:
    linear().with_queries(SEEN).save(tmp_path)
    linear().with_queries(SEEN[:1]).save(tmp_path)
    assert load_ranker(tmp_path).trained_on.tolist() == [3]  # type: ignore[union-attr]
    linear().save(tmp_path)
    assert load_ranker(tmp_path).trained_on is None


def test_they_stay_when_an_evaluation_is_recorded(tmp_path: Path) -> None:
    linear().with_queries(SEEN).save(tmp_path)
    ranker = load_ranker(tmp_path)
    data = RankingDataset.from_arrays(FEATURES[:9], [1] * 9, np.arange(9), feature_names=NAMES)
    rankers.record_evaluation(ranker, evaluate(ranker, data, "AP"), tmp_path)
    again = load_ranker(tmp_path)
    assert len(again.provenance.evaluations) == len(ORIGIN.evaluations) + 1
    np.testing.assert_array_equal(again.trained_on, SEEN)
    linear().with_queries(SEEN[:1]).save(tmp_path)
    with pytest.raises(UsageError, match="holds another ranker"):
        rankers.record_evaluation(ranker, evaluate(ranker, data, "AP"), tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"trained_on": SEEN[::-1].copy()}, "must be sorted"),
        ({"trained_on": SEEN.astype(np.int64)}, "flat array of uint64"),
        ({"trained_on": SEEN[None]}, "flat array of uint64"),
        ({"other": SEEN}, "has float64 coefficients"),
        ({"ranges": np.zeros((2, 3), np.float32)}, r"float32 \(2, 4\)"),
        ({"ranges": np.zeros((2, 4))}, r"float32 \(2, 4\)"),
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
