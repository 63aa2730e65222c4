"""What would settle the question: how many pages of which experiment, for 80% power."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import WayToSettle, two_digits
from cldrank.evaluation.decision_rule import ClickVerdict, decide, largest_error
from cldrank.evaluation.exposure import LoggedClicks, RankOrder
from cldrank.evaluation.intervals import ClickEstimator, MeasuredPair
from cldrank.measures.confidence_sequences import every_look_quantile
from cldrank.wording import with_article

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MORE = "more of this log"
INTERLEAVING = "interleaving test"
ONLINE_CONFIDENCE = 0.95  # of the intervals by which an experiment is judged, all looks together
_POWER_IN_LOOKS = 0.66  # standard errors beyond its reach, for 80% power in 20 looks: simulated random walks
_FEWEST_PAGES = 30  # whose mean can be taken to be normal
_WIDE = 1.5  # times more pages, from which on a range of them is worth stating


def ways_to_settle(
    clicks: ClickEstimator,
    measure: ClickMeasure,
    new: RankOrder,
    old: RankOrder,
    pair: MeasuredPair,
    verdict: ClickVerdict,
) -> tuple[WayToSettle, ...]:
    """The experiments that would settle it, cheapest first, then those that cannot; none for two equal orders.

    Where the question is settled already, they would confirm it: more of the log is then not among them.
    """
    if not clicks.weights(measure, new, old).any():
        return ()
    plan = _Plan(clicks, measure, new, old, pair, verdict)
    ways = [_interleaving_test(plan), _split_test(plan)]
    if verdict.is_open:
        ways.append(_more_pages(plan))
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
        text = f"{name} would not {verb} it: {way.about}"
    elif way.name == MORE:
        text = f"about {way.pages:,} more of these pages would {verb} it"
    else:
        text = f"{name} of about {way.pages:,} pages would {verb} it"
    if way.pages_at_margin is not None:
        text += " if the difference is as estimated, "
        text += f"of about {way.pages_at_margin:,} if it is the smallest that matters"
    return f"{text[0].upper()}{text[1:]}."


def pages_to_show(difference: float, variance: float) -> int | None:
    """How many pages show that the mean of something per page is not 0, however often one looks; None where it is 0.

        n = variance (q + z)² / difference²

    q is the reach of an interval that holds at every look and is shortest at n (see `every_look_quantile`). With
    z = 0.66, 80% of experiments decide by then, at one of 20 looks; a single look would take 0.84. At least 30, since
    the mean is taken to be normal.

    >>> pages_to_show(0.1, 1.0)
    1366
    """
    if difference == 0:
        return None
    reach = every_look_quantile(1, 1, ONLINE_CONFIDENCE) + _POWER_IN_LOOKS
    return max(_FEWEST_PAGES, math.ceil(variance * (reach / difference) ** 2))


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

    @cached_property
    def relevance(self) -> Floats:
        """(rows,) as clicks have it; if never shown, as the model has it, or like results at the lowest position."""
        if self.clicks.model is not None:
            return np.where(self.log.seen, self.clicks.relevance, self.clicks.model.predicted)
        log, (slope, base) = self.log, self.log.by_cell
        base = base * log.clicks.click_value
        lowest = log.clicks.position == log.clicks.depth
        excess = (log.clicks.value - log.clicks.impressions * base)[lowest].sum()
        guess = excess / max((log.clicks.impressions * slope)[lowest].sum(), 1e-300)
        return np.where(log.seen, self.clicks.relevance, np.clip(guess, 0.0, log.clicks.most_value))

    @cached_property
    def pages(self) -> tuple[IntArray, IntArray]:
        """The usual pages of both orders, which an experiment shows, even if the log's own pages vary."""
        return usual_pages(self.new, self.log), usual_pages(self.old, self.log)

    def clicks_per_page(self, pages: IntArray, relevance: Floats) -> tuple[float, float]:
        """Mean and variance of the clicks on some pages, or of their value, within and between queries."""
        chances = _chances(pages, self.log, relevance)
        sums = chances.sum(axis=1)
        spread, share = self.log.clicks.value_spread, self.log.pages / self.log.pages.sum()
        return _click_moments(sums, spread * sums, (chances**2).sum(axis=1), share)

    @cached_property
    def smallest(self) -> float:
        """The margin in clicks per page: the same share of old's clicks as it is of old's measure."""
        whole = abs(self.pair.old.interval.estimate)
        return self.verdict.margin / whole * self.clicks_per_page(self.pages[1], self.relevance)[0] if whole else 0.0

    @cached_property
    def doubts(self) -> tuple[Floats, ...]:
        """(rows,) each: how never-shown results' relevance moves where the model is off by a standard error."""
        model = self.clicks.model
        if model is None or model.hidden is None:
            return ()
        return tuple(np.where(self.log.seen, 0.0, move) for move in (model.spread, model.apart))

    def online_test(self, name: str, about: str, effect: Callable[[Floats], _Effect]) -> WayToSettle:
        """A test of what relevance makes of a page, planned for the estimate, and for the smallest that matters."""
        expected = effect(self.relevance)
        difference, smallest = expected.difference, expected.smallest
        pages, at_margin = expected.pages(difference), expected.pages(smallest)
        if pages is None:
            return WayToSettle(name, None, "both rankers bring the same clicks")
        if abs(difference) < smallest:
            return WayToSettle(name, pages, f"{about}, until the smallest difference that matters would show")
        if difference * self.pair.interval.estimate < 0:
            about += f", until {(self.new if difference > 0 else self.old).name} shows to be ahead"
        off = math.hypot(*(effect(self.relevance + move).difference - difference for move in self.doubts))
        fewest, most = (expected.pages(max(abs(difference) + move, 0.0)) for move in (off, -off))
        if fewest and (most is None or most > _WIDE * fewest):
            end = "or more" if most is None else f"to {two_digits(most):,}"
            about += f"; {two_digits(fewest):,} {end}, depending on what never-shown results are worth"
        return WayToSettle(name, pages, about, at_margin)


