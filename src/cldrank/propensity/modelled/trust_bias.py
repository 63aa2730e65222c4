"""`TrustBias`: slope and base of clicks at each position, from candidates that were shown at several."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.parameters import value
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.goodness import FEWEST_UNITS
from cldrank.propensity.checks.refusal import ALL_PAIRS, counts_every_click, too_few
from cldrank.propensity.counts import Cells, PairSums
from cldrank.propensity.estimator import PropensityEstimator
from cldrank.propensity.harvesting.harvest import require_overlap

Floats = NDArray[np.float64]

_LOST = 0.05  # the share of replicates in which a pair of positions may be without a slope


@value
class TrustBias(PropensityEstimator[AffineClicks]):
    """Slopes and bases of the affine model of trust bias (Vardasbi et al. 2020), relevance free for each candidate.

        P(click at k) = slope_k γ_i + base_k,    slope_1 = 1, base_1 = 0

    γ_i is the probability of a click on candidate i at position 1. Candidates shown at k and at l lie on a line,

        slope_l / slope_k = (C_kl + V_l) / (V_k + C_kl),    V, C: variance and covariance of their click probabilities

    both freed of the noise of the clicks, so that any number of impressions will do: where each candidate has a γ of
    its own, plain maximum likelihood is biased unless all cells are large. All pairs of positions are joined, each by
    its precision. It needs what harvesting needs, and candidates that differ in relevance: otherwise no slope is known.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [10000] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[8000, 6000] * 30 + [4000, 2000] * 30)
    >>> TrustBias().fit(clicks)
    AffineClicks(slope 1, 1; base 0, -0.4; TrustBias, 60 candidates)
    """

    name = "trust-bias"
    label = "Trust bias"
    sentence = "Several rankers; a slope and a base per position, where people trust high positions"
    affine = True
    order = 40

    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> AffineClicks:
        del dataset
        cells = self._connected(clicks)
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        lines = Lines.of(cells, np.concatenate([np.ones((1, cells.n_groups)), weights]))
        logs = _joined(lines, lines.log_slope, cells.size)
        if logs is None:
            raise self._indifferent(cells.size)
        errors = logs[1:].std(axis=0)
        weak = np.flatnonzero(errors > self.refuse_above)
        if len(weak):
            worst = int(weak[errors[weak].argmax()])
            raise too_few(self.spelling, weak + 1, worst + 1, float(errors[worst]), cells, self.confidence)
        slope = np.exp(logs)
        shift = lines.mean_lower / slope[:, lines.lower] - lines.mean_upper / slope[:, lines.upper]
        found = _joined(lines, shift, cells.size)
        if found is None:
            raise self._indifferent(cells.size)
        base = found * slope
        covariance = np.cov(np.concatenate([slope, base], axis=1)[1:], rowvar=False)
        return AffineClicks(
            slope[0],
            base[0],
            f"{type(self).__name__}, {cells.n_units:,} {cells.units}",
            covariance,
            self.confidence,
            (_verdict(base[0, 1:], covariance[cells.size + 1 :, cells.size + 1 :]),),
        )

    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        del dataset
        self._connected(clicks)

    def _connected(self, clicks: ClickTable) -> Cells:
        """The cells; UnidentifiableError if no candidates, or too few, lead from one position to another."""
        if clicks.every_click and (clicks.clicks > clicks.impressions).any():
            raise counts_every_click(self.spelling)
        cells = self._cells(clicks)
        pairs = PairSums.of(cells, "impressions")
        every, against = np.arange(len(pairs.upper)), "one that leads to the first"
        require_overlap(self.spelling, against, pairs, every, cells, self.confidence)
        return cells

    def _indifferent(self, size: int) -> UnidentifiableError:
        return UnidentifiableError(
            "{} cannot separate slopes from bases: the candidates that were shown at several positions are clicked too "
            "much alike, or too seldom. What is needed: candidates of different relevance, at several positions each, "
            "and more pages. If clicks follow examination alone, {} needs no such difference.",
            self.spelling,
            ALL_PAIRS,
            positions=tuple(range(1, size + 1)),
        )


class Lines(NamedTuple):
    """For each pair of positions k < l, the line on which the click probabilities of their candidates lie.

    upper, lower              (pairs,) k and l, from 0
    log_slope                 (logs, pairs) log of slope_l / slope_k; NaN where none is known
    mean_upper, mean_lower    (logs, pairs) mean click probability at k and at l
    """

    upper: IntArray
    lower: IntArray
    log_slope: Floats
    mean_upper: Floats
    mean_lower: Floats

    @classmethod
    def of(cls, cells: Cells, weights: Floats) -> Lines:
        """The lines of several logs at once: `weights` (logs, groups) say how often each log has each group."""
        upper, lower, sums = _moments(cells)
        with np.errstate(divide="ignore", invalid="ignore"):
            total, *rest = (weights @ part for part in sums)
            one, two, product, square_one, square_two = (part / total for part in rest)
            shared = product - one * two
            above, below = shared + square_one - one**2, shared + square_two - two**2
            known = (above > 0) & (below > 0)  # else the candidates do not differ beyond the noise
            known &= (sums[0] > 0).sum(axis=0) >= FEWEST_UNITS
            return cls(upper, lower, np.log(np.where(known, below / above, np.nan)), one, two)


def _moments(cells: Cells) -> tuple[IntArray, IntArray, Floats]:
    """(6, groups, pairs) weights, and weighted sums of p_k, p_l, p_k p_l, p_k² and p_l², each without bias.

    p² is estimated by c (c - 1) / (n (n - 1));  the weight of a candidate is n m / (n + m)
    """
    n, c = cells.impressions, cells.clicks
    upper, lower = np.triu_indices(cells.size, 1)
    found = np.zeros((6, cells.n_groups, len(upper)))
    rate = c / n
    square = np.where(n > 1, c * (c - 1) / np.maximum(n * (n - 1), 1.0), 0.0)
    for first, second, number in cells.pairs():
        several = (n[first] > 1) & (n[second] > 1)
        one, two, pair = first[several], second[several], number[several]
        weight = n[one] * n[two] / (n[one] + n[two])
        parts = (np.ones(len(one)), rate[one], rate[two], rate[one] * rate[two], square[one], square[two])
        for at, values in enumerate(parts):
            found[at] += cells.by_group(pair, weight * values, len(upper), one)
    return upper, lower, found


def _joined(lines: Lines, differences: Floats, size: int) -> Floats | None:
    """(logs, size) the numbers, 0 at the first position, whose differences come nearest to those of the pairs.

    Each pair counts by its precision over the replicates; replicates that lack a pair in use stand at the mean.
    None where the pairs do not lead from the first position to all.
    """
    known = np.isfinite(differences)
    used = np.flatnonzero(known[0] & (known[1:].mean(axis=0) >= 1 - _LOST))
    away = np.where(known[1:], differences[1:] - differences[0], 0.0)[:, used]
    precision = 1 / np.maximum((away**2).mean(axis=0), 1e-12)
    design = np.zeros((len(used), size))
    design[np.arange(len(used)), lines.lower[used]] = 1.0
    design[np.arange(len(used)), lines.upper[used]] = -1.0
    inner = design[:, 1:]
    if not len(used) or np.linalg.matrix_rank(inner) < size - 1:
        return None
    weighted = inner * precision[:, None]
    solved: Floats = np.linalg.solve(inner.T @ weighted, weighted.T @ differences[:, used].T).T
    whole = np.atleast_1d(np.isfinite(solved).all(axis=1))
    solved = np.where(whole[:, None], solved, solved[whole].mean(axis=0))
    return np.concatenate([np.zeros((len(solved), 1)), solved], axis=1)


def _verdict(base: Floats, covariance: Floats) -> str:
    """Whether examination alone would do, by Wald's test of base 0."""
    from scipy.special import chdtrc

    statistic = float(base @ np.linalg.pinv(np.atleast_2d(covariance), rcond=1e-10, hermitian=True) @ base)
    chance = float(chdtrc(len(base), statistic))
    verdict = "refuted: trust, or something like it" if chance < 0.01 else "not refuted"
    return f"that positions differ in examination alone is {verdict} (p = {chance:.2g})"
