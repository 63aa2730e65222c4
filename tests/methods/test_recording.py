"""What a ranker remembers of its fit is what the fit says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning, ConvergenceWarning
from cldrank.methods.recording import clicks_record, curve_records
from cldrank.propensity import AffineClicks


def scene(constant: bool = False) -> tuple[cr.RankingDataset, cr.ClickTable]:
    random = np.random.default_rng(1)
    features = random.normal(size=(400, 3))
    if constant:
        features[:, 2] = 0.0
    labels = (features[:, 0] > 0.3).astype(int)
    data = cr.RankingDataset.from_arrays(features, np.arange(400) // 8, labels, name="shop")
    position = np.tile([1, 2, 3, 4, 0, 0, 0, 0], 50)
    chance = np.where(labels, 0.8, 0.1) / np.maximum(position, 1)
    impressions = np.where(position > 0, 30, 0)
    clicks = cr.ClickTable.from_arrays(
        data, position=position, impressions=impressions, clicks=random.binomial(impressions, chance)
    )
    return data, clicks


def test_queries_without_impressions_are_not_learned_from() -> None:
    data, clicks = scene()
    some = clicks.where(data.row_queries[clicks.row] % 3 > 0)
    shown = np.arange(50) % 3 > 0
    rho = cr.Propensities.power(1, 4)
    learned = [cr.IPS().fit(data, some, rho), cr.CLDPair(model=cr.MLP(hidden=(2,), epochs=1)).fit(data, some, rho)]
    for ranker in (*(method.ranker_ for method in learned), learned[1].fit_.ranker):
        np.testing.assert_array_equal(ranker.saw(data.query_ids), shown)
    assert cr.Oracle().fit(data).ranker_.saw(data.query_ids).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["clicks", "position", "impressions", "display"])
def test_the_fingerprint_of_clicks_sees_every_change(change: str) -> None:
    data, clicks = scene()
    cells: dict[str, Any] = {
        name: getattr(clicks, name).copy() for name in ("row", "position", "impressions", "clicks")
    }
    same = cr.ClickTable.from_arrays(data, **cells)
    assert clicks_record(same) == clicks_record(clicks)
    if change == "display":
        other = clicks.with_display(np.full((400, 4), 0.2))
    else:
        cells[change][7] += 1
        other = cr.ClickTable.from_arrays(data, **cells)
    assert clicks_record(other).fingerprint != clicks_record(clicks).fingerprint


def test_a_curve_that_clicks_refute() -> None:
    data, clicks = scene()
    with pytest.warns(CldrankWarning, match="refute"):
        method = cr.IPS().fit(data, clicks, cr.Propensities.power(4, 4))
    origin = method.ranker_.provenance
    assert origin.propensities[""].raised == method.propensities_.raised != ()
    assert origin.diagnostics is not None
    (text,) = origin.diagnostics.warnings
    assert text.startswith("the clicks refute these propensities")
    assert method.fit_.ranker is method.ranker_


def test_slopes_and_bases() -> None:
    covariance = np.diag(np.full(4, 0.01))
    given = AffineClicks(np.array([1.0, 0.5]), np.array([0.0, 0.1]), "given")
    estimated = AffineClicks(given.slope, given.base, "found", covariance, 0.9)
    assert curve_records(given)[""].estimator is None
    found = curve_records(estimated)[""]
    assert (found.values, found.base) == ((1.0, 0.5), (0.0, 0.1))
    low, high = estimated.interval("slope")
    assert (found.low, found.high) == (tuple(low), tuple(high))


def test_diagnostics_of_a_linear_fit() -> None:
    data, clicks = scene(constant=True)
    method = cr.CLD().fit(data, clicks, cr.Propensities.power(1, 4))
    found = method.ranker_.provenance.diagnostics
    assert found is not None
    assert (found.status, found.steps, found.constant) == (method.status_, method.n_iter_, ("f3",))
    assert (found.log_likelihood, found.rows, found.weight) == (method.log_likelihood_, method.n_rows_, method.weight_)


def contrary(data: cr.RankingDataset) -> cr.RankingDataset:
    """Labels that go up with a feature where a model learns, and down where it is judged."""
    held = np.random.default_rng([0, 7]).permutation(50)[:20]  # as models hold 0.4 of 50 queries out
    order = data.features[:, 0] * np.where(np.isin(data.row_queries, held), -1, 1)
    above = (order.reshape(50, 8) > np.median(order.reshape(50, 8), axis=1, keepdims=True)).ravel()
    return cr.RankingDataset.from_arrays(data.features, data.row_queries, above)


def blind(data: cr.RankingDataset) -> cr.RankingDataset:
    """Features that are the same for all candidates of a query."""
    return cr.RankingDataset.from_arrays(data.row_queries[:, None], data.row_queries, data.labels)


@pytest.mark.parametrize(
    ("model", "made"),
    [(cr.MLP(hidden=(4,), epochs=2, validation=0.4), blind), (cr.Trees(rounds=2, validation=0.4), contrary)],
)
def test_no_better_than_chance_is_said_aloud(model: Any, made: Any) -> None:
    data, _ = scene()
    with pytest.warns(CldrankWarning, match="20 queries held out no better than chance: its concordance with labels"):
        fitted = cr.Oracle(model=model).fit(made(data))
    known = fitted.ranker_.provenance.diagnostics
    assert known is not None
    assert known.concordance is not None
    assert known.concordance <= 0.5
    assert "no better than chance" in known.warnings[0]


def test_a_failed_fit_is_not_called_chance_as_well() -> None:
    data, _ = scene()
    with pytest.warns(ConvergenceWarning, match="no split worth making") as warned:
        cr.Oracle(model=cr.Trees(rounds=2)).fit(blind(data))
    assert len(warned) == 1
