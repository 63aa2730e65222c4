"""What would settle the question: how many pages of which experiment, for 80% power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import NeverShown, WayToSettle
from cldrank.evaluation.decision_rule import POWER, ClickVerdict, decide, largest_error
from cldrank.evaluation.exposure import LoggedClicks, LoggedOrder, RankOrder
from cldrank.evaluation.intervals import ClickEstimator, Errors, MeasuredPair
from cldrank.propensity import Propensities, SegmentPropensities
from cldrank.wording import count, with_article

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MORE = "more of this log"
_FEWEST_PAGES = 30  # whose mean can be taken to be normal
_FEWEST_CLICKS = 10  # on never-shown results
_STEP = 0.01  # of a log propensity, for derivatives
_ROUGHEST = 0.2  # standard error of a log propensity, up to which derivatives say what it does
_CURVE = "the curve is what leaves it open"
_MOST_QUERIES = 20_000  # that a plan is computed from; of more, pages are drawn
_MOST_DRAFTS = 200_000  # in all
_DRAFTS = 32  # of each query: all there are on pages of up to ten results


def ways_to_settle(
    clicks: ClickEstimator,
    measure: ClickMeasure,
    new: RankOrder,
    old: RankOrder,
    pair: MeasuredPair,
    never_shown: NeverShown,
    verdict: ClickVerdict,
) -> tuple[WayToSettle, ...]:
    """The experiments that would settle it, cheapest first, then those that cannot; none for two equal orders.

    Where the question is settled already, they would confirm it: more of the log is then not among them.
    """
    if not (clicks.weights(measure, new) - clicks.weights(measure, old)).any():
        return ()
    plan = _Plan(clicks, measure, new, old, pair, verdict)
    ways = [_interleaving_test(plan), _split_test(plan)]
    if never_shown.results and plan.trial_weights.any() and (verdict.is_open or verdict.depends_on_never_shown):
        ways.append(_trial(plan))
    if verdict.is_open:
        ways.append(_more_pages(plan))
        if (plan.open_by_curve or plan.errors.propensities) and clicks.log.clicks.depth > 1:
            ways.append(_swap_experiment(plan))
    return tuple(sorted(ways, key=lambda way: math.inf if way.pages is None else way.pages))


def say_way(way: WayToSettle, verb: str = "settle") -> str:
    """A way in a sentence.

    >>> say_way(WayToSettle("interleaving test", 12_345, "both orders on each page"))
    'An interleaving test of about 12,000 pages would settle it.'
    >>> say_way(WayToSettle("A/B test", 290, "half of the pages each", pages_at_margin=12_345))
    'An A/B test of about 290 pages would settle it if the difference is as estimated, of about 12,000 if it is the \
smallest that matters.'
    """
    name = MORE if way.name == MORE else with_article(way.name)
    if way.pages is None:
        text = f"{name} would not {verb} it: {way.about}."
    else:
        pages = f"about {way.pages:,}"
        text = f"{pages} more of these pages" if way.name == MORE else f"{name} of {pages} pages"
        text += f" would {verb} it"
        if way.pages_at_margin is not None:
            text += " if the difference is as estimated, "
            text += f"of about {way.pages_at_margin:,} if it is the smallest that matters"
        text += "."
    return text[0].upper() + text[1:]


def pages_to_show(difference: float, variance: float, confidence: float) -> int | None:
    """How many pages show that the mean of something per page is not 0; None where it is 0.

        n = variance (z_confidence + z_power)² / difference²

    z_confidence is the normal quantile of (1 + confidence) / 2, z_power that of 80%: the error to one side is
    (1 - confidence) / 2, as in the intervals. At least 30, since the mean is taken to be normal.

    >>> pages_to_show(0.1, 1.0, 0.9)
    619
    """
    from scipy.special import ndtri

    if difference == 0:
        return None
    z = float(ndtri((1 + confidence) / 2) + ndtri(POWER))
    return max(_FEWEST_PAGES, math.ceil(variance * (z / difference) ** 2))


@dataclass(frozen=True, eq=False)
class _Plan:
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
    def open_by_curve(self) -> bool:
        """Whether the interval would decide, but the curve is not to be relied on."""
        return self.verdict.is_open and decide(self.pair.gain, self.verdict.margin) != "cannot tell"

    @cached_property
    def trial_weights(self) -> Floats:
        """(rows,) what the relevance of each never-shown result counts in the difference; 0 for the others."""
        gained = self.clicks.weights(self.measure, self.new) - self.clicks.weights(self.measure, self.old)
        return np.where(self.clicks.never_shown, gained, 0.0)

    @cached_property
    def relevance(self) -> Floats:
        """(rows,) as clicks have it; if never shown, as the model has it, or like results at the lowest position."""
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
        """Where the interval would end without any error: apart by what never-shown results leave open."""
        difference = self.pair.difference
        low, high = difference.lowest.estimate, difference.highest.estimate
        if not self.clicks.estimator.uses_model or self.clicks.model is None:
            return low, high
        middle, bias = difference.interval.estimate, self.errors.extrapolation
        return max(middle - bias, low), min(middle + bias, high)

    def largest_error(self, low: float, high: float) -> float | None:
        """The largest standard error that decides with 80% power, if the interval ends here without any."""
        return largest_error(low, high, self.verdict.margin, self.clicks.quantile)

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
        return self.verdict.margin / whole * self.clicks_per_page(self.old)[0] if whole else 0.0

    def online_test(
        self, name: str, what: str, nothing: str, unit: str, difference: float, smallest: float, variance: float
    ) -> WayToSettle:
        """A test of a difference per page: planned for the estimate, and for the smallest that matters.

        nothing    why there is no test, where there is no difference
        unit       of the difference, and of the smallest one that matters
        variance   of a page
        """
        planned = max(abs(difference), smallest)
        pages = pages_to_show(planned, variance, self.clicks.confidence)
        if pages is None:
            return WayToSettle(name, None, nothing)
        if abs(difference) < smallest:
            until = f"until a difference of {_digits(smallest)} {unit} would show, the smallest that matters"
            return WayToSettle(name, pages, f"{what}, {until}")
        until = f"until the estimated difference of {_digits(planned)} {unit} shows"
        if difference * self.pair.gain.estimate < 0:
            until += f", by which {(self.new if difference > 0 else self.old).name} would be ahead"
        return WayToSettle(name, pages, f"{what}, {until}", pages_to_show(smallest, variance, self.clicks.confidence))


def _split_test(plan: _Plan) -> WayToSettle:
    """The A/B test.

    n = 2 (variance_new + variance_old) (z_confidence + z_power)² / difference²      both halves together, in clicks
    """
    (new, spread), (old, other) = plan.clicks_per_page(plan.new), plan.clicks_per_page(plan.old)
    what, nothing = "half of the pages with each ranker", "both rankers bring the same clicks"
    variance = 2 * (spread + other)
    return plan.online_test("A/B test", what, nothing, "clicks per page", new - old, plan.smallest, variance)


def _interleaving_test(plan: _Plan) -> WayToSettle:
    """The test by team draft.

    n = variance (z_confidence + z_power)² / mean²      of a page's credit: clicks on new's team less those on old's
    """
    name, unit = "interleaving test", "clicks per page between their results"
    credit = expected_credit(plan.log, plan.new, plan.old, plan.relevance, plan.clicks.seed)
    if credit is None:
        return WayToSettle(name, None, "both rankers usually show the same page")
    what = "for each page both rankers pick results in turn (team draft)"
    nothing, smallest = "results of both rankers are clicked alike", abs(credit.per_click) * plan.smallest
    return plan.online_test(name, what, nothing, unit, credit.mean, smallest, credit.variance)


def _trial(plan: _Plan) -> WayToSettle:
    """Pages on which a never-shown result takes a random position, so that its relevance shows.

    Result i, of weight w_i in the difference, is drawn with chance |w_i| / W, W = Σ |w_i|, and shown at any position k
    alike. Then sign(w_i) W (c - base_k) / slope_k is an estimate of Σ w_i r_i, with

        variance = W² E[(p_ik (1 - 2 base_k) + base_k²) / slope_k²] - (Σ w_i r_i)²,    p_ik = slope_k r_i + base_k

    and takes the place of the model, so that

        n = variance / (error² - queries² - propensities²)

    with the largest error that decides; and at least ten clicks are waited for, since their mean is taken to be normal.
    """
    name, clicks, errors = "trial of never-shown results", plan.clicks, plan.errors
    if plan.open_by_curve:
        return WayToSettle(name, None, _CURVE)
    gain = clicks.difference(plan.measure, plan.new, plan.old, plan.relevance).value
    error = plan.largest_error(gain, gain)
    left = 0.0 if error is None else error**2 - errors.queries**2 - errors.propensities**2
    if left <= 0:
        return WayToSettle(name, None, "even if their relevance were known, the rest would leave it open")
    chosen = np.flatnonzero(plan.trial_weights)
    weights, relevance = plan.trial_weights[chosen], np.clip(plan.relevance[chosen], 0.0, 1.0)
    variance, total = trial_variance(weights, relevance, plan.log), np.abs(plan.trial_weights).sum()
    rate = float(np.abs(weights) @ relevance / total * plan.log.affine.slope[: plan.log.clicks.depth].mean())
    pages = math.ceil(max(variance / left, _FEWEST_CLICKS / max(rate, 1e-6)))
    known = clicks.quantile * math.sqrt(variance / pages) / total
    results = count(len(chosen), "never-shown result")
    about = f"each page swaps one of {results} into a random position, until their mean relevance is known"
    return WayToSettle(name, pages, f"{about} to ±{_digits(known)}")


def trial_variance(weights: Floats, relevance: Floats, log: LoggedClicks) -> float:
    """The variance of what a page of the trial says of Σ w_i r_i.

    >>> from cldrank.evaluation.exposure import example_log
    >>> trial_variance(np.array([1.0]), np.array([0.5]), example_log())
    0.5
    """
    depth = log.clicks.depth
    slope, base = log.affine.slope[:depth], log.affine.base[:depth]
    chance = relevance[:, None] * slope + base
    squares = ((chance * (1 - 2 * base) + base**2) / slope**2).mean(axis=1)
    size = np.abs(weights)
    return float(size.sum() * (size @ squares) - (weights @ relevance) ** 2)


def _more_pages(plan: _Plan) -> WayToSettle:
    """More pages of the same kind, of other queries, too.

        n = pages ((queries² + model² + propensities²) / error² - 1)

    with the largest error that decides. How far the model is off does not shrink, nor do bounds.
    """
    if plan.open_by_curve:
        return WayToSettle(MORE, None, f"{_CURVE}, and pages of the same kind do not tell it")
    low, high = plan.ends
    error = plan.largest_error(low, high)
    if error is None:
        reason = "never-shown results stay so" if low < high else "the estimated difference is 0"
        return WayToSettle(MORE, None, reason)
    errors = plan.errors
    times = (errors.queries**2 + errors.model**2 + errors.propensities**2) / error**2
    pages = max(1, math.ceil(float(plan.log.pages.sum()) * (times - 1)))
    about = "pages of the same kind, of more queries, with as many pages for each"
    if errors.propensities:
        about += ", and the curve estimated again from all of them"
    return WayToSettle(MORE, pages, about)


def _swap_experiment(plan: _Plan) -> WayToSettle:
    """Pages on half of which the first result changes places with another, drawn at random: they tell the curve.

        n = (1 / (error² - queries² - model²) - 1 / propensities²) Σ_k (K - 1) v_k (∂ difference / ∂ log ρ_k)²

    with the largest error that decides; (K - 1) v_k / n is the variance of log ρ_k (see `swap_variances`). A curve that
    is only assumed counts as unknown: 1 / propensities² is 0, and n is large enough to estimate every ρ_k to some 20%.
    """
    name, errors = "swap experiment", plan.errors
    if isinstance(plan.log.curve, SegmentPropensities):
        return WayToSettle(name, None, "each segment has a curve of its own, so each would need swaps of its own")
    if not isinstance(plan.log.curve, Propensities):
        return WayToSettle(name, None, "swaps alone do not tell examination from trust in positions")
    error = plan.largest_error(*plan.ends)
    left = 0.0 if error is None else error**2 - errors.queries**2 - errors.model**2
    if left <= 0:
        return WayToSettle(name, None, "even if the curve were known, the rest would leave it open")
    variances = swap_variances(plan.log, plan.relevance, plan.clicks.seed)
    size = len(variances)
    known, least = 0.0, size * variances.max() / _ROUGHEST**2
    if not plan.open_by_curve:
        known, least = 1 / errors.propensities**2, 1
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
    variances: Floats = above + below - 2 * np.minimum(common, np.sqrt(above * below))  # no more than both have
    return variances


def _slopes(plan: _Plan) -> Floats:
    """(K - 1,) how the difference moves with log ρ_k, k > 1."""
    moved = []
    for k in range(1, plan.log.clicks.depth):
        rho = np.array(plan.log.affine.slope)
        rho[k] *= math.exp(_STEP)
        curve = Propensities(rho, method="moved")
        moved.append(plan.clicks.difference_under(curve, plan.measure, plan.new, plan.old))
    return (np.array(moved) - plan.clicks.difference(plan.measure, plan.new, plan.old).value) / _STEP


def _digits(value: float) -> str:
    """A number with two digits.

    >>> _digits(0.04), _digits(12.3)
    ('0.040', '12')
    """
    return f"{value:#.2g}".rstrip(".")


# -- interleaving --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Credit:
    """What a page of an interleaving test brings: clicks on results of new's team, less those on old's.

    mean       of a page
    variance   of a page
    per_click  how far the mean moves where relevance moves so that clicks per page differ by 1 more, by the least
               change of relevance that does; 0 where none does
    """

    mean: float
    variance: float
    per_click: float


def team_draft(new: IntArray, old: IntArray, coins: Flags) -> tuple[IntArray, Flags]:
    """Pages of two orders merged by team draft (Radlinski, Kurup and Joachims 2008).

    new, old   (pages, k) the first k rows of each order, as many of both, -1 where a query has no more; rows of
               different queries differ
    coins      (pages, rounds) whether new picks first in each round; a round fills two places

    In each round both pick their best result that is not on the page yet. Returns the rows of each page, and whether
    each belongs to new's team.

    >>> team_draft(np.array([[0, 1, 2]]), np.array([[1, 2, 0]]), np.array([[False, True]]))
    (array([[1, 0, 2]]), array([[False,  True,  True]]))
    """
    pages, k = new.shape
    each = np.arange(pages)
    slots = np.arange(k)
    ours = coins[:, slots // 2] ^ (slots % 2 == 1)
    lists = (old, new)
    places = [_places(rows, int(max(new.max(initial=-1), old.max(initial=-1))) + 2) for rows in lists]
    used = [np.zeros((pages, k + 1), dtype=bool) for _ in lists]  # the last column: what is not in the list
    drafted = np.empty((pages, k), dtype=np.int64)
    for slot in slots:
        theirs, mine = (rows[each, taken[:, :k].argmin(axis=1)] for rows, taken in zip(lists, used, strict=True))
        drafted[:, slot] = picked = np.where(ours[:, slot], mine, theirs)
        for place, taken in zip(places, used, strict=True):
            taken[each, place[picked]] = True
    return drafted, ours


def _places(rows: IntArray, size: int) -> IntArray:
    """(size,) the column in which each row stands; the number of columns where it does not, and for -1."""
    k = rows.shape[1]
    places = np.full(size, k)
    places[rows] = np.arange(k)
    places[-1] = k
    return places


def usual_pages(order: RankOrder, log: LoggedClicks, queries: IntArray) -> IntArray:
    """(queries, k) the rows of the pages of an order, -1 where they end; k is the depth of the log.

    The log's own pages vary: theirs are by mean position.
    """
    ranks = order.mean(np.arange(1.0, log.longest + 1))
    rows = segments.rows_of_segments(log.data.offsets, queries)
    offsets = segments.from_lengths(log.data.sizes[queries])
    places = segments.descending_ranks(-ranks[rows], offsets)
    on_page = places <= log.clicks.depth
    pages = np.full((len(queries), log.clicks.depth), -1)
    pages[segments.segment_of_rows(offsets)[on_page], places[on_page] - 1] = rows[on_page]
    return pages


def sampled_queries(log: LoggedClicks, seed: int, most: int = _MOST_QUERIES) -> tuple[IntArray, Floats]:
    """The queries that were searched, and their share of the pages; of many, those of pages drawn at random."""
    searched = np.flatnonzero(log.pages > 0)
    share = log.pages[searched] / log.pages.sum()
    if len(searched) <= most:
        return searched, share
    drawn = np.random.default_rng([seed, 4]).choice(searched, most, p=share)
    return drawn, np.full(most, 1 / most)


def click_moments(sums: Floats, clicks: Floats, squares: Floats, share: Floats) -> tuple[float, float]:
    """Mean and variance over pages of Σ_k s_k click_k, where clicks on a page are independent, and each s_k is ±1.

        mean = E Σ_k s_k p_k       variance = E Σ_k p_k + E Σ_{j≠k} s_j s_k p_j p_k - mean²

    The chances p of a click are estimates and not clipped: none is multiplied by itself, so their noise averages out.

    sums, clicks, squares    (pages,) of each kind of page, Σ_k s_k p_k, Σ_k p_k and Σ_k p_k²
    share                    (pages,) how many pages are of each kind, in all 1

    >>> one, two = np.array([1.0, 0.5]), np.array([1.0, 0.25])
    >>> click_moments(one, one, two, share=np.array([0.5, 0.5]))
    (0.75, 0.1875)
    """
    mean = float(share @ sums)
    variance = float(share @ (clicks + sums**2 - squares)) - mean**2
    return mean, variance if variance > 0 else float(share @ clicks)  # noise may leave nothing, in tiny logs


def expected_credit(log: LoggedClicks, new: RankOrder, old: RankOrder, relevance: Floats, seed: int) -> Credit | None:
    """What a page of an interleaving test of two orders brings; None where both show the same pages.

    relevance   (rows,) of each candidate
    """
    queries, share = sampled_queries(log, seed)
    tables = usual_pages(new, log, queries), usual_pages(old, log, queries)
    if (tables[0] == tables[1]).all():
        return None
    coins = _coins(len(queries), (log.clicks.depth + 1) // 2, seed)
    drafts = coins.shape[1]
    many = [np.repeat(table, drafts, axis=0) for table in tables]
    pages, ours = team_draft(many[0], many[1], coins.reshape(-1, coins.shape[2]))
    signs, shares = np.where(ours, 1.0, -1.0), np.repeat(share / drafts, drafts)
    k = pages.shape[1]
    chances = np.where(pages >= 0, log.affine.slope[:k] * relevance[pages] + log.affine.base[:k], 0.0)
    sums, clicks, squares = (values.sum(axis=1) for values in (signs * chances, chances, chances**2))
    mean, variance = click_moments(sums, clicks, squares, shares)
    credit = _weights(pages, signs * shares[:, None], log)
    gained = _weights(tables[0], share[:, None], log) - _weights(tables[1], share[:, None], log)
    per_click = float(credit @ gained / (gained @ gained)) if gained.any() else 0.0
    return Credit(mean, variance, per_click)


def _weights(pages: IntArray, shares: Floats, log: LoggedClicks) -> Floats:
    """(rows,) what the relevance of each counts in Σ share_k slope_k relevance."""
    each = shares * log.affine.slope[: pages.shape[1]]
    weights = np.bincount(pages.ravel() + 1, each.ravel(), log.data.n_rows + 1)  # place 0 is where pages have ended
    return weights[1:].astype(np.float64, copy=False)


def _coins(queries: int, rounds: int, seed: int) -> Flags:
    """(queries, drafts, rounds) all coins there are, or some at random, each with its opposite."""
    most = max(2, min(_DRAFTS, _MOST_DRAFTS // queries))
    if 2**rounds <= most:
        every = np.arange(2**rounds)[:, None] >> np.arange(rounds) & 1 == 1
        return np.broadcast_to(every, (queries, *every.shape))
    some = np.random.default_rng([seed, 5]).random((queries, most // 2, rounds)) < 0.5
    return np.concatenate([some, ~some], axis=1)
