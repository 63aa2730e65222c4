"""Whether the position-based model fits: pairs of positions against the curve, attractive results against others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import check_whole
from cldrank.clicks.table import ClickTable
from cldrank.propensity.cells import FEWEST_GROUPS, Cells, PairSums, Resample, draw_weights
from cldrank.propensity.propensities import MISFIT, Goodness, Propensities

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_FEWEST_REPLICATES = 20
_EXACT = 1e-9  # a pair that the estimator itself solved for has no residual to test
_ENOUGH = 500_000  # cells that are compared by attraction; more only cost time


def goodness_of_fit(pairs: PairSums, rho: Floats, draws: Floats, weights: Floats) -> Goodness | None:
    """Test a curve against the pairs that it was not fitted to; None where nothing is left to test.

    draws     (replicates, k) the resampled estimates
    weights   (replicates, groups) how often each replicate drew each group of queries
    """
    rich = np.flatnonzero(pairs.clicked_enough())
    if not len(rich):
        return None
    upper, lower = pairs.upper[rich], pairs.lower[rich]
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.log(pairs.below.sum(axis=0)[rich] / pairs.above.sum(axis=0)[rich]) - np.log(rho[lower] / rho[upper])
        resampled = np.log((weights @ pairs.below[:, rich]) / (weights @ pairs.above[:, rich]))
        spread = resampled - np.log(draws[:, lower] / draws[:, upper]) - here
    tested = chance_of(here, spread)
    if tested is None:
        return None
    statistic, p_value, number, worst = tested
    return Goodness(statistic, number, p_value, (int(upper[worst]) + 1, int(lower[worst]) + 1))


def chance_of(here: Floats, spread: Floats) -> tuple[float, float, int, int] | None:
    """The mean squared residual, its p-value, how many were tested, and the worst; None if nothing can be tested.

    here     (pairs,) residuals
    spread   (replicates, pairs) what resampling adds to them
    """
    whole = np.isfinite(spread).all(axis=1)
    if whole.sum() < _FEWEST_REPLICATES:
        return None
    spread = spread[whole]
    error = np.sqrt((spread**2).mean(axis=0))
    tested = np.flatnonzero(error > _EXACT)
    if not len(tested):
        return None
    scores = (here[tested] / error[tested]) ** 2
    chance = ((spread[:, tested] / error[tested]) ** 2).mean(axis=1)
    statistic = float(scores.mean())
    p_value = (1 + int((chance >= statistic).sum())) / (1 + len(chance))
    return statistic, p_value, len(tested), int(tested[scores.argmax()])


# -- attractive and unattractive results ---------------------------------------------------------------------------


@dataclass(frozen=True)
class AttractionCheck:
    """Whether clicks fall alike for attractive and unattractive candidates, as they are moved down.

    statistic    mean squared difference of the two log click ratios, in standard errors, over pairs of positions
    pairs        pairs of positions that could be compared
    p_value      how often resampling alone brings a larger statistic
    difference   the mean difference of the log ratios: above 0, attractive results keep more of their clicks, as
                 where people trust high positions, or stop at the first result that they like
    """

    statistic: float
    pairs: int
    p_value: float
    difference: float

    def __str__(self) -> str:
        if self.p_value >= MISFIT:
            return f"attractive and unattractive results lose clicks alike when moved down, p = {self.p_value:.2g}"
        return (
            f"moved down, attractive results keep {np.exp(self.difference):.1f} times the share of their clicks that "
            f"unattractive ones keep, p = {self.p_value:.2g}: this is not position bias alone, but trust bias or a "
            "cascade, say"
        )


def check_attraction(
    clicks: ClickTable,
    propensities: Propensities,
    *,
    replicates: int = 400,
    seed: int = 0,
    resample: Resample = "auto",
) -> AttractionCheck | None:
    """Test a curve on attractive and on unattractive candidates; None where too little can be compared.

    Half of the impressions, drawn at random, decide which candidates are clicked more than most at their positions;
    the other half is compared. So the two do not depend on the same luck.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [1000] * 120}
    >>> trusted = [800, 400] * 30 + [600, 100] * 30      # the good ones lose a quarter, the bad ones more
    >>> print(check_attraction(cr.ClickTable.from_arrays(data, **shown, clicks=trusted), Propensities.power(1, 2)))
    moved down, attractive results keep 3... times the share of their clicks that unattractive ones keep, p = 0.0...
    """
    check_whole("replicates", replicates, least=20)
    cells = Cells.of(clicks, min(len(propensities), clicks.depth), resample, seed)
    return compared_by_attraction(cells, propensities.values, replicates, seed)


def compared_by_attraction(cells: Cells, rho: Floats, replicates: int, seed: int) -> AttractionCheck | None:
    """The same of cells; of large logs, a part of the groups."""
    several = np.bincount(cells.row)[cells.row] > 1
    if not several.any() or (cells.clicks > cells.impressions).any():
        return None
    groups = min(cells.n_groups, max(FEWEST_GROUPS, int(cells.n_groups * _ENOUGH / several.sum())))
    part = replace(cells.chosen(several & (cells.group < groups)), n_groups=groups)
    attractive, rest = _halved(part, rho, np.random.default_rng([seed, 2]))
    sides = [PairSums.of(rest.chosen(side[rest.row])) for side in (attractive, ~attractive)]
    rich = np.flatnonzero(np.logical_and(*(side.clicked_enough() for side in sides)))
    if not len(rich):
        return None
    weights = np.concatenate([np.ones((1, groups)), draw_weights(groups, replicates, seed)])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log((weights @ side.below[:, rich]) / (weights @ side.above[:, rich])) for side in sides]
        here, drawn = logs[0][0] - logs[1][0], logs[0][1:] - logs[1][1:]
        tested = chance_of(here, drawn - here)
    if tested is None:
        return None
    statistic, p_value, pairs, _ = tested
    usable = drawn[np.isfinite(drawn).all(axis=1)]
    precision = 1 / np.maximum(usable.var(axis=0), 1e-12)
    return AttractionCheck(statistic, pairs, p_value, float(here @ precision / precision.sum()))


def _halved(cells: Cells, rho: Floats, random: np.random.Generator) -> tuple[Bools, Cells]:
    """Which rows are attractive, by one half of the impressions, and the cells of the other half."""
    impressions, clicks = cells.impressions.astype(np.int64), cells.clicks.astype(np.int64)
    clicked = random.binomial(clicks, 0.5)
    taken = clicked + random.binomial(impressions - clicks, 0.5)
    rows = int(cells.row.max()) + 1
    expected = np.bincount(cells.row, taken * rho[cells.place], rows)
    rate = np.bincount(cells.row, clicked, rows) / np.where(expected > 0, expected, 1.0)
    shown = expected > 0
    left = impressions - taken
    rest = replace(cells, impressions=left.astype(np.float64), clicks=(clicks - clicked).astype(np.float64))
    return rate > np.median(rate[shown]) if shown.any() else shown, rest.chosen(left > 0)
