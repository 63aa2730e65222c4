"""What Oosterhuis and de Rijke (2021) claim: no bias under position, trust and selection bias and several policies."""

from __future__ import annotations

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning
from cldrank.methods.evidence import Evidence
from cldrank.methods.intervention_aware import InterventionAware
from cldrank.propensity import AffineClicks

RELEVANCE = np.array([0.1, 0.8, 0.5, 0.3, 0.9])
DATA = cr.RankingDataset.from_arrays(np.arange(5.0)[:, None], [7] * 5)
TRUST = AffineClicks.of(examined=[1, 0.5, 0.25], relevant=0.98, irrelevant=[0.5, 0.3, 0.1])
FIRST, LATER = [0, 1, 2], [2, 3, 4]  # what two policies show, from the top: one each


def logged(pages: dict[tuple[int, ...], int], chance: np.random.Generator | None = None) -> cr.ClickTable:
    """Clicks on pages of some orders: at their expectation, or drawn."""
    cells: dict[tuple[int, int], list[float]] = {}
    for order, number in pages.items():
        for position, row in enumerate(order, start=1):
            rate = float(TRUST.slope[position - 1] * RELEVANCE[row] + TRUST.base[position - 1])
            clicked = number * rate if chance is None else chance.binomial(number, rate)
            cell = cells.setdefault((row, position), [0, 0])
            cell[0] += number
            cell[1] += clicked
    rows, positions = np.array(sorted(cells)).T
    counts = np.array([cells[key] for key in sorted(cells)])
    return cr.ClickTable.from_arrays(
        DATA,
        row=rows,
        position=positions,
        impressions=counts[:, 0].astype(int),
        clicks=np.rint(counts[:, 1]).astype(int),
    )


def targets(method: object, clicks: cr.ClickTable, curve: AffineClicks = TRUST) -> dict[int, float]:
    """The target of each row."""
    found = method.targets(Evidence(DATA, clicks, curve))  # type: ignore[attr-defined]
    return dict(zip(found.rows.tolist(), found.target.tolist(), strict=True))


def test_over_policies_that_follow_each_other() -> None:
    """The second policy shows what the first never did, on a quarter of the pages."""
    found = targets(InterventionAware(), logged({tuple(FIRST): 300_000, tuple(LATER): 100_000}))
    np.testing.assert_allclose([found[row] for row in range(5)], RELEVANCE, atol=2e-3)


class TestAgainstOthers:
    def test_without_trust_it_is_policy_aware_ips(self) -> None:
        clicks = logged({tuple(FIRST): 40, tuple(LATER): 60}, np.random.default_rng(1))
        rho = cr.Propensities.power(1, 3)
        aware = cr.PolicyAwareIPS().targets(Evidence(DATA, clicks, rho))
        found = InterventionAware().targets(Evidence(DATA, clicks, AffineClicks.from_propensities(rho)))
        for one, other in zip(found, aware, strict=True):
            np.testing.assert_allclose(one, other)

    def test_with_one_fixed_policy_it_is_affine_ips(self) -> None:
        clicks = logged({tuple(FIRST): 50}, np.random.default_rng(2))
        found, affine = targets(InterventionAware(), clicks), targets(cr.AffineIPS(), clicks)
        assert found == pytest.approx(affine)


class TestFit:
    def test_it_leaves_what_it_used(self) -> None:
        clicks = logged({tuple(FIRST): 300, tuple(LATER): 100})
        method = InterventionAware(clip=0.5).fit(DATA, clicks, TRUST)
        assert method.affine_ is TRUST
        assert (method.n_left_out_, method.n_clipped_) == (0, 2)
        assert "2 exposures clipped" in method.summary()

    def test_what_no_policy_shows_is_left_out_with_a_warning(self) -> None:
        with pytest.warns(CldrankWarning, match="3 of 5 candidates were never shown"):
            method = InterventionAware().fit(DATA, logged({(0, 1): 500}), TRUST)
        assert method.n_left_out_ == 3
