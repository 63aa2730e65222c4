"""What a log can tell about propensities: requirements of estimators, the display order, overlap, and refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cldrank._typing import Bools, Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.errors import UnidentifiableError
from cldrank.propensity.cells import Cells
from cldrank.wording import count, positions

Looks = Literal["random", "mixed", "fixed", "unknown"]

USABLE = 0.25  # an interval of ± this much, relative to the propensity, is still useful
PRECISION = 0.1  # of the data that a refusal asks for: an interval of ±10%
LOST = 0.05  # the share of replicates that may be without an estimate of a position
Z90 = 1.644854  # 90% of a normal distribution lie within this many standard deviations
_HOPELESS = 2.0  # a larger standard error of a log propensity is itself meaningless
_RANDOM, _FIXED = 0.02, 0.98  # strengths of the display order
_CHANCE = 1e-3  # a p-value below says that the order is not random, even if nearly so


@dataclass(frozen=True)
class Requirement:
    """Whether a log meets what an estimator needs.

    estimator     its name, as of `estimators()`
    met           whether it can estimate all positions (to the depth that was asked for) without a refusal
    reason        why, or why not, in one sentence without a full stop
    errors        the expected standard error of log ρ at each position, 0 at the first; None where there is no
                  estimate; empty where nothing is known before the fit
    approximate   whether the log meets it nearly, but not quite

    >>> Requirement("all-pairs", True, "all positions are connected", (0.0, 0.1)).within.__round__(3)
    0.179
    """

    estimator: str
    met: bool
    reason: str
    errors: tuple[float | None, ...] = ()
    approximate: bool = False

    @property
    def depth(self) -> int:
        """How many positions from the top can be estimated."""
        return next((at for at, error in enumerate(self.errors) if error is None), len(self.errors))

    @property
    def error(self) -> float | None:
        """The largest standard error of log ρ; None where the requirement is not met, or nothing is known."""
        known = [error for error in self.errors if error is not None]
        return max(known) if self.met and known else None

    @property
    def within(self) -> float | None:
        """How far the least certain propensity may be off, relatively, at 90% confidence."""
        return None if self.error is None else math.expm1(Z90 * self.error)

    @property
    def usable_to(self) -> int | None:
        """The lowest position down to which 90% intervals are within ±25%; None where that is the first at most."""
        limit = math.log1p(USABLE) / Z90
        usable = next((at for at, error in enumerate(self.errors) if error is None or error > limit), len(self.errors))
        return usable if usable > 1 else None


def errors_of_logs(draws: Floats) -> tuple[Floats, Bools]:
    """The standard error of each log propensity over resampled estimates, and where too many replicates have none."""
    usable = np.isfinite(draws) & (draws > 0)
    logs = np.log(np.where(usable, draws, 1.0))
    number = np.maximum(usable.sum(axis=0), 1)
    mean = np.where(usable, logs, 0.0).sum(axis=0) / number
    errors: Floats = np.sqrt(np.where(usable, (logs - mean) ** 2, 0.0).sum(axis=0) / number)
    return errors, usable.mean(axis=0) < 1 - LOST


@dataclass(frozen=True)
class Order:
    """How far the candidate determines its position: 0 in a random order, 1 where it is fixed.

        strength = sum_q (X2_q - I_q (P_q - 1)) / sum_q (N_q - I_q) (P_q - 1)

    X2 is the chi-square statistic of candidates against positions in the N impressions of query q, of the I candidates
    shown at least twice, over P positions. A page shows each candidate once, so in a random order X2 (I - 1) / I is
    chi-square distributed with (I - 1) (P - 1) degrees of freedom; in a fixed order, X2 = N (P - 1).
    """

    strength: float | None
    error: float | None  # the standard error of the strength in a random order
    p_value: float | None  # how often a random order looks this ordered, or more
    looks: Looks

    @property
    def nearly(self) -> bool:
        """Whether it is random but for a difference too small to matter, and too large for chance."""
        return self.looks == "random" and self.p_value is not None and self.p_value < _CHANCE

    def __str__(self) -> str:
        if self.looks == "unknown" or self.strength is None:
            return "too few candidates were shown often enough to see whether the display order is random"
        verdict = {"random": "is nearly random" if self.nearly else "looks random"}.get(self.looks, "is not random")
        return f"the display order {verdict} (strength {self.strength:.3f}, where 0 is random and 1 is fixed)"


def display_order(table: ClickTable) -> Order:
    """Measure how far the candidate determines its position, on the surface that it was shown on."""
    from scipy.stats import chi2

    segment_row, segment_query = table.segment_row, table.segment_query
    total = np.bincount(segment_row, table.impressions)
    tested = total[segment_row] > 1
    row, position, n = segment_row[tested], table.position[tested], table.impressions[tested].astype(np.float64)
    if not len(row):
        return Order(None, None, None, "unknown")
    query = segment_query[tested]
    column, column_of = np.unique(query * (table.depth + 1) + position, return_inverse=True)
    column_total = np.bincount(column_of, n)[column_of]
    share = n**2 / (total[row] * column_total)
    _, first = np.unique(row, return_index=True)
    queries = table.n_queries * table.n_segments
    all_n = np.bincount(query, n, queries)
    fit = np.bincount(query, share, queries)
    candidates = np.bincount(query[first], minlength=queries)
    places = np.bincount(column // (table.depth + 1), minlength=queries)
    fair = (candidates > 1) & (places > 1)
    statistic, expected = all_n * (fit - 1), candidates * (places - 1.0)
    room = float(((all_n - candidates) * (places - 1))[fair].sum())
    if room <= 0:
        return Order(None, None, None, "unknown")
    strength = float((statistic - expected)[fair].sum()) / room
    lost = (candidates[fair] - 1) / candidates[fair]
    error = float(np.sqrt(2 * (expected[fair] / lost).sum())) / room
    p_value = float(chi2.sf((statistic[fair] * lost).sum(), (expected[fair] * lost).sum()))
    return Order(strength, error, p_value, _looks(strength, error, p_value))


def _looks(strength: float, error: float, p_value: float) -> Looks:
    if strength > _FIXED:
        return "fixed"
    if strength > _RANDOM and p_value < _CHANCE:
        return "mixed"
    return "random" if error < 0.05 else "unknown"


@dataclass(frozen=True)
class Overlap:
    """Candidates that were shown at several positions, the raw material of intervention harvesting.

    candidates    that were shown at all
    moving        of those, shown at several positions
    impressions   of the moving ones
    """

    candidates: int
    moving: int
    impressions: int


def overlap(table: ClickTable) -> Overlap:
    """Count the candidates that were shown at several positions of the same surface."""
    row = table.segment_row
    next_is_same = row[1:] == row[:-1]  # cells are sorted by row
    several: Bools = np.append(next_is_same, False) | np.append(False, next_is_same) if len(row) else row > 0
    return Overlap(
        candidates=len(np.unique(table.row)),
        moving=len(np.unique(table.row[several])),
        impressions=int(table.impressions[several].sum()),
    )


def impressions_needed(rate: float, first_rate: float, *, precision: float = PRECISION, confidence: float = 0.9) -> int:
    """How many impressions, at each of two positions, estimate the ratio of their click-through rates to ± precision.

        n = ((1 - p) / p + (1 - q) / q) (z / precision)^2

    >>> impressions_needed(0.1, 0.3)
    3067
    """
    from scipy.special import ndtri

    rates = np.clip([rate, first_rate], 1e-6, 1 - 1e-6)
    z = ndtri((1 + confidence) / 2)
    return int(np.ceil(((1 - rates) / rates).sum() * (z / precision) ** 2))


def cannot_estimate(
    estimator: str,
    reason: str,
    lacking: Sequence[int],
    rates: Floats,
    confidence: float,
    remedy: str = "pages of a second ranker, or neighbours that change places on a share of pages",
) -> UnidentifiableError:
    """The error that says why the positions (from 1) that are lacking cannot be estimated, and what would help."""
    weak = tuple(sorted(int(position) for position in lacking))
    clicked = [position for position in weak if rates[position - 1] > 0]
    needed = f"What is needed: clicks at these positions, and {remedy}."
    if clicked and rates[0] > 0:
        worst = min(clicked, key=lambda position: rates[position - 1])
        impressions = impressions_needed(rates[worst - 1], rates[0], confidence=confidence)
        needed = (
            f"What is needed: {remedy}. About {impressions:,} impressions of the same candidates at position {worst} "
            f"and at another would give ±{PRECISION:.0%} at {confidence:.0%} confidence."
        )
    return refusal(estimator, "any position" if len(weak) == len(rates) else positions(weak), reason, needed, weak)


def too_few(
    estimator: str, weak: IntArray, worst: int, errors: Floats, cells: Cells, confidence: float
) -> UnidentifiableError:
    """The error that says that the clicks at the weak positions do not suffice, and how many more would.

    worst    the weakest of them
    errors   the standard errors of log propensities; infinite where resampling leaves too often none
    """
    from scipy.special import ndtri

    error = float(errors[worst - 1])
    why = "resampling often leaves none that can be compared"
    needed = "What is needed: many more pages, of more queries."
    if error <= _HOPELESS:
        times = (float(ndtri((1 + confidence) / 2)) * error / PRECISION) ** 2
        why = f"the standard error of its log propensity is {error:.2f}"
        needed = f"It needs about {times:,.0f} times as many pages for ±{PRECISION:.0%} at {confidence:.0%} confidence."
    clicks = int(cells.clicks[cells.place == worst - 1].sum())
    reason = f"position {worst} has {count(clicks, 'click')} in all, and {why}"
    return refusal(estimator, positions(weak.tolist()), reason, needed, tuple(weak.tolist()))


def refusal(estimator: str, which: str, reason: str, needed: str, weak: tuple[int, ...]) -> UnidentifiableError:
    """The error of an estimator that cannot estimate the weak positions (from 1)."""
    depth = min(weak, default=1) - 1
    return UnidentifiableError(
        f"{estimator} cannot estimate {which}: {reason}. {needed} {way_out(depth)}",
        positions=weak,
        depth=depth,
        reason=reason,
    )


def way_out(depth: int) -> str:
    """What to do where only the first positions, or none, can be estimated."""
    if depth >= 2:
        return f"`depth={depth}` estimates the first {depth} positions."
    return (
        "Otherwise assume a power law, or model relevance as well by regression-em with features, where what the "
        "features do not know of relevance counts as position."
    )
