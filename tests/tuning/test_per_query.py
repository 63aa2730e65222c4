"""Methods in scikit-learn's model selection: queries are samples, held-out clicks the score."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cldrank as cr
from cldrank.errors import DataError, UsageError
from cldrank.tuning import PerQuery
from cldrank.tuning.judging import HeldOutClicks, mean_of

RHO = cr.Propensities.power(1.0, 3)
ALL = np.arange(40)


def shown(queries: int = 40) -> tuple[cr.RankingDataset, cr.ClickTable]:
    """Queries of five candidates, three of them shown; more clicks where the first feature is larger."""
    random = np.random.default_rng(0)
    features = random.random((5 * queries, 3))
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(queries), 5), np.rint(3 * features[:, 0]))
    position = np.tile([1, 2, 3, 0, 0], queries)
    clicks = np.where(position > 0, random.binomial(60, features[:, 0] / np.maximum(position, 1)), 0)
    table = cr.ClickTable.from_arrays(data, position=position, impressions=np.where(position, 60, 0), clicks=clicks)
    return data, table


DATA, CLICKS = shown()


def whole(method: cr.estimators.Method | None = None, **options: object) -> PerQuery:
    return PerQuery(method or cr.IPS(), DATA, CLICKS, RHO, **options)  # type: ignore[arg-type]


def test_a_grid_search_scores_each_fold_by_its_clicks() -> None:
    search = GridSearchCV(whole(), {"method__model__l2": [1e-4, 1e4]}, cv=KFold(4), error_score="raise").fit(ALL)
    for place, l2 in enumerate((1e-4, 1e4)):
        for fold, (learned, held) in enumerate(KFold(4).split(ALL)):
            method = cr.IPS(model=cr.Linear(l2=l2)).fit(DATA[learned], CLICKS[learned], RHO)
            judge = HeldOutClicks(DATA[held], CLICKS[held], RHO)
            expected = mean_of(judge.gains(method), judge.weight).value
            assert search.cv_results_[f"split{fold}_test_score"][place] == pytest.approx(expected, abs=1e-12)
    assert search.best_params_["method__model__l2"] == 1e-4 or search.best_score_ > 0.9
    again = cr.IPS(model=cr.Linear(l2=search.best_params_["method__model__l2"])).fit(DATA, CLICKS, RHO)
    np.testing.assert_array_equal(search.best_estimator_.ranker_.predict(DATA), again.predict(DATA))
    np.testing.assert_array_equal(search.predict(ALL), again.predict(DATA))


def test_what_is_held_out_is_not_learned_from() -> None:
    fitted = whole().fit(ALL[:10])
    saw = fitted.ranker_.saw(DATA.query_ids)
    assert saw is not None
    assert saw.tolist() == [query < 10 for query in range(40)]


def test_groups_stay_together_and_other_searches_work() -> None:
    groups = np.repeat(np.arange(8), 5)
    found = cross_val_score(whole(), ALL, groups=groups, cv=GroupKFold(4), error_score="raise")
    assert found.shape == (4,)
    assert (found > 0.7).all()
    search = RandomizedSearchCV(whole(cr.Naive()), {"method__model__l2": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0)
    assert 0.5 < search.fit(ALL[:, None]).best_score_ <= 1


def test_methods_of_every_need_are_given_what_they_need() -> None:
    for method in (cr.Oracle(), cr.Naive(), cr.IPS(), cr.AffineIPS()):
        assert 0.5 < cross_val_score(whole(method), ALL, cv=2, error_score="raise").mean() <= 1
    labelled = PerQuery(cr.Oracle(), DATA, measure="nDCG@3").fit(ALL[:20])
    assert labelled.score(ALL[20:]) == pytest.approx(cr.evaluate(labelled.method_, DATA[20:])["nDCG@3"])


def test_cloning_copies_no_data() -> None:
    copied = clone(whole())
    assert copied.dataset is DATA
    assert copied.clicks is CLICKS
    assert deepcopy(DATA) is DATA


def test_scores_of_methods() -> None:
    method = cr.IPS().fit(DATA[:20], CLICKS[:20], RHO)
    judge = HeldOutClicks(DATA[20:], CLICKS[20:], RHO)
    assert method.score(DATA[20:], CLICKS[20:], RHO) == mean_of(judge.gains(method), judge.weight).value
    assert method.score(DATA[20:]) == pytest.approx(cr.evaluate(method, DATA[20:])["nDCG@10"])
    with pytest.raises(UsageError, match="give clicks and propensities"):
        method.score(DATA[20:], CLICKS[20:])
    with pytest.raises(UsageError, match="has not learned anything yet"):
        cr.IPS().score(DATA)
    with pytest.raises(DataError, match="the clicks"):
        method.score(DATA[:3], CLICKS, RHO)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (DATA.features, "X holds the numbers of queries, such as np.arange"),
        (np.array([True, False]), "X holds the numbers of queries"),
        (np.array([0.0, 1.0]), "X holds the numbers of queries"),
    ],
)
def test_other_samples_are_refused(queries: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        whole().fit(queries)


def test_what_comes_too_soon_or_has_no_place() -> None:
    with pytest.raises(UsageError, match="call fit first"):
        whole().predict(ALL)
    with pytest.raises(UsageError, match="y has no place here"):
        whole().fit(ALL, ALL)
    with pytest.raises(UsageError, match="there is no query 99; the numbers go from 0 to"):
        whole().fit(np.array([99, 1]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_over_the_method_itself_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"(?s)All the 2 fits failed.*GridSearchCV\(cldrank.tuning.PerQuery\("):
        GridSearchCV(cr.IPS(), {"model__l2": [0.1]}, cv=2).fit(DATA, clicks=CLICKS, propensities=RHO)
    with pytest.raises(UsageError, match="IPS learns from one RankingDataset, not from a list of queries"):
        GridSearchCV(cr.IPS(), {"model__l2": [0.1]}, cv=2, error_score="raise").fit(
            DATA, clicks=CLICKS, propensities=RHO
        )


def test_pipelines_end_before_the_dataset() -> None:
    pipeline = make_pipeline(StandardScaler(), cr.Oracle())
    with pytest.raises(UsageError, match=r"a RankingDataset is not an array.*Pipeline, comes before it"):
        pipeline.fit(DATA)
    with pytest.raises(UsageError, match="not an array"):
        np.asarray(DATA)
    turned = PCA(2, random_state=0).fit_transform(DATA.features)
    data = replace(DATA, features=turned, feature_names=("pc1", "pc2"))
    assert cr.Oracle().fit(data).ranker_.feature_names == ("pc1", "pc2")
