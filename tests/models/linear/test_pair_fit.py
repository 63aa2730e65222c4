"""Linear CLD-pair: its objective against the loss of networks, and what its optimum is worth."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scenes import Scene, scene

import cldrank as cr
from cldrank import scaling
from cldrank.errors import ConvergenceWarning, DataError
from cldrank.methods.observing import observe
from cldrank.models import Linear, Run
from cldrank.models.linear.design import Design
from cldrank.models.linear.pair_fit import PairObjective
from cldrank.models.linear.row_blocks import LocalRows, View
from cldrank.models.pairs import PairTable
from cldrank.models.targets import Unshown


def objective(given: Scene, *, l2: float = 0.01, share: float = 0.3, ratio: float = 0.7, **rows: Any) -> PairObjective:
    table = PairTable.of_observations(observe(given.data, given.clicks, given.propensities), Unshown()).mixed_by(ratio)
    view = View(scaling.fit("minmax", given.data.features))
    local = LocalRows(given.data.features, table, view, rows=table.rows, offsets=table.offsets, **rows)
    return PairObjective(Design(local), l2, share)


@pytest.mark.parametrize("options", [{}, {"share": 0.0}, {"ratio": 0.0}])
def test_gradient_and_hessian_are_those_of_the_value(options: dict[str, float]) -> None:
    problem = objective(scene(1, queries=12), block_rows=20, **options)
    point = np.random.default_rng(0).normal(size=len(problem.penalties)) * 0.5
    here = problem.evaluate(point)
    for index, step in enumerate(1e-5 * np.eye(len(point))):
        up, down = problem.evaluate(point + step), problem.evaluate(point - step)
        np.testing.assert_allclose(here.gradient[index], (up.value - down.value) / 2e-5, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(here.hessian[index], (up.gradient - down.gradient) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("block_rows", [1, 17])
def test_the_size_of_blocks_changes_nothing(block_rows: int) -> None:
    given = scene(3)
    found = cr.CLDPair(model=Linear(), run=Run(block_rows=block_rows)).fit(given.data, given.clicks, given.propensities)
    whole = cr.CLDPair(model=Linear()).fit(given.data, given.clicks, given.propensities)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(found.selection_coef_, whole.selection_coef_, rtol=1e-9)


def test_without_anything_unshown_selection_is_infinite_and_the_order_alone_is_learned() -> None:
    data = cr.RankingDataset.from_arrays([[0.0], [1.0], [2.0]] * 2, [1] * 3 + [2] * 3)
    given: Any = {"position": [1, 2, 3] * 2, "impressions": [9] * 6, "clicks": [1, 3, 5, 2, 1, 6]}
    found = cr.CLDPair(model=Linear()).fit(
        data, cr.ClickTable.from_arrays(data, **given), cr.Propensities.power(0, k=3)
    )
    assert (found.status_, found.selection_intercept_) == ("converged", np.inf)
    assert found.coef_[0] > 0


def test_the_intercept_of_selection_is_not_penalised() -> None:
    """With all coefficients at 0, each pair brings 2 log σ(ω), and a pair with an unshown one log σ(ω) + log σ(-ω)."""
    data = cr.RankingDataset.from_arrays([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]] * 2, [1] * 3 + [2] * 3)
    given: Any = {"position": [1, 2, 0] * 2, "impressions": [9, 9, 0] * 2, "clicks": [1, 3, 0, 6, 2, 0]}
    method = cr.CLDPair(model=Linear(l2=1e6), selection_weight=0.05)
    found = method.fit(data, cr.ClickTable.from_arrays(data, **given), cr.Propensities.power(0, k=2))
    np.testing.assert_allclose([*found.coef_, *found.selection_coef_], 0, atol=1e-5)
    assert found.selection_intercept_ == pytest.approx(np.log(3), abs=1e-4)  # σ(ω) = (2 + 1) / (2 + 2)


def test_too_few_steps_are_warned_of_and_equal_clicks_refused() -> None:
    given = scene(3)
    with pytest.warns(ConvergenceWarning, match="has not converged after 1 steps"):
        cr.CLDPair(model=Linear(max_steps=1)).fit(given.data, given.clicks, given.propensities)
    data = cr.RankingDataset.from_arrays([[0.0], [1.0]], [1, 1])
    alike = cr.ClickTable.from_arrays(data, position=[1, 2], impressions=[4, 4], clicks=[2, 2])
    with pytest.raises(DataError, match="preferred to another"):
        cr.CLDPair(model=Linear(), target="ips").fit(data, alike, cr.Propensities.power(0, k=2))


def test_it_does_not_import_torch() -> None:
    code = """
import sys
import cldrank as cr
data = cr.RankingDataset.from_arrays([[0.0], [1.0], [2.0]] * 2, [1] * 3 + [2] * 3)
clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0] * 2, impressions=[9, 9, 0] * 2, clicks=[1, 3, 0, 2, 6, 0])
cr.CLDPair(model=cr.Linear()).fit(data, clicks, cr.Propensities.power(0, k=2))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_constant_feature_is_named_as_other_linear_fits_name_it() -> None:
    given = scene(1, queries=12)
    flat = np.column_stack([given.data.features, np.full(given.data.n_rows, 3.0)])
    data = cr.RankingDataset.from_arrays(flat, given.data.row_queries)
    cells = given.clicks
    clicks = cr.ClickTable.from_arrays(
        data, row=cells.row, position=cells.position, impressions=cells.impressions, clicks=cells.clicks
    )
    fitted = cr.CLDPair(model=Linear()).fit(data, clicks, given.propensities)
    assert fitted.constant_features_ == (data.feature_names[-1],)
    assert fitted.ranker_.provenance.diagnostics.constant == fitted.constant_features_  # type: ignore[union-attr]
    assert fitted.coef_[-1] == 0
