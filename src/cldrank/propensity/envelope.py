"""`Envelope`: a lower bound of the curve, from a ranker that never changes."""

from __future__ import annotations

import numpy as np

from cldrank._typing import Floats, IntArray
from cldrank.parameters import parameter, value
from cldrank.propensity.cells import Cells, draw_weights
from cldrank.propensity.estimator import CellEstimator, Sample
from cldrank.propensity.identifiability import refusal
from cldrank.wording import count, positions

FEWEST_CLICKED = 20  # candidates at each position that a bound of the curve needs
_MOST_OTHERS = 3  # by default; more bring the bound hardly nearer to the curve
_ENOUGH = 200  # candidates at each of two positions at which it pays to ask for another click
_MANY = 20.0  # impressions of a candidate; beyond these, more hardly add to its weight


@value
class Envelope(CellEstimator):
    """A lower bound: how often results that m people clicked are clicked by the next person who is shown them there.

        U_k = sum_i w_i [c_i]_(m+1) / [n_i]_(m+1) / sum_i w_i [c_i]_m / [n_i]_m     over the candidates i shown at k
        E[U_k] = rho_k E[r^(m+1)] / E[r^m]                                          of their relevance r
        rho_k / rho_1 >= U_k / U_1    if E[r^(m+1)] / E[r^m] is no larger at k than at 1

    with [c]_m = c (c - 1) … (c - m + 1). E[r^(m+1)] / E[r^m] is the mean relevance of results that m people clicked. So
    this assumes that what is clicked lower down is, on average, no more relevant than what is clicked at the top. With
    m = 0 these are click-through rates; the larger m, the nearer the bound, and the more impressions it needs. Weights
    w = n (n - 1) / (1 + (n / 20)²), or n / (1 + n / 20) for m = 0, keep the variance small.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 240, [0] * 240)
    >>> fixed = {"position": [1] * 120 + [2] * 120, "impressions": [100] * 240}
    >>> clicks = cr.ClickTable.from_arrays(data, **fixed, clicks=[80, 80, 8] * 40 + [40, 4, 4] * 40)
    >>> Envelope().fit(clicks)
    Propensities(1, 0.4367; Envelope, 240 candidates)
    >>> cr.propensity.ClickThrough().fit(clicks)
    Propensities(1, 0.2857; ClickThrough, 240 candidates)
    """

    others: int | None = parameter(
        default=None,
        least=0,
        most=5,
        about="Of the bound: how many others must have clicked a result that counts; by default 1 at positions with 20 "
        "such results, up to 3 at those with 200, else 0",
    )

    name = "envelope"
    sentence = "A lower bound, from one ranker that never changes: how often clicked results are clicked again"
    order = 25
    bound = True
    caution = (
        "a lower bound, not the curve itself: it holds if results that are clicked at a position are, on average, no "
        "more relevant than those clicked at the first, as with a ranker that tends to put better results higher"
    )

    def _sample(self, cells: Cells) -> Sample:
        orders = self._orders(cells)
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        bounds = np.empty((len(weights), cells.size))
        for others in np.unique(orders):
            at = np.flatnonzero(orders == others)
            with np.errstate(divide="ignore", invalid="ignore"):  # at positions with too few impressions
                before, again = _tally(cells, int(others))
                rate = (weights @ again) / (weights @ before)
                bounds[:, at] = rate[:, at] / rate[:, :1]
        bounds[1:] = np.where(np.isfinite(bounds[1:]), bounds[1:], np.nan)
        grounds = (
            "it is a lower bound of the curve if results at low positions are no more relevant than those at the "
            "first, nearer to it where results are clicked again and again"
        )
        return Sample(bounds, grounds)

    def _orders(self, cells: Cells) -> IntArray:
        """(size,) how many others must have clicked a result, by position; a refusal where too few results were."""
        least = self.others or 0
        counts = np.bincount(cells.place[cells.clicks > least], minlength=cells.size)
        weak = np.flatnonzero(counts < FEWEST_CLICKED) + 1
        if len(weak):
            few = count(int(counts[weak[0] - 1]), "candidate was", "candidates were")
            often = f"at least {count(least + 1, 'time')}"
            reason = f"{few} clicked at position {weak[0]} {often}, and it needs {FEWEST_CLICKED}"
            remedy = "What is needed: more pages of the same queries."
            raise refusal(self.name, positions(weak.tolist()), reason, remedy, tuple(weak.tolist()))
        orders = np.full(cells.size, least)
        for more in range(1, _MOST_OTHERS + 1) if self.others is None else ():
            counts = np.bincount(cells.place[cells.clicks > more], minlength=cells.size)
            needed = FEWEST_CLICKED if more == 1 else _ENOUGH
            orders[np.minimum(counts, counts[0]) >= needed] = more
        return orders


def _tally(cells: Cells, others: int) -> tuple[Floats, Floats]:
    """(groups, size) the weighted products of clicks of the others, and of the others and the next person."""
    used = np.flatnonzero(cells.impressions > others)
    place, n, c = cells.place[used], cells.impressions[used], cells.clicks[used]
    degree = min(others + 1, 2)
    weight = _product(n, degree) / (1 + (n / _MANY) ** degree)
    before = weight * _product(c, others) / _product(n, others)
    again = before * (c - others) / (n - others)  # never negative: fewer clicks than others make a product of 0
    return cells.by_group(place, before, cells.size, used), cells.by_group(place, again, cells.size, used)


def _product(count: Floats, factors: int) -> Floats:
    """The product count (count - 1) … of this many factors; 0 where the count is smaller."""
    return np.asarray(np.prod([count - less for less in range(factors)], axis=0), dtype=np.float64)
