"""What a log can see, and what it cannot, in sentences: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator

from cldrank.evaluation.click_results import (
    ClickComparison,
    ClickEstimate,
    ClickEvaluation,
    Placebo,
    Support,
    Unseen,
)
from cldrank.measures import Interval
from cldrank.wording import count

_NOTHING = 0.00005  # is written as 0
_ALL = 1 - 1e-12  # a share


def curve_words(result: ClickComparison | ClickEvaluation) -> str:
    """Where the propensities come from, and whether their uncertainty is known."""
    return f"{result.curve} ({'with' if result.curve_is_estimated else 'without'} a known uncertainty)"


def support_words(result: ClickComparison | ClickEvaluation) -> Iterator[str]:
    """How much of the orders the log can see."""
    seen: Support = result.support
    if isinstance(result, ClickComparison):
        name, moved = result.new, "difference in"
        other = "" if seen.shown_old is None else f" (of {result.old}: {_share(seen.shown_old)})"
    else:
        name, moved, other = result.ranker, "estimate of", ""
    measure = next(iter(result.measures))
    yield f"Of the top {seen.k} of {name}, {_share(seen.shown)} was shown at some time{other}."
    yield (
        f"The effective sample size is {seen.effective:,.0f} of {count(seen.impressions, 'impression')}; the largest "
        f"weight is {seen.largest_weight:.3g} times the mean, and the heaviest 1% have {seen.top_percent:.0%} of all "
        "weight."
    )
    does = "does not move" if abs(seen.clipped) < _NOTHING else "moves"
    by = "" if abs(seen.clipped) < _NOTHING else f" by {seen.clipped:+.4f}"
    yield (
        f"Clipping weights, as if every result were examined on at least {seen.clip:.0%} of the pages, {does} the "
        f"{moved} {measure}{by}."
    )


def unseen_words(result: ClickComparison | ClickEvaluation) -> Iterator[str]:
    """What is known about results that nobody ever saw."""
    unseen, measure = result.unseen, next(iter(result.measures))
    if isinstance(result, ClickComparison):
        new, found, verb, form = result.new, result.first.difference, "differs by", "+.4f"
    else:
        new, found, verb, form = result.ranker, next(iter(result.measures.values())), "is", ".4f"
    yield _who_shows_them(result, new)
    if not unseen_count(found):
        if unseen.results:
            yield f"{measure} leaves them out: it ranks the results that were shown among themselves."
        return
    yield _bounds_words(measure, found, verb, form)
    yield from _break_even_words(unseen, new)
    yield from model_words(unseen)


def unseen_count(found: ClickEstimate) -> bool:
    """Whether an estimate depends on what results that nobody saw are worth."""
    return found.lowest.estimate != found.highest.estimate


def model_words(unseen: Unseen) -> Iterator[str]:
    """How well the model of the unseen did where it could be checked."""
    if unseen.without_model:
        yield f"There is no model of them: {unseen.without_model}"
    elif unseen.hidden_predicted is None or unseen.hidden_observed is None:
        yield "The model could not be checked on results that were hidden from it."
    else:
        lowest = "position" if unseen.hidden_positions == 1 else f"{unseen.hidden_positions} positions"
        yield (
            f"Check of the model: results of the lowest {lowest} were hidden from it; it predicts a relevance of "
            f"{unseen.hidden_predicted:.0%} for them, and clicks say {percent_range(unseen.hidden_observed)}."
        )


def placebo_words(placebo: Placebo | None) -> str:
    """What the placebo showed."""
    if placebo is None:
        return "Placebo: what was seen is ordered as the log has it, so there is nothing to try."
    gain = placebo.gain
    found = (
        "passed: it must not gain anything there, and a loss is harmless"
        if placebo.passed
        else "failed: something seems to be gained where nothing can be"
    )
    return (
        f"Placebo, clicks permuted within positions {placebo.permutations} times: {placebo.order} gains "
        f"{gain.estimate:+.4f} ({gain.low:+.4f} to {gain.high:+.4f}) in DCG on the order of the log, {found}."
    )


def settling_verb(result: ClickComparison) -> str:
    """What an experiment would do about the verdict."""
    return "settle" if result.verdict.decision == "cannot tell" else "confirm"


def sentence(text: str) -> str:
    """A text that begins with a capital letter, unless it begins with a name such as nDCG.

    >>> sentence("it is DCG"), sentence("nDCG it is")
    ('It is DCG', 'nDCG it is')
    """
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]


def percent_range(interval: Interval) -> str:
    """An interval in percent.

    >>> percent_range(Interval(0.41, 0.33, 0.49, 0.9, 100))
    '41% (33% to 49%)'
    """
    return f"{interval.estimate:.0%} ({interval.low:.0%} to {interval.high:.0%})"


def _who_shows_them(result: ClickComparison | ClickEvaluation, new: str) -> str:
    unseen, seen = result.unseen, result.support
    if unseen.results:
        return (
            f"{new} puts {count(unseen.results, 'result')} into its top {seen.k} that nobody ever saw, "
            f"{unseen.per_page:.2g} per page."
        )
    all_shown = f"All results in the top {seen.k} of {new} were shown at some time"
    if not isinstance(result, ClickComparison):
        return f"{all_shown}, so nothing rests on a model."
    if not unseen_count(result.first.difference):
        if seen.shown >= _ALL:
            return f"{all_shown}, so nothing rests on a model."
        return f"{new} and {result.old} show the same unseen results in the same places, so nothing rests on a model."
    never = f"of the top {seen.k} of {result.old}, {_share(1 - (seen.shown_old or 0.0))} never was"
    if seen.shown >= _ALL:
        return f"{all_shown}; {never}, and what that part is worth rests on a model."
    return f"{new} lifts no unseen result above its place in {result.old}; {never}."


def _bounds_words(measure: str, found: ClickEstimate, verb: str, form: str) -> str:
    low, high = found.lowest, found.highest
    return (
        f"Whatever the unseen are worth, {measure} {verb} {low.estimate:{form}} to {high.estimate:{form}} "
        f"({low.low:{form}} to {high.high:{form}} with sampling error)."
    )


def _break_even_words(unseen: Unseen, new: str) -> Iterator[str]:
    even = unseen.break_even
    says = "" if unseen.model is None else f"the model says {percent_range(unseen.model)}"
    also = f"; {says}." if says else "."
    if even is None:
        if says:
            yield f"How relevant they are: {says}."
    elif even.estimate <= 0:
        likely = "would" if even.high <= 0 else "would probably"
        yield f"{new} {likely} be better even if none of them were relevant{also}"
    elif even.estimate >= 1:
        likely = "would" if even.low >= 1 else "would probably"
        yield f"{new} {likely} not be better even if all of them were relevant{also}"
    else:
        yield f"Break-even: {new} is better if at least {percent_range(even)} of them are relevant{also}"


def _share(share: float) -> str:
    """A share in percent that is 100% only if it is all.

    >>> _share(0.99996), _share(1.0)
    ('99.9%', '100%')
    """
    return "100%" if share >= _ALL else f"{min(share, 0.999):.1%}"
