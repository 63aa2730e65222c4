"""Trust bias: clicks as a slope times relevance plus a base at each position, given or estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cldrank._typing import Floats
from cldrank.arguments import check_number, check_whole
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UnidentifiableError
from cldrank.parameters import value
from cldrank.propensity.cells import FEWEST_TESTED, Cells, PairSums, draw_weights
from cldrank.propensity.estimator import PropensityEstimator
from cldrank.propensity.harvesting import require_overlap
from cldrank.propensity.identifiability import LOST, Requirement
from cldrank.propensity.propensities import (
    LARGEST,
    CurveBase,
    Propensities,
    as_floats,
    keep_array,
    normal_draws,
    places_of,
)
from cldrank.wording import positions

_LEAST = 0.01  # a drawn slope, as a share of its estimate


@dataclass(frozen=True, eq=False, repr=False)
class AffineClicks(CurveBase):
    """P(click at k) = slope_k * relevance + base_k (Vardasbi, Oosterhuis and de Rijke 2020).

    slope, base   (k,) float64: entry 0 is position 1; slopes are above 0
    origin        their source, in words
    covariance    (2 k, 2 k) of slopes and bases, if they were estimated, else None
    confidence    of the intervals
    notes         cautions

    Relevance has no scale of its own: 2 * relevance + 1 explains the same clicks with other slopes and bases, and ranks
    alike. Estimates have slope 1 and base 0 at the first position, where relevance is the probability of a click there.

    >>> AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    AffineClicks(slope 0.4, 0.35; base 0.5, 0.1; given)
    """

    slope: Floats
    base: Floats
    origin: str = "given"
    covariance: Floats | None = None
    confidence: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        slope, base = as_floats(self.slope, "slope"), as_floats(self.base, "base")
        if slope.ndim != 1 or slope.shape != base.shape or not len(slope):
            raise DataError(f"slope and base need an entry for each position, not shapes {slope.shape}, {base.shape}.")
        with np.errstate(all="ignore"):
            parts = np.stack([slope, 1 / slope, slope / slope[0], slope[0] / slope])
        bad = ~((parts < LARGEST) & (parts > 0)).all(axis=0) | ~np.isfinite(base)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"position {at + 1} has slope {slope[at]} and base {base[at]}; slopes must be above 0, also relative "
                "to the first, and both must be finite."
            )
        keep_array(self, "slope", slope)
        keep_array(self, "base", base)
        self._check_array("covariance", (2 * len(slope), 2 * len(slope)))
        if (self.covariance is None) != (self.confidence is None):
            raise DataError("an interval needs covariance and confidence, both.")
        if self.confidence is not None:
            check_number("confidence", self.confidence, above=0, below=1)

    @classmethod
    def of(cls, examined: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> AffineClicks:
        """From P(examined), and P(click | examined) of relevant and of irrelevant results, at each position."""
        parts = (as_floats(part, "P(click)") for part in (examined, relevant, irrelevant))
        try:
            rho, plus, minus = np.broadcast_arrays(*parts)
        except ValueError:
            raise DataError("examined, relevant and irrelevant need an entry for each position.") from None
        return cls(rho * (plus - minus), rho * minus)

    @classmethod
    def from_propensities(cls, propensities: Propensities) -> AffineClicks:
        """Examination alone: slope ρ, base 0."""
        return cls(propensities.values, np.zeros(len(propensities)), propensities.origin)

    def __len__(self) -> int:
        return len(self.slope)

    def __repr__(self) -> str:
        slope, base = (", ".join(f"{value:.4g}" for value in part[:8]) for part in (self.slope, self.base))
        more = ", …" if len(self) > 8 else ""
        return f"AffineClicks(slope {slope}{more}; base {base}{more}; {self.origin})"

    def interval(self, name: Literal["slope", "base"]) -> tuple[Floats, Floats]:
        """Low and high of slope or base at each position."""
        from scipy.special import ndtri

        values = self.slope if name == "slope" else self.base
        if self.covariance is None:
            return values, values
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        half = float(ndtri((1 + (self.confidence or 0.9)) / 2)) * np.split(errors, 2)[name == "base"]
        return values - half, values + half

    @property
    def uncertain(self) -> bool:
        """Whether `draws` differ: whether the covariance of slopes and bases is known."""
        return self.covariance is not None

    def draws(self, n: int, seed: int) -> tuple[Floats, Floats]:
        """(n, k) slopes and (n, k) bases that might have been estimated instead: normal draws from the covariance.

        Slopes stay above 1% of their estimates. Without a covariance, all draws are the same.
        """
        check_whole("n", n, least=1)
        check_whole("seed", seed, least=0)
        both = np.concatenate([self.slope, self.base])
        drawn = np.tile(both, (n, 1)) if self.covariance is None else normal_draws(both, self.covariance, n, seed)
        return np.maximum(drawn[:, : len(self)], _LEAST * self.slope), drawn[:, len(self) :]

    def at(self, position: ArrayLike) -> tuple[Floats, Floats]:
        """Slope and base of each position, counted from 1."""
        places = places_of(position, len(self), "slope")
        return self.slope[places], self.base[places]

    def per_cell(self, clicks: ClickTable) -> tuple[Floats, Floats]:
        """(cells,) slope and base of each cell of a log."""
        return self.at(clicks.position)

    def clip(self, minimum: float) -> AffineClicks:
        """The same with no slope below a share of the first, for less variance; `origin` names those raised."""
        check_number("clip", minimum, above=0, most=1)
        least = minimum * self.slope[0]
        low = self.slope < least
        if not low.any():
            return self
        which = positions((np.flatnonzero(low) + 1).tolist(), most=len(low))
        certain = np.append(low, np.zeros(len(low), dtype=bool))
        return replace(
            self,
            slope=np.maximum(self.slope, least),
            origin=f"{self.origin}; slopes clipped to {least:g} at {which}",
            covariance=self.covariance
            if self.covariance is None
            else np.where(certain | certain[:, None], 0.0, self.covariance),
        )

    def propensities(self) -> Propensities:
        """How much of a difference in relevance shows at each position, relative to the first: slope_k / slope_1."""
        from scipy.special import ndtri

        values, origin = self.slope / self.slope[0], f"slopes of {self.origin}"
        if self.covariance is None or self.confidence is None:
            return Propensities(values, origin, method="AffineClicks" if values.max() > 1 else None)
        turn = np.diag(1 / self.slope)
        turn[:, 0] -= 1 / self.slope[0]
        with np.errstate(all="ignore"):  # what is not finite is refused below
            covariance = turn @ self.covariance[: len(self), : len(self)] @ turn.T
            half = float(ndtri((1 + self.confidence) / 2)) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
            ends = {"low": values * np.exp(-half), "high": values * np.exp(half), "confidence": self.confidence}
        return Propensities(values, origin, method="TrustBias", covariance=covariance, notes=self.notes, **ends)


def curve_of(curve: Propensities | AffineClicks) -> Propensities:
    """The propensities themselves, or the slopes as propensities."""
    return curve.propensities() if isinstance(curve, AffineClicks) else curve


@value
class TrustBias(PropensityEstimator[AffineClicks]):
    """Slopes and bases of the affine model of trust bias (Vardasbi et al. 2020), relevance free for each candidate.

        P(click at k) = slope_k γ_i + base_k,    slope_1 = 1, base_1 = 0

    γ_i is the probability of a click on candidate i at position 1. Candidates shown at k and at l lie on a line,

        slope_l / slope_k = (C_kl + V_l) / (V_k + C_kl),    V, C: variance and covariance of their click probabilities

    both without the noise of clicks; plain maximum likelihood is biased unless all cells are large. All pairs of
    positions are joined, each by its precision. Candidates must differ in relevance: otherwise no slope is known.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [10000] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[8000, 6000] * 30 + [4000, 2000] * 30)
    >>> TrustBias().fit(clicks)
    AffineClicks(slope 1, 1; base 0, -0.4; TrustBias, 60 candidates)
    """

    name = "trust-bias"
    sentence = "Several rankers; a slope and a base per position, where people trust high positions"
    affine = True
    order = 40

    def _prepared(
        self, clicks: ClickTable, dataset: RankingDataset | None
    ) -> tuple[tuple[Cells, Lines, Floats], Requirement]:
        """Cells, their lines, (1 + replicates, size) log slopes of the log and of resampled ones."""
        del dataset
        cells = self._cells(clicks)
        pairs = PairSums.of(cells)
        every, against = np.arange(len(pairs.upper)), "a position compared with the first"
        require_overlap(self.name, against, pairs, every, cells, self.confidence)
        lines = _lines(cells, draw_weights(cells.n_groups, self.replicates, self.seed))
        logs = self._joined(lines.log_slope, cells.size)
        errors = logs[1:].std(axis=0)
        self._refuse_weak(errors, cells)
        grounds = "candidates of different relevance connect all positions"
        return (cells, lines, logs), Requirement(self.name, True, grounds, tuple(errors.tolist()))

    def _result(self, prepared: tuple[Cells, Lines, Floats]) -> AffineClicks:
        cells, lines, logs = prepared
        slope, (upper, lower) = np.exp(logs), np.triu_indices(cells.size, 1)
        shift = lines.mean_lower / slope[:, lower] - lines.mean_upper / slope[:, upper]
        base = self._joined(shift, cells.size) * slope
        covariance = np.cov(np.concatenate([slope, base], axis=1)[1:], rowvar=False)
        origin = f"{type(self).__name__}, {cells.n_units:,} {cells.units}"
        note = _verdict(base[0, 1:], covariance[cells.size + 1 :, cells.size + 1 :])
        return AffineClicks(slope[0], base[0], origin, covariance, self.confidence, (note,))

    def _joined(self, differences: Floats, size: int) -> Floats:
        """(logs, size) the numbers, 0 at the first position, whose differences come nearest to those of the pairs.

        Each pair counts by its precision over the replicates; replicates that lack a pair in use stand at the mean.
        """
        known = np.isfinite(differences)
        used = np.flatnonzero(known[0] & (known[1:].mean(axis=0) >= 1 - LOST))
        away = np.where(known[1:], differences[1:] - differences[0], 0.0)[:, used]
        precision = 1 / np.maximum((away**2).mean(axis=0), 1e-12)
        upper, lower = np.triu_indices(size, 1)
        inner = (np.eye(size)[lower[used]] - np.eye(size)[upper[used]])[:, 1:]
        if not len(used) or np.linalg.matrix_rank(inner) < size - 1:
            reason = "the candidates that were shown at several positions are clicked too much alike, or too seldom"
            raise UnidentifiableError(
                f"trust-bias cannot separate slopes from bases: {reason}. What is needed: candidates of different "
                "relevance, at several positions each, and more pages. If clicks follow examination alone, all-pairs "
                "needs no such difference.",
                positions=tuple(range(1, size + 1)),
                reason=reason,
            )
        weighted = inner * precision[:, None]
        solved: Floats = np.linalg.solve(inner.T @ weighted, weighted.T @ differences[:, used].T).T
        whole = np.atleast_1d(np.isfinite(solved).all(axis=1))
        solved = np.where(whole[:, None], solved, solved[whole].mean(axis=0))
        return np.concatenate([np.zeros((len(solved), 1)), solved], axis=1)


class Lines(NamedTuple):
    """For each pair of positions k < l, the line on which the click probabilities of their candidates lie.

    log_slope                 (logs, pairs) log of slope_l / slope_k; NaN where none is known
    mean_upper, mean_lower    (logs, pairs) mean click probability at k and at l
    """

    log_slope: Floats
    mean_upper: Floats
    mean_lower: Floats


def _lines(cells: Cells, weights: Floats) -> Lines:
    """The lines of several logs at once: each log has each group `weights` (logs, groups) times.

    p² is estimated without bias by c (c - 1) / (n (n - 1));  the weight of a candidate is n m / (n + m)
    """
    n, c = cells.impressions, cells.clicks
    rate = c / n
    square = np.where(n > 1, c * (c - 1) / np.maximum(n * (n - 1), 1.0), 0.0)
    sums = np.zeros((6, cells.n_groups, cells.size * (cells.size - 1) // 2))
    for first, second, number in cells.pairs():
        several = (n[first] > 1) & (n[second] > 1)
        first, second, pair = first[several], second[several], number[several]
        weight = n[first] * n[second] / (n[first] + n[second])
        products = rate[first], rate[second], rate[first] * rate[second], square[first], square[second]
        for at, values in enumerate((np.ones(len(first)), *products)):
            sums[at] += cells.by_group(pair, weight * values, sums.shape[2], first)
    with np.errstate(divide="ignore", invalid="ignore"):
        total, *rest = (weights @ part for part in sums)
        upper_mean, lower_mean, product, upper_square, lower_square = (part / total for part in rest)
        shared = product - upper_mean * lower_mean
        above, below = shared + upper_square - upper_mean**2, shared + lower_square - lower_mean**2
        known = (above > 0) & (below > 0)  # else the candidates do not differ beyond the noise
        known &= (sums[0] > 0).sum(axis=0) >= FEWEST_TESTED
        return Lines(np.log(np.where(known, below / above, np.nan)), upper_mean, lower_mean)


def _verdict(base: Floats, covariance: Floats) -> str:
    """Whether examination alone would do, by Wald's test of base 0."""
    from scipy.special import chdtrc

    statistic = float(base @ np.linalg.pinv(np.atleast_2d(covariance), rcond=1e-10, hermitian=True) @ base)
    chance = float(chdtrc(len(base), statistic))
    verdict = "refuted: trust, or something like it" if chance < 0.01 else "not refuted"
    return f"that positions differ in examination alone is {verdict} (p = {chance:.2g})"
