"""`Envelope`: a lower bound of the curve from one ranker that never changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import FEWEST_CLICKED, clicked_more_than, draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.parameters import parameter, value
from cldrank.propensity.checks.refusal import clicked_too_rarely, counts_every_click
from cldrank.propensity.counts import Cells
from cldrank.propensity.estimator import CurveEstimator, complete
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions

Floats = NDArray[np.float64]

_MOST_OTHERS = 3  # by default; more bring the bound hardly nearer to the curve
_ENOUGH = 200  # candidates at each of two positions that are worth asking for one click more
_MANY = 20.0  # impressions of a candidate from which on more of them hardly add to its weight


@value
class Envelope(CurveEstimator):
    """A lower bound: how often results that m people clicked are clicked by the next person who is shown them there.

        U_k = sum_i w_i [c_i]_(m+1) / [n_i]_(m+1) / sum_i w_i [c_i]_m / [n_i]_m     over the candidates i shown at k
        E[U_k] = rho_k E[r^(m+1)] / E[r^m]                                          of their relevance r
        rho_k / rho_1 >= U_k / U_1    if E[r^(m+1)] / E[r^m] is no larger at k than at 1

    with [c]_m = c (c - 1) … (c - m + 1). E[r^(m+1)] / E[r^m] is the mean relevance of results that m people clicked. So
    this assumes that what is clicked lower down is, on average, no more relevant than what is clicked at the top. No
    candidate need change places, and relevance needs no model. With m = 0 these are click-through rates, which count
    all of relevance as position, a bound all the same; the larger m, the nearer the bound, and the more impressions it
    needs. The products have no bias, however few impressions; weights w = n (n - 1) / (1 + (n / 20)²), or
    n / (1 + n / 20) for m = 0, keep their variance small.

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
    label = "Envelope"
    sentence = "A lower bound, from one ranker that never changes: how often clicked results are clicked again"
    order = 25
    bound = True
    caution = (
        "a lower bound, not the curve itself: it holds if results that are clicked at a position are, on average, no "
        "more relevant than those clicked at the first, as with a ranker that tends to put better results higher"
    )

    def _cells(self, clicks: ClickTable) -> Cells:
        if clicks.every_click:
            raise counts_every_click(self.spelling)
        return super()._cells(clicks)

    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        del dataset
        self._orders(self._cells(clicks))

    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> Propensities:
        del dataset
        cells = self._cells(clicks)
        orders = self._orders(cells)
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        weights = np.concatenate([np.ones((1, cells.n_groups)), weights])
        found, comparisons = np.empty((len(weights), cells.size)), np.empty(cells.size)
        for others in np.unique(orders):
            at = np.flatnonzero(orders == others)
            with np.errstate(divide="ignore", invalid="ignore"):  # at positions with too few impressions
                before, again, behind = _tally(cells, int(others))
                rate = (weights @ again) / (weights @ before)
                found[:, at], comparisons[at] = rate[:, at] / rate[:, :1], behind[at]
        values, draws = found[0], np.where(np.isfinite(found[1:]), found[1:], np.nan)
        errors, whole = self._errors(draws, cells), complete(draws)
        tail = (1 - self.confidence) / 2
        return self._curve(
            cells,
            values,
            tuple(np.nanquantile(draws, [tail, 1 - tail], axis=0)),
            bound=True,
            covariance=np.cov(np.log(whole), rowvar=False),
            comparisons=comparisons,
            notes=(*self._notes(values, errors, cells, None), *_loose(orders)),
            replicates=whole,
        )

    def _orders(self, cells: Cells) -> IntArray:
        """(size,) how many others must have clicked a result, by position; a refusal where too few results were."""
        least = self.others or 0
        counts = clicked_more_than(cells.place, cells.clicks, cells.size, least)
        if counts.min() < FEWEST_CLICKED:
            raise clicked_too_rarely(self.spelling, counts, least + 1, FEWEST_CLICKED)
        orders = np.full(cells.size, least)
        for more in range(1, _MOST_OTHERS + 1) if self.others is None else ():
            counts = clicked_more_than(cells.place, cells.clicks, cells.size, more)
            needed = FEWEST_CLICKED if more == 1 else _ENOUGH
            orders[np.minimum(counts, counts[0]) >= needed] = more
        return orders


def _loose(orders: IntArray) -> tuple[str, ...]:
    """What to know of positions that only click-through rates bound."""
    at = np.flatnonzero(orders == 0) + 1
    if not len(at):
        return ()
    return (
        f"at {positions(at.tolist())} too few results were clicked twice, so that plain click-through rates bound the "
        "curve: a loose bound, which holds if results shown there are, on average, no more relevant than at the first",
    )


def _tally(cells: Cells, others: int) -> tuple[Floats, Floats, Floats]:
    """(groups, size) the clicks of the others, and with those of one more; (size,) the effective impressions."""
    used = np.flatnonzero(cells.impressions > others)
    place, n, c = cells.place[used], cells.impressions[used], cells.clicks[used]
    degree = min(others + 1, 2)
    weight = _product(n, degree) / (1 + (n / _MANY) ** degree)
    before = weight * _product(c, others) / _product(n, others)
    again = before * (c - others) / (n - others)  # never negative: fewer clicks than others make a product of 0
    effective = np.bincount(place, weight, cells.size) ** 2 / np.bincount(place, weight**2 / n, cells.size)
    before, again = (cells.by_group(place, part, cells.size, used) for part in (before, again))
    return before, again, effective


def _product(count: Floats, factors: int) -> Floats:
    """The product count (count - 1) … of this many factors; 0 where the count is smaller.

    >>> _product(np.array([1.0, 3.0]), 2)
    array([0., 6.])
    """
    found: Floats = np.prod([count - less for less in range(factors)], axis=0)
    return found
