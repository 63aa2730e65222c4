from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cldrank import scaling
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.methods.oracle import Oracle
from cldrank.models import Linear
from cldrank.models.linear.least_squares import LeastSquaresSums, ridge
from cldrank.models.linear.row_blocks import LocalRows, View
from cldrank.models.targets import Targets

METHODS: list[Any] = ["standard", "minmax", "log", None]


def example(seed: int = 0, rows: int = 400, width: int = 12) -> RankingDataset:
    """Correlated, heavy-tailed features of very different size, and graded labels that depend on them."""
    random = np.random.default_rng(seed)
    normal = random.normal(size=(rows, width)) @ random.normal(size=(width, width)) / np.sqrt(width)
    labels = np.clip(np.rint(normal @ random.normal(size=width) + random.normal(size=rows)), 0, 4)
    return RankingDataset.from_arrays(
        np.exp(normal) * 10.0 ** random.integers(-3, 4, width), np.arange(rows) // 8, labels
    )


def labels_of(data: RankingDataset) -> NDArray[np.float64]:
    assert data.labels is not None
    return data.labels.astype(np.float64)


def scaled_features(data: RankingDataset, method: Any) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = scaling.fit(method, data.features).transform(data.features).astype(np.float64)
    return scaled


@pytest.mark.parametrize(("method", "l2"), [("standard", 0.5), ("minmax", 1e-3), ("log", 1e-3), (None, 0.5)])
def test_solution_equals_least_squares_on_the_augmented_system(method: Any, l2: float) -> None:
    data = example()
    features = scaled_features(data, method)
    rows, width = features.shape
    penalty = np.hstack([np.sqrt(rows * l2) * np.eye(width), np.zeros((width, 1))])
    system = np.vstack([np.hstack([features, np.ones((rows, 1))]), penalty])
    size = np.linalg.norm(system, axis=0)  # columns of one size: the reference must be exact as well
    solution = np.linalg.lstsq(system / size, np.append(labels_of(data), np.zeros(width)), rcond=None)[0] / size
    model = Oracle(model=Linear(l2=l2, scaling=method)).fit(data)
    np.testing.assert_allclose(model.coef_, solution[:-1], rtol=1e-8, atol=1e-12)
    assert model.intercept_ == pytest.approx(solution[-1], rel=1e-8)


def sums_of(fitted: Any, features: Any, target: Any, block_rows: int | None = None) -> LeastSquaresSums:
    """The sums of all rows, each of weight 1."""
    count = len(target)
    own = Targets(np.arange(count), np.asarray(target, float), np.ones(count), np.arange(count))
    rows = LocalRows(features, own, View(fitted), block_rows=block_rows)
    return rows.fold(LeastSquaresSums.of, LeastSquaresSums.joined)


@given(st.integers(0, 5), st.integers(1, 90), st.sampled_from(METHODS))
def test_size_of_blocks_changes_nothing(seed: int, block_rows: int, method: str | None) -> None:
    data = example(seed, rows=80, width=4)
    fitted = scaling.fit(method, data.features)
    whole = ridge(sums_of(fitted, data.features, labels_of(data)), 1e-3)
    parts = ridge(sums_of(fitted, data.features, labels_of(data), block_rows), 1e-3)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-8, atol=1e-12)
    assert parts[1] == pytest.approx(whole[1], rel=1e-8)


def test_a_feature_far_from_zero_costs_no_digits() -> None:
    step = np.arange(1000) % 5
    data = RankingDataset.from_arrays(np.c_[step * 8 + 1e8, step % 2], np.arange(1000) // 10, step)
    model = Oracle(model=Linear(l2=0, scaling=None)).fit(data)
    np.testing.assert_allclose(model.predict(data), step, atol=1e-6)
    np.testing.assert_allclose(model.coef_, [1 / 8, 0], atol=1e-9)


@pytest.mark.parametrize("l2", [0, 1e-3])
@pytest.mark.parametrize("method", METHODS)
def test_constant_and_collinear_features_do_no_harm(method: Any, l2: float) -> None:
    plain = example(width=3)
    first, second, third = plain.features.T
    names = ("a", "constant", "b", "b again", "c", "a again")
    table = np.c_[first, np.full(len(first), 0.1), second, second, third, first]
    data = RankingDataset.from_arrays(table, plain.row_queries, plain.labels, feature_names=names)
    model = Oracle(model=Linear(l2=l2, scaling=method)).fit(data)
    assert model.constant_features_ == ("constant",)
    assert model.coef_[1] == 0
    assert model.coef_[0] == pytest.approx(model.coef_[5])
    if l2 == 0:
        expected = Oracle(model=Linear(l2=0, scaling=method)).fit(plain).predict(plain)
        np.testing.assert_allclose(model.predict(data), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "has no labels, and Oracle learns from labels"),
        ({"labels": np.ones(4)}, "all 4 labels are 1; Oracle needs labels that differ"),
        ({"features": np.ones((4, 2))}, "all features .* are constant"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {"features": np.eye(4), "qid": [1, 1, 2, 2], "labels": [0, 1, 0, 1]}
    with pytest.raises(DataError, match=message):
        Oracle().fit(RankingDataset.from_arrays(**parts | changes))