@dataclass(frozen=True)
class _Effect:
    """What an experiment measures on a page: the difference, the smallest that matters, and the variance."""

    difference: float
    smallest: float
    variance: float

    def pages(self, difference: float) -> int | None:
        """How many show a difference, or the smallest that matters if that is larger."""
        return pages_to_show(max(abs(difference), self.smallest), self.variance)


def _split_test(plan: _Plan) -> WayToSettle:
    """The A/B test: its pages differ in clicks with variance 2 (variance_new + variance_old), both halves together."""

    def effect(relevance: Floats) -> _Effect:
        (new, new_variance), (old, old_variance) = (plan.clicks_per_page(each, relevance) for each in plan.pages)
        return _Effect(new - old, plan.smallest, 2 * (new_variance + old_variance))

    return plan.online_test("A/B test", "half of the pages with each ranker", effect)


def _interleaving_test(plan: _Plan) -> WayToSettle:
    """The test by team draft, by a page's credit: clicks on results of new's team less those on old's."""

    def effect(relevance: Floats) -> _Effect:
        mean, variance, per_click = expected_credit(plan.log, plan.pages, relevance)
        return _Effect(mean, abs(per_click) * plan.smallest, variance)

    return plan.online_test(INTERLEAVING, "for each page both rankers pick results in turn (team draft)", effect)


def _more_pages(plan: _Plan) -> WayToSettle:
    """More pages of the same kind, of other queries, too.

        n = pages ((queries² + model² + propensities²) / (error² - extrapolation²) - 1)

    with the largest error that decides. That of extrapolation does not shrink, nor do bounds.
    """
    difference, margin = plan.pair.difference, plan.verdict.margin
    errors, low, high = difference.errors, difference.lowest.estimate, difference.highest.estimate
    if decide(difference.interval, margin) != "cannot tell":
        return WayToSettle(MORE, None, "the curve is what leaves it open, and pages of the same kind do not tell it")
    if plan.clicks.model is not None:
        low = high = difference.interval.estimate
    error = largest_error(low, high, margin, plan.clicks.quantile)
    if error is None or error <= errors.extrapolation:
        return WayToSettle(MORE, None, "what never-shown results are worth stays unknown")
    shrinking = errors.queries**2 + errors.model**2 + errors.propensities**2
    times = shrinking / (error**2 - errors.extrapolation**2)
    pages = max(1, math.ceil(float(plan.log.pages.sum()) * (times - 1)))
    again = ", and the curve estimated again from all of them" if errors.propensities else ""
    return WayToSettle(MORE, pages, f"pages of the same kind, of more queries, with as many pages for each{again}")


# -- interleaving --------------------------------------------------------------------------------------------------


