"""How much not being shown says: production against what clicks teach."""

from __future__ import annotations

import numpy as np
import pytest
from scenes import scene

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.errors import UsageError
from cldrank.methods.unshown_weight import MOST_WEIGHT, knowledge, weight_of_unshown

RHO = cr.Propensities.power(1.0, 5)


def simulated(production: str, queries: int = 150, missing: float = 0.0) -> tuple[cr.RankingDataset, cr.ClickTable]:
    """Pages of 5 of 20, by the feature that relevance follows, or by one that has nothing to do with it."""
    random = np.random.default_rng(0)
    x = random.normal(size=(queries * 20, 6))
    labels = (x[:, 0] + x[:, 1] + 0.5 * random.normal(size=len(x)) > 1).astype(int)
    shown_by = (x[:, 0] + x[:, 1] if production == "good" else x[:, 5]).copy()
    x[random.random(x.shape) < missing] = np.nan
    data = cr.RankingDataset.from_arrays(x, np.repeat(np.arange(queries), 20), labels, missing="keep")
    pages = Simulation(data, shown_by, PositionBased(1.0, 0.1), depth=5, relevant_from=1)
    return data, pages.draw(1e5, seed=1)


def test_production_that_knows_as_much_as_clicks_is_believed() -> None:
    data, clicks = simulated("good")
    known = knowledge(data, clicks, RHO)
    assert known is not None
    assert known.clicks < known.production + known.error
    assert weight_of_unshown(data, clicks, RHO) > MOST_WEIGHT / 2


def test_production_that_knows_nothing_is_not() -> None:
    data, clicks = simulated("bad")
    known = knowledge(data, clicks, RHO)
    assert known is not None
    assert known.production == pytest.approx(0.5, abs=0.05)
    assert known.clicks > 0.7
    weight = weight_of_unshown(data, clicks, RHO)
    z = (known.clicks - known.production) / known.error
    assert weight == pytest.approx(MOST_WEIGHT / (1 + (z / 2) ** 2))
    assert weight < 0.02
    assert cr.CLDPair(model=cr.Linear()).fit(data, clicks, RHO).unshown_weight_ == weight


def test_the_error_is_that_of_other_queries() -> None:
    seen = [knowledge(*simulated("bad", queries), RHO) for queries in (50, 800)]
    assert seen[0] is not None
    assert seen[1] is not None
    assert seen[0].error / seen[1].error == pytest.approx(4.0, rel=0.5)


def test_missing_values_and_huge_features_do_no_harm() -> None:
    data, clicks = simulated("bad", missing=0.1)
    assert weight_of_unshown(data, clicks, RHO) < 0.02
    features = np.nan_to_num(np.array(data.features))
    features[3, 2] = 1e30
    far = cr.RankingDataset.from_arrays(features, data.row_queries)
    known = knowledge(far, clicks, RHO)
    assert known is not None
    assert known.clicks > 0.65


def test_too_few_queries_say_nothing() -> None:
    given = scene(3, queries=3)
    assert knowledge(given.data, given.clicks, given.propensities) is None
    assert weight_of_unshown(given.data, given.clicks, given.propensities) == MOST_WEIGHT


def test_unshown_candidates_pull_scores_down_as_far_as_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    data, clicks = simulated("good")
    unshown = ~clicks.shown
    apart = []
    for weight in (MOST_WEIGHT / 10, MOST_WEIGHT):
        monkeypatch.setattr("cldrank.methods.cld_pair.weight_of_unshown", lambda *_, weight=weight, **__: weight)
        scores = np.asarray(cr.CLDPair(model=cr.Linear()).fit(data, clicks, RHO).predict(data))
        apart.append((scores[~unshown].mean() - scores[unshown].mean()) / scores.std())
    assert apart[1] > apart[0] > 0


def test_what_only_one_form_uses_is_refused() -> None:
    with pytest.raises(UsageError, match="`unshown_ratio` has an effect with `selection_weight` only"):
        cr.CLDPair(unshown_ratio=2.0).check()
    with pytest.raises(UsageError, match="`loss='top'` is for CLD-pair without `selection_weight`"):
        cr.CLDPair(model=cr.MLP(loss="top"), selection_weight=1.0).check()
