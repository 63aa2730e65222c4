"""What every estimator promises, checked over all of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone

from cldrank import segments
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.estimators import (
    CLD,
    IPS,
    PIJD,
    AffineIPS,
    CLDPair,
    Estimator,
    HeckmanRank,
    Naive,
    NotFittedError,
    Oracle,
    PolicyAwareIPS,
    RankAgg,
    SVMRank,
)
from cldrank.models.network.networks import MLP
from cldrank.propensity import Propensities
from cldrank.rankers import BordaRanker, load_ranker
from cldrank.scaling import Standard

pd: Any = pytest.importorskip("pandas")
ESTIMATORS: list[Estimator] = [
    Oracle(),
    Oracle(l2=0.1, scaling="quantile"),
    Oracle(scaling=Standard(clip=3)),
    SVMRank(fraction=1.0),
    Naive(),
    IPS(clip=0.7),
    CLD(),
    CLD(gamma=0.3, target="clicks", likelihood="tobit", sigma="estimate", scaling="quantile"),
    HeckmanRank(),
    HeckmanRank(weighting="candidates", position_correction=True, cluster="query"),
    PIJD(),
    PIJD(position_effects=True, scaling="minmax"),
    CLDPair(epochs=2),
    CLDPair(model="linear", epochs=2),
    CLDPair(model=MLP(hidden=(8,)), epochs=2, scaling="quantile"),
    CLD(model="mlp", epochs=2),
    Naive(model="mlp", epochs=2),
    IPS(model="mlp", epochs=2, clip=0.7),
    AffineIPS(clip=0.7),
    AffineIPS(model="mlp", epochs=2),
    PolicyAwareIPS(clip=0.7),
    PolicyAwareIPS(model="mlp", epochs=2),
    Oracle(model="mlp", epochs=2),
    RankAgg(epochs=2),
    RankAgg(model="linear", weights=(1, 2)),
]


def copy_of(estimator: Estimator) -> Any:
    return clone(estimator)


def example(rows: int = 120, **changes: Any) -> RankingDataset:
    random = np.random.default_rng(0)
    features = random.lognormal(0, 1, (rows, 3))
    parts: dict[str, Any] = {
        "features": features,
        "qid": np.arange(rows) // 10,
        "labels": (features[:, 0] > 1) + (features[:, 1] > 2),
        "feature_names": ("bm25", "pagerank", "length"),
        "name": "example",
        "synthetic": True,
    }
    return RankingDataset.from_arrays(**parts | changes)


def learn(model: Any, data: RankingDataset) -> Any:
    """Fit with clicks on the three longest documents of each query, the more the better their labels."""
    rank = segments.descending_ranks(data.features[:, 2], data.offsets)
    shown = rank <= 3
    labels = np.zeros(data.n_rows) if data.labels is None else data.labels
    clicks = ClickTable.from_arrays(
        data,
        position=np.where(shown, rank, 0),
        impressions=np.where(shown, 12, 0),
        clicks=np.where(shown, (1 + 2 * labels).astype(int), 0),
    )
    return model.fit(data, clicks, Propensities.power(0.5, k=3))


pytestmark = [
    pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr),
    pytest.mark.filterwarnings("ignore:.* candidates were never shown, and are left out"),  # PolicyAwareIPS
]


def test_fit_returns_self_and_leaves_what_it_learned(estimator: Estimator) -> None:
    model = copy_of(estimator)
    data = example()
    assert learn(model, data) is model
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["bm25", "pagerank", "length"]
    np.testing.assert_array_equal(model.predict(data), model.ranker_.predict(data))
    if isinstance(model.ranker_, BordaRanker):  # it ranks within a query, and a plain table is one query
        data = RankingDataset.from_arrays(data.features, np.zeros(120), feature_names=data.feature_names)
    np.testing.assert_array_equal(model.predict(data.features), model.ranker_.predict(data))


def test_fit_changes_no_parameter_and_a_clone_has_learned_nothing(estimator: Estimator) -> None:
    model = copy_of(estimator)
    before = repr(model.get_params())
    learn(model, example())
    assert repr(model.get_params()) == before
    assert repr(copy_of(model)) == repr(model)
    with pytest.raises(NotFittedError, match="call fit first"):
        copy_of(model).predict(example())


def test_use_before_fit_is_an_error_of_both_families(estimator: Estimator) -> None:
    with pytest.raises(CldrankError):
        copy_of(estimator).predict([[1, 2, 3]])
    with pytest.raises(sklearn.exceptions.NotFittedError):
        copy_of(estimator).predict([[1, 2, 3]])


def test_fitting_again_forgets(estimator: Estimator) -> None:
    first = learn(copy_of(estimator), example(60))
    again = learn(learn(copy_of(estimator), example(120)), example(60))
    np.testing.assert_array_equal(again.predict(example()), first.predict(example()))


def test_the_ranker_survives_being_saved_and_knows_its_origin(estimator: Estimator, tmp_path: Path) -> None:
    model = learn(copy_of(estimator), example())
    model.ranker_.save(tmp_path)
    ranker = load_ranker(tmp_path)
    np.testing.assert_array_equal(ranker.predict(example()), model.predict(example()))
    origin = ranker.provenance
    assert (origin.data, origin.synthetic, origin.rows, origin.queries) == ("example", True, 120, 12)
    assert origin.estimator == type(estimator).__name__
    assert origin.parameters.keys() == model.get_params().keys()


def test_other_features_are_refused(estimator: Estimator) -> None:
    model = learn(copy_of(estimator), example())
    with pytest.raises(DataError, match="'length' is missing"):
        model.predict(example(feature_names=("bm25", "pagerank", "len")))


def test_columns_of_a_frame_are_found_by_their_names(estimator: Estimator) -> None:
    frame = pd.DataFrame(example().features, columns=["bm25", "pagerank", "length"])
    model = learn(copy_of(estimator), example(features=frame, feature_names=()))
    np.testing.assert_array_equal(model.predict(frame[["length", "bm25", "pagerank"]]), model.predict(frame))
    with pytest.raises(DataError, match="'length' is missing, 'len' is unknown"):
        model.predict(frame.rename(columns={"length": "len"}))


def test_order_of_queries_changes_nothing(estimator: Estimator) -> None:
    data = example()
    turned = data[np.arange(len(data))[::-1]]
    model = learn(copy_of(estimator), data)
    if hasattr(getattr(model, "ips_", model), "history_"):
        pytest.skip("chance draws queries by their place: which are held out, and which share a batch")
    expected = model.predict(data)
    np.testing.assert_allclose(learn(copy_of(estimator), turned).predict(data), expected, atol=1e-6)


@pytest.mark.parametrize("l2", [-1, np.nan, np.inf, "1", None, True])
def test_a_penalty_must_be_a_number_of_at_least_zero(estimator: Estimator, l2: Any) -> None:
    if "l2" not in estimator.get_params():
        pytest.skip("its penalty goes by another name")
    with pytest.raises(UsageError, match="l2 must be a number of at least 0"):
        learn(copy_of(estimator).set_params(l2=l2), example())


def test_an_unknown_scaling_is_refused(estimator: Estimator) -> None:
    with pytest.raises(UsageError, match="scaling 'robust' is not known"):
        learn(copy_of(estimator).set_params(scaling="robust"), example())


def test_what_is_no_dataset_is_refused(estimator: Estimator) -> None:
    with pytest.raises(UsageError, match="not from a ndarray; make one with"):
        copy_of(estimator).fit(np.eye(3))
    with pytest.raises(DataError, match="it needs rows and features"):
        copy_of(estimator).fit(example()[:0])
