"""What would settle the question: how many pages of which experiment, for 80% power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import ClickVerdict, Errors, MeasuredPair, Unseen, WayToSettle
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.estimating import ClickEstimator
from cldrank.evaluation.interleaving import click_moments, expected_credit, sampled_queries, usual_pages
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.orders import LoggedOrder, RankOrder
from cldrank.evaluation.power import largest_error, pages_to_show
from cldrank.propensity import Propensities, SegmentPropensities
from cldrank.wording import count, with_article

Floats = NDArray[np.float64]
MORE = "more of this log"
_STEP = 0.01  # of a log propensity, for derivatives
_FEWEST_CLICKS = 10  # on results that nobody has seen
_ROUGHEST = 0.2  # standard error of a log propensity, up to which derivatives say what it does
_CURVE = "the curve is what leaves it open"


def ways_to_settle(
    clicks: ClickEstimator,
    measure: ClickMeasure,
    new: RankOrder,
    old: RankOrder,
    pair: MeasuredPair,
    unseen: Unseen,
    verdict: ClickVerdict,
) -> tuple[WayToSettle, ...]:
    """The experiments that would settle it, cheapest first, then those that cannot; none for two equal orders.

    Where the question is settled already, they would confirm it: more of the log is then not among them.
    """
    if not (clicks.weights(measure, new) - clicks.weights(measure, old)).any():
        return ()
    plan = _Settling(clicks, measure, new, old, pair, verdict)
    ways = [_interleaving_test(plan), _split_test(plan)]
    if unseen.results and plan.unseen_weights.any() and (plan.is_open or verdict.depends_on_unseen):
        ways.append(_trial_of_unseen(plan))
    if plan.is_open:
        ways.append(_more_pages(plan))
        if (plan.open_by_curve or plan.errors.propensities) and clicks.log.clicks.depth > 1:
            ways.append(_swap_experiment(plan))
    return tuple(sorted(ways, key=lambda way: math.inf if way.pages is None else way.pages))


def say_way(way: WayToSettle, verb: str = "settle") -> str:
    """A way in a sentence, with two digits of its pages.

    >>> say_way(WayToSettle("interleaving test", 12_345, "both orders on each page"))
    'An interleaving test of about 12,000 pages would settle it.'
    >>> say_way(WayToSettle("more of this log", None, "the unseen stay unseen"))
    'More of this log would not settle it: the unseen stay unseen.'
    """
    if way.name == MORE:
        name, some = MORE, f"about {rounded_pages(way.pages or 0)} more of these pages"
    else:
        name = with_article(way.name)
        some = f"{name} of about {rounded_pages(way.pages or 0)} pages"
    text = f"{name} would not {verb} it: {way.about}." if way.pages is None else f"{some} would {verb} it."
    return text[0].upper() + text[1:]


def rounded_pages(pages: int) -> str:
    """A number of pages with two digits.

    >>> rounded_pages(12_345), rounded_pages(7), rounded_pages(1_950_000)
    ('12,000', '7', '2,000,000')
    """
    return f"{int(float(f'{pages:.2g}')):,}"


@dataclass(frozen=True, eq=False)
class _Settling:
    """What is known before an experiment."""

    clicks: ClickEstimator
    measure: ClickMeasure
    new: RankOrder
    old: RankOrder
    pair: MeasuredPair
    verdict: ClickVerdict

    @property
    def log(self) -> LoggedClicks:
        return self.clicks.log

    @property
    def errors(self) -> Errors:
        return self.pair.difference.errors

    @property
    def margin(self) -> float:
        return self.verdict.margin

    @property
    def is_open(self) -> bool:
        return self.verdict.decision == "cannot tell"

    @property
    def open_by_curve(self) -> bool:
        """Whether the interval would decide, but the curve is not to be relied on."""
        return self.is_open and decide(self.pair.gain, self.margin) != "cannot tell"

    @cached_property
    def unseen_weights(self) -> Floats:
        """(rows,) what the relevance of each result that nobody saw counts in the difference; 0 for the others."""
        gained = self.clicks.weights(self.measure, self.new) - self.clicks.weights(self.measure, self.old)
        return np.where(self.clicks.unseen, gained, 0.0)

    @cached_property
    def relevance(self) -> Floats:
        """(rows,) as clicks have it; of the unseen, as the model has it, or like results at the lowest position."""
        if self.clicks.model is not None:
            guess: Floats | float = self.clicks.model.predicted
        else:
            cells, affine = self.log.clicks, self.log.affine
            last = cells.position == cells.depth
            shown = cells.impressions[last].sum()
            rate = (cells.clicks[last].sum() / shown - affine.base[cells.depth - 1]) / affine.slope[cells.depth - 1]
            guess = float(np.clip(rate, 0.0, 1.0))
        return np.where(self.log.seen, self.clicks.relevance, guess)

    @property
    def ends(self) -> tuple[float, float]:
        """Where the interval would end without any error: apart by what the unseen leave open."""
        found = self.pair.difference
        low, high = found.lowest.estimate, found.highest.estimate
        if self.clicks.estimator.fills_unseen != "model" or self.clicks.model is None:
            return low, high
        middle, bias = found.interval.estimate, self.errors.extrapolation
        return max(middle - bias, low), min(middle + bias, high)

    def clicks_per_page(self, order: RankOrder) -> tuple[float, float]:
        """Mean and variance of the clicks on a page of an order, within and between queries."""
        log, by = self.log, ClickMeasure("Clicks", self.log.clicks.depth)
        slopes, bases = (order.mean(values(log.longest, log.affine)) for values in (by.discounts, by.bases))
        chances = slopes * self.relevance + bases
        sums = log.by_query(chances)
        return click_moments(sums, sums, log.by_query(chances**2), log.pages / log.pages.sum())

    @cached_property
    def smallest(self) -> float:
        """The margin in clicks per page: the same share of old's clicks as it is of old's measure."""
        whole = abs(self.pair.old.interval.estimate)
        return self.margin / whole * self.clicks_per_page(self.old)[0] if whole else 0.0

    def planned(self, difference: float, smallest: float, unit: str) -> tuple[float, str]:
        """The difference in clicks per page that a test is planned for, and its words: not less than matters."""
        if abs(difference) < smallest:
            return smallest, f"until a difference of {_digits(smallest)} {unit} would show, the smallest that matters"
        words = f"until the estimated difference of {_digits(abs(difference))} {unit} shows"
        if difference * self.pair.gain.estimate < 0:
            words += f", by which {(self.new if difference > 0 else self.old).name} would be ahead"
        return abs(difference), words


def _split_test(plan: _Settling) -> WayToSettle:
    """The A/B test.

    n = 2 (variance_new + variance_old) (z_confidence + z_power)² / difference²      both halves together, in clicks
    """
    (new, spread), (old, other) = plan.clicks_per_page(plan.new), plan.clicks_per_page(plan.old)
    difference, words = plan.planned(new - old, plan.smallest, "clicks per page")
    pages = pages_to_show(difference, 2 * (spread + other), plan.clicks.confidence)
    if pages is None:
        return WayToSettle("A/B test", None, "both rankers bring the same clicks")
    return WayToSettle("A/B test", pages, f"half of the pages with each ranker, {words}")


def _interleaving_test(plan: _Settling) -> WayToSettle:
    """The test by team draft.

    n = variance (z_confidence + z_power)² / mean²      of a page's credit: clicks on new's team less those on old's
    """
    name = "interleaving test"
    credit = expected_credit(plan.log, plan.new, plan.old, plan.relevance, plan.clicks.seed)
    if credit is None:
        return WayToSettle(name, None, "both rankers usually show the same page")
    unit = "clicks per page between their results"
    difference, words = plan.planned(credit.mean, abs(credit.per_click) * plan.smallest, unit)
    pages = pages_to_show(difference, credit.variance, plan.clicks.confidence)
    if pages is None:
        return WayToSettle(name, None, "results of both rankers are clicked alike")
    return WayToSettle(name, pages, f"for each page both rankers pick results in turn (team draft), {words}")


def _trial_of_unseen(plan: _Settling) -> WayToSettle:
    """Pages on which a result that nobody has seen takes a random position, so that its relevance shows.

    Result i, of weight w_i in the difference, is drawn with chance |w_i| / W, W = Σ |w_i|, and shown at any position k
    alike. Then sign(w_i) W (c - base_k) / slope_k is an estimate of Σ w_i r_i, with

        variance = W² E[(p_ik (1 - 2 base_k) + base_k²) / slope_k²] - (Σ w_i r_i)²,    p_ik = slope_k r_i + base_k

    and takes the place of the model, so that

        n = variance / (error² - queries² - propensities²)

    with the largest error that decides; and at least ten clicks are waited for, since their mean is taken to be normal.
    """
    name, clicks, errors, weights = "trial of unseen results", plan.clicks, plan.errors, plan.unseen_weights
    if plan.open_by_curve:
        return WayToSettle(name, None, _CURVE)
    chosen = np.flatnonzero(weights)
    gain = _gain(plan)
    error = largest_error(gain, gain, plan.margin, clicks.quantile)
    left = 0.0 if error is None else error**2 - errors.queries**2 - errors.propensities**2
    if left <= 0:
        return WayToSettle(name, None, "even if their relevance were known, the rest would leave it open")
    relevance = np.clip(plan.relevance[chosen], 0.0, 1.0)
    variance = trial_variance(weights[chosen], relevance, plan.log)
    rate = float(
        np.abs(weights[chosen])
        @ relevance
        / np.abs(weights).sum()
        * plan.log.affine.slope[: plan.log.clicks.depth].mean()
    )
    pages = math.ceil(max(variance / left, _FEWEST_CLICKS / max(rate, 1e-6)))
    known = clicks.quantile * math.sqrt(variance / pages) / np.abs(weights).sum()
    results = count(len(chosen), "result that nobody has seen", "results that nobody has seen")
    about = f"each page swaps one of {results} into a random position, until their mean relevance is known"
    return WayToSettle(name, pages, f"{about} to ±{_digits(known)}")


def _gain(plan: _Settling) -> float:
    """The difference to plan for, with the unseen as the plan has them."""
    if plan.clicks.estimator.fills_unseen == "mean":
        return plan.pair.interval.estimate
    return plan.clicks.difference(plan.measure, plan.new, plan.old, plan.relevance).value


def trial_variance(weights: Floats, relevance: Floats, log: LoggedClicks) -> float:
    """The variance of what a page of the trial says of Σ w_i r_i.

    >>> from cldrank.evaluation.logged import example_log
    >>> trial_variance(np.array([1.0]), np.array([0.5]), example_log())
    0.5
    """
    depth = log.clicks.depth
    slope, base = log.affine.slope[:depth], log.affine.base[:depth]
    chance = relevance[:, None] * slope + base
    squares = ((chance * (1 - 2 * base) + base**2) / slope**2).mean(axis=1)
    size = np.abs(weights)
    return float(size.sum() * (size @ squares) - (weights @ relevance) ** 2)


def _more_pages(plan: _Settling) -> WayToSettle:
    """More pages of the same kind, of other queries, too.

        n = pages ((queries² + model² + propensities²) / error² - 1)

    with the largest error that decides. How far the model is off does not shrink, nor do bounds of the unseen.
    """
    if plan.open_by_curve:
        return WayToSettle(MORE, None, f"{_CURVE}, and pages of the same kind do not tell it")
    low, high = plan.ends
    error = largest_error(low, high, plan.margin, plan.clicks.quantile)
    if error is None:
        reason = "the unseen stay unseen" if low < high else "the estimated difference is 0"
        return WayToSettle(MORE, None, reason)
    errors = plan.errors
    times = (errors.queries**2 + errors.model**2 + errors.propensities**2) / error**2
    pages = max(1, math.ceil(float(plan.log.pages.sum()) * (times - 1)))
    about = "pages of the same kind, of more queries, with as many pages for each"
    if errors.propensities:
        about += ", and the curve estimated again from all of them"
    return WayToSettle(MORE, pages, about)


def _swap_experiment(plan: _Settling) -> WayToSettle:
    """Pages on half of which the first result changes places with another, drawn at random: they tell the curve.

        n = (1 / (error² - queries² - model²) - 1 / propensities²) Σ_k (K - 1) v_k (∂ difference / ∂ log ρ_k)²

    with the largest error that decides; (K - 1) v_k / n is the variance of log ρ_k (see `swap_variances`). A curve that
    is only assumed counts as unknown: 1 / propensities² is 0, and n is large enough to estimate every ρ_k to some 20%.
    """
    name, errors, clicks = "swap experiment", plan.errors, plan.clicks
    if isinstance(plan.log.curve, SegmentPropensities):
        return WayToSettle(name, None, "each segment has a curve of its own, so each would need swaps of its own")
    if not isinstance(plan.log.curve, Propensities):
        return WayToSettle(name, None, "swaps alone do not tell examination from trust in positions")
    error = largest_error(*plan.ends, plan.margin, clicks.quantile)
    left = 0.0 if error is None else error**2 - errors.queries**2 - errors.model**2
    if left <= 0:
        return WayToSettle(name, None, "even if the curve were known, the rest would leave it open")
    variances = swap_variances(plan.log, plan.relevance, clicks.seed)
    size = len(variances)
    known, least = (
        (0.0, size * variances.max() / _ROUGHEST**2) if plan.open_by_curve else (1 / errors.propensities**2, 1)
    )
    per_page = size * float(variances @ _slopes(plan) ** 2)
    pages = max(1, math.ceil(max(least, per_page * (1 / left - known))))
    about = f"on half of the pages the first result and one of the next {size} change places"
    return WayToSettle(name, pages, f"{about}, until the curve is known well enough")


def swap_variances(log: LoggedClicks, relevance: Floats, seed: int = 0) -> Floats:
    """(K - 1,) the variance of log ρ_k, k > 1, from one page of swaps with the first position; n pages leave 1 / n.

        v_k = (1 - p) / p + (1 - q) / q - 2 (E[r_1 r_k] / r² - 1),      p = ρ_1 r, q = ρ_k r

    where r_1 and r_k are the relevance of the two results, and r is their mean: both are shown at both positions alike,
    and the estimate is clicks at position k over clicks at position 1.
    """
    queries, share = sampled_queries(log, seed)
    pages = usual_pages(LoggedOrder(log), log, queries)
    share = np.where(pages[:, 1:] >= 0, share[:, None], 0.0)  # pages that are long enough
    share /= np.maximum(share.sum(axis=0), 1e-300)
    first, other = relevance[pages[:, :1]], relevance[pages[:, 1:]]
    mean = (share * (first + other) / 2).sum(axis=0)
    slope = log.affine.slope[: pages.shape[1]]
    p, q = np.clip(np.stack([slope[0] * mean, slope[1:] * mean]), 1e-6, 1 - 1e-6)
    above, below = (1 - p) / p, (1 - q) / q
    common = (share * first * other).sum(axis=0) / np.maximum(mean**2, 1e-300) - 1
    found: Floats = above + below - 2 * np.minimum(common, np.sqrt(above * below))  # no more than both have
    return found


def _slopes(plan: _Settling) -> Floats:
    """(K - 1,) how the difference moves with log ρ_k, k > 1."""
    rho = plan.log.affine.slope
    found = []
    for k in range(1, plan.log.clicks.depth):
        moved = np.array(rho)
        moved[k] *= math.exp(_STEP)
        curve = Propensities(moved, method="moved")
        found.append(plan.clicks.difference_under(curve, plan.measure, plan.new, plan.old))
    return (np.array(found) - plan.clicks.difference(plan.measure, plan.new, plan.old).value) / _STEP


def _digits(value: float) -> str:
    """A number with two digits.

    >>> _digits(0.04), _digits(12.3)
    ('0.040', '12')
    """
    return f"{value:#.2g}".rstrip(".")
