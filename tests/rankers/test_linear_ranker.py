"""Linear rankers."""

from typing import Any

import numpy as np
import pytest
from made_rankers import FEATURES, dataset, in_blocks, linear

from cldrank import scaling
from cldrank.errors import DataError
from cldrank.rankers import LinearRanker, Provenance


@pytest.mark.parametrize("method", ["standard", "minmax", "log", None])
def test_scores_are_the_linear_function_of_scaled_features(method: str | None) -> None:
    ranker = linear(method)
    scaled = scaling.fit(method, FEATURES).transform(FEATURES).astype(np.float64)
    np.testing.assert_allclose(ranker.predict(FEATURES), scaled @ ranker.coefficients + 1 / 3, rtol=1e-12)
    np.testing.assert_array_equal(ranker.predict(dataset()), ranker.predict(FEATURES))


@pytest.mark.parametrize("method", ["standard", None])
def test_equal_rows_get_equal_scores_wherever_they_lie(method: str | None) -> None:
    random = np.random.default_rng(1)
    train = random.normal(size=(50, 137)).astype(np.float32)
    ranker = LinearRanker(
        feature_names=tuple(f"f{index}" for index in range(137)),
        scaling=scaling.fit(method, train),
        coefficients=random.normal(size=137),
    )
    copies = np.repeat(train[:1], 203, axis=0)
    scores = [in_blocks(ranker, copies, size) for size in (1, 2, 7, 100, 1000)]
    assert len(np.unique(scores)) == 1  # a matrix product gives two
    order = random.permutation(50)
    np.testing.assert_array_equal(in_blocks(ranker, train[order], 7), ranker.predict(train)[order])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coefficients": np.zeros(3)}, r"shape \(3,\) for 4 features"),
        ({"coefficients": np.array([0, np.nan, 0, 0])}, "coefficient of feature 'pagerank' is nan"),
        ({"intercept": np.inf}, "intercept is inf"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        linear(**changes)


def test_repr_tells_what_it_is_and_where_it_comes_from() -> None:
    text = "LinearRanker(4 features, scaling Standard(clip=5.0), trained by Oracle on web (synthetic))"
    assert repr(linear()) == text
    assert str(Provenance(estimator="Oracle", rows=3)) == "trained by Oracle on unnamed data"