def team_draft(new: IntArray, old: IntArray, new_first: bool) -> tuple[IntArray, Flags]:
    """Pages of two orders that pick results in turn, each its best that is not on the page yet.

    So they do in each round of a team draft (Radlinski, Kurup and Joachims 2008), where a coin says who picks first.
    Given (pages, k) the first rows of each order, -1 where a query has no more, it returns the rows of each page, and
    (k,) whether each place belongs to new's team.

    >>> team_draft(np.array([[0, 1, 2]]), np.array([[1, 2, 0]]), new_first=False)
    (array([[1, 0, 2]]), array([False,  True, False]))
    """
    pages, k = new.shape
    ours = (np.arange(k) % 2 == 0) == new_first
    drafted = np.full((pages, k), -1)
    for slot in range(k):
        rows = new if ours[slot] else old
        taken = (rows[:, :, None] == drafted[:, None, :slot]).any(axis=2) & (rows >= 0)
        drafted[:, slot] = rows[np.arange(pages), taken.argmin(axis=1)]
    return drafted, ours


def usual_pages(order: RankOrder, log: LoggedClicks) -> IntArray:
    """(queries, k) the rows of the pages of an order, -1 where they end; k is the depth of the log.

    The log's own pages vary: theirs are by mean position, where pages that do not show a result count as if it stood
    below them.
    """
    heights = np.maximum(log.clicks.depth - np.arange(log.longest), 0.0)
    places = segments.descending_ranks(order.on_pages(heights, log), log.data.offsets)
    on_page = places <= log.clicks.depth
    pages = np.full((log.data.n_queries, log.clicks.depth), -1)
    pages[log.queries[on_page], places[on_page] - 1] = np.flatnonzero(on_page)
    return pages


def _chances(pages: IntArray, log: LoggedClicks, relevance: Floats) -> Floats:
    """(pages, k) the chance of a click on each result of some pages, or its expected value; 0 where they have ended."""
    k, base = log.clicks.depth, log.clicks.click_value * log.affine.base
    return np.where(pages >= 0, log.affine.slope[:k] * relevance[pages] + base[:k], 0.0)


def _click_moments(sums: Floats, clicks: Floats, squares: Floats, share: Floats) -> tuple[float, float]:
    """Mean and variance over pages of Σ_k s_k click_k, where clicks on a page are independent, and each s_k is ±1.

        mean = E Σ_k s_k p_k       variance = E Σ_k p_k + E Σ_{j≠k} s_j s_k p_j p_k - mean²

    The chances p of a click are estimates and not clipped: none is multiplied by itself, so their noise averages out.

    sums, clicks, squares    (pages,) of each kind of page, Σ_k s_k p_k, Σ_k p_k and Σ_k p_k²; of value in place of
                             clicks, the second times `ClickTable.value_spread`
    share                    (pages,) how many pages are of each kind, in all 1
    """
    mean = float(share @ sums)
    variance = float(share @ (clicks + sums**2 - squares)) - mean**2
    return mean, variance if variance > 0 else float(share @ clicks)  # noise may leave nothing, in tiny logs


def expected_credit(
    log: LoggedClicks, pages: tuple[IntArray, IntArray], relevance: Floats
) -> tuple[float, float, float]:
    """What a page of an interleaving test brings: clicks on results of new's team, less those on old's.

    Results that both agree on from the top belong to neither. Mean and variance over pages, on half of which new picks
    first; and how far the mean moves where relevance moves so that clicks per page differ by 1 more, by the least
    change of relevance that does.

    pages       the usual pages of the new order, and of the old
    relevance   (rows,) of each candidate
    """
    k, share = log.clicks.depth, log.pages / log.pages.sum()
    slope = log.affine.slope[:k]
    drafted = ~np.logical_and.accumulate(pages[0] == pages[1], axis=1)
    moments, credit = [], np.zeros(log.data.n_rows + 1)  # the last place is that of -1, where pages have ended
    for new_first in (True, False):
        shown, ours = team_draft(*pages, new_first)
        signs = np.where(ours, 1.0, -1.0) * drafted
        chances = _chances(shown, log, relevance)
        counted = chances * drafted
        clicked = log.clicks.value_spread * counted.sum(axis=1)
        moments.append(np.stack([(chances * signs).sum(axis=1), clicked, (counted**2).sum(axis=1)]))
        np.add.at(credit, shown, share[:, None] / 2 * slope * signs)
    gained = np.zeros(len(credit))
    for rows, sign in zip(pages, (1, -1), strict=True):
        np.add.at(gained, rows, sign * share[:, None] * slope)
    credit[-1] = gained[-1] = 0.0
    sums, clicks, squares = np.concatenate(moments, axis=1)
    mean, variance = _click_moments(sums, clicks, squares, np.tile(share / 2, 2))
    return mean, variance, float(credit @ gained / (gained @ gained)) if gained.any() else 0.0
