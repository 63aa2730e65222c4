"""How people behave after a click, read off the contexts of a log: whether the position-based model holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cldrank._typing import Bools, Floats, IntArray
from cldrank.clicks.contexts import Contexts
from cldrank.clicks.table import ClickTable
from cldrank.propensity.cells import FEW_QUERIES, deal
from cldrank.propensity.propensities import MISFIT

__all__ = ["behaviour"]  # the others are public in the package

Looks = Literal["position-based", "stop", "examine less", "click more", "unknown"]

_DEEPEST = 20  # positions that are looked at
_FEWEST = 5.0  # expected clicks after a click above, and without one: the test is exact enough from there on
_STOPPED = 0.1  # a ratio below which hardly anybody reads on
_CONFIDENCE = 0.9
_MEANING = {
    "position-based": "clicks do not refute the position-based model",
    "stop": "people stop after a click",
    "examine less": "people who have clicked examine less",
    "click more": "people who click once click more, perhaps because people or their intents differ",
}
_AVERAGE = "propensities by position are an average over pages, and verdicts correct their sizes for clicks above"
_CONSEQUENCE = {
    "stop": _AVERAGE,
    "examine less": _AVERAGE,
    "click more": "propensities by position hold on average over people, not for each of them",
}


@dataclass(frozen=True)
class AfterClick:
    """How often a position is examined after a click above, relative to no click above, with its 90% interval.

    position, last_click   the position, and that of the last click above it; 0 for any

    >>> AfterClick(position=3, last_click=1, ratio=0.5, low=0.4, high=0.6).ratio
    0.5
    """

    position: int
    last_click: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Behaviour:
    """What clicks show of how people behave after a click.

    looks           "position-based" where that is not refuted; else, by the ratio of all positions, that people "stop"
                    (its upper end is below 0.1), "examine less" (below 1) or "click more"; "unknown" without contexts
                    or with too few clicks
    p_value         how often independent clicks differ as much by chance; below 0.01 refutes the position-based model
    overall         the ratio of all positions together
    by_position     that of each position, after any click above
    by_last_click   that of each position after each last click above
    left_out        how many of these have too few clicks to be tested

    >>> print(Behaviour("stop", 0.0, AfterClick(0, 0, ratio=0.01, low=0.0, high=0.02)))
    people stop after a click: below a click, the same results at the same positions are clicked 0.01 times (0.00 to ...
    """

    looks: Looks
    p_value: float | None = None
    overall: AfterClick | None = None
    by_position: tuple[AfterClick, ...] = ()
    by_last_click: tuple[AfterClick, ...] = ()
    left_out: int = 0

    @property
    def refuted(self) -> bool:
        """Whether the log refutes the position-based model."""
        return self.looks not in ("position-based", "unknown")

    @property
    def consequence(self) -> str:
        """What follows where the model is refuted, as a sentence without a full stop."""
        return _CONSEQUENCE.get(self.looks, "")

    def __str__(self) -> str:
        if self.overall is None:
            return "whether a click changes what people examine below it is unknown"
        ratio = f"{self.overall.ratio:.2f} times ({self.overall.low:.2f} to {self.overall.high:.2f})"
        below = f"below a click, the same results at the same positions are clicked {ratio} as often as without one"
        return f"{_MEANING[self.looks]}: {below}"


def behaviour(clicks: ClickTable) -> Behaviour:
    """How people behave after a click: the same results at the same position, with a click above and without.

        ratio = sum_i c_i m_i / (n_i + m_i)  /  sum_i d_i n_i / (n_i + m_i)       (Mantel and Haenszel 1959)

    of candidates with c_i clicks in n_i impressions below a click, and d_i in m_i without one. It is 1 wherever clicks
    on a page are independent, as the position-based model has them; the test of Cochran, Mantel and Haenszel refutes
    that. A single ranker is enough.

    >>> import cldrank as cr
    >>> from cldrank.clicks.simulate import Cascade, Simulation
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]] * 60, [i // 3 for i in range(180)], labels=[0, 4, 1] * 60)
    >>> clicks = Simulation(data, data.features[:, 0], Cascade()).draw(10_000, contexts=True)
    >>> behaviour(clicks).looks
    'stop'
    """
    sums = None if clicks.contexts is None else _Sums.of(clicks.contexts, clicks.candidates.row_queries)
    if sums is None or not sums.tested.any():
        return Behaviour("unknown", left_out=0 if sums is None else len(sums.pair))
    position, last_click = np.divmod(sums.pair, _DEEPEST)
    p_value, overall = sums.p_value(), sums.ratio(sums.pair > 0, 0, 0)
    looks: Looks = "position-based"
    if p_value < MISFIT:
        looks = "click more" if overall.ratio > 1 else "stop" if overall.high < _STOPPED else "examine less"
    tested = np.flatnonzero(sums.tested)
    places, above = position[tested].tolist(), last_click[tested].tolist()
    by_position = tuple(sums.ratio(position == place, place, 0) for place in dict.fromkeys(places))
    by_last_click = tuple(
        sums.ratio(np.arange(len(sums.pair)) == at, *where) for at, *where in zip(tested, places, above, strict=True)
    )
    return Behaviour(looks, p_value, overall, by_position, by_last_click, int((~sums.tested).sum()))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over candidates, by pair of a position and of the last click above it.

    pair         (pairs,) a code of the two
    below        (groups, pairs) sum c m / (n + m), by groups of queries, or of candidates where queries are few
    without      (groups, pairs) sum d n / (n + m)
    noise        (pairs,) sum c (m / (n + m))^2, the variance of the first by chance
    excess       (pairs,) clicks beyond those expected where clicks are independent
    covariance   (pairs, pairs) of the excess, where they are: it is hypergeometric
    tested       (pairs,) whether there are enough clicks
    """

    pair: IntArray
    below: Floats
    without: Floats
    noise: Floats
    excess: Floats
    covariance: Floats
    tested: Bools

    @classmethod
    def of(cls, contexts: Contexts, queries: IntArray) -> _Sums | None:
        """The sums of a log, given the query of each row; None where nothing was shown below a click."""
        from scipy.sparse import csr_matrix

        contexts = contexts.where(contexts.position <= _DEEPEST)
        after = contexts.last_click > 0
        if not after.any():
            return None
        row = contexts.row[after]
        query = queries[row]
        few = len(np.unique(query)) < FEW_QUERIES
        every = contexts.cell
        cells, cell = int(every[-1]) + 1, every[after]
        n, c = (part[after].astype(np.float64) for part in (contexts.impressions, contexts.clicks))
        counts = contexts.impressions, contexts.clicks
        shown, clicked = (np.bincount(every, part, cells) for part in counts)
        m, d = (np.bincount(every[~after], part[~after], cells)[cell] for part in counts)
        pair, at = np.unique((contexts.position * _DEEPEST + contexts.last_click)[after], return_inverse=True)
        group, groups, _ = deal(row if few else query, _DEEPEST)

        def by_group(values: Floats) -> Floats:
            sums = np.bincount(group * len(pair) + at, values, groups * len(pair))
            return np.asarray(sums.reshape(groups, len(pair)))

        rate, share = clicked / shown, m / (n + m)
        chance = rate * (1 - rate) / np.maximum(shown - 1, 1)
        by_cell = csr_matrix((n, (cell, at)), shape=(cells, len(pair)))
        within = np.bincount(at, n * (chance * shown)[cell], len(pair))
        joint = by_cell.T @ by_cell.multiply(chance[:, None])
        expected = np.minimum(np.bincount(at, n * rate[cell]), np.bincount(at, m * rate[cell]))
        return cls(
            pair=pair,
            below=by_group(c * share),
            without=by_group(d * (1 - share)),
            noise=np.asarray(np.bincount(at, c * share**2), dtype=np.float64),
            excess=np.asarray(np.bincount(at, c - n * rate[cell]), dtype=np.float64),
            covariance=np.diag(within) - joint.toarray(),
            tested=expected >= _FEWEST,
        )

    def p_value(self) -> float:
        """How often independent clicks differ as much, of all tested pairs together."""
        from scipy.stats import chi2

        excess, covariance = self.excess[self.tested], self.covariance[np.ix_(self.tested, self.tested)]
        statistic = excess @ np.linalg.pinv(covariance, hermitian=True) @ excess
        return float(chi2.sf(statistic, np.linalg.matrix_rank(covariance, hermitian=True)))

    def ratio(self, pairs: Bools, position: int, last_click: int) -> AfterClick:
        """The ratio of some pairs together; its interval is clustered by query, and never narrower than by chance."""
        from scipy.stats import t

        below, without = self.below[:, pairs].sum(axis=1), self.without[:, pairs].sum(axis=1)
        clicked, usual = below.sum() + 0.5, without.sum() + 0.5  # half a click more: there may be none
        groups = max(int(((below > 0) | (without > 0)).sum()), 2)
        variance = ((below / clicked - without / usual) ** 2).sum() * groups / (groups - 1)
        variance = max(variance, (self.noise[pairs].sum() + 0.5) / clicked**2)
        half = np.sqrt(variance) * t.ppf((1 + _CONFIDENCE) / 2, groups - 1)
        ratio = clicked / usual
        return AfterClick(position, last_click, *map(float, (ratio, ratio * np.exp(-half), ratio * np.exp(half))))
