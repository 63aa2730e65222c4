"""When a verdict must not be trusted: what it assumes, and what this comparison found about each assumption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cldrank.evaluation.click_results import ClickComparison
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.verdict_words import model_words, placebo_words, sentence, unseen_count
from cldrank.wording import count, listed

_FEW_QUERIES = 50  # below which intervals are rough
_MUCH_WEIGHT = 0.25  # of all, on the heaviest 1% of impressions
_ALL_SHOWN = 0.999


@dataclass(frozen=True)
class Caveat:
    """One thing that a verdict takes for granted.

    mark     "ok": checked, and it holds · "note": cannot be checked, or matters little here · "warning": doubtful here
    word     the mark in a word, as a page shows it
    about    what is assumed, and when it is wrong
    found    what this comparison says about it; empty where it says nothing
    """

    topic: str
    mark: Literal["ok", "note", "warning"]
    word: str
    about: str
    found: str = ""


def caveats_of(result: ClickComparison) -> list[Caveat]:
    """All of them; those that are doubtful here come first."""
    found = [*_specific(result), *_general(result)]
    rank = {"warning": 0, "ok": 1, "note": 2}
    return sorted(found, key=lambda one: rank[one.mark])


def _specific(result: ClickComparison) -> Iterator[Caveat]:
    """What the comparison itself can say something about."""
    yield _curve(result)
    placebo = result.placebo
    yield Caveat(
        "Placebo",
        "note" if placebo is None else "ok" if placebo.passed else "warning",
        "not tried" if placebo is None else "passed" if placebo.passed else "failed",
        "With clicks permuted within positions, no candidate is better than another, so no order can gain. Where one "
        "does, the curve is too steep, or positions differ in more than examination.",
        placebo_words(placebo),
    )
    yield _unseen(result)
    if unseen_count(result.first.difference):
        yield _model(result)
    yield _weights(result)


def _general(result: ClickComparison) -> Iterator[Caveat]:
    """What no log can check."""
    yield Caveat(
        "Position-based clicks",
        "note",
        "assumed",
        "People examine a position with the same probability whatever is there and above it, and click what they "
        "examine if it is relevant. Where one good result ends the search, or a picture draws the eye, this is wrong.",
    )
    yield Caveat(
        "Clicks mean relevance",
        "note",
        "assumed",
        "A result that attracts clicks and disappoints counts as good; one that answers without a click counts as bad.",
    )
    left = count(result.left_out, "query", "queries")
    yield Caveat(
        "The same users and queries",
        "note",
        "assumed",
        "Tomorrow's users search and click as those of the log did. Means are over pages, so frequent queries count "
        "more. Rankers that were tuned on these clicks look better than they are.",
        f"{left} left out, since a ranker was trained on {'it' if result.left_out == 1 else 'them'}."
        if result.left_out
        else "",
    )
    if result.synthetic:
        about = "Synthetic data shows that a method works, not that a ranker is good."
        yield Caveat("Synthetic data", "warning", "synthetic", about)


def _curve(result: ClickComparison) -> Caveat:
    about = "All estimates divide clicks by how often a position is examined; where that is wrong, they are."
    if result.curve_is_estimated:
        found = f"{sentence(result.curve)}: the uncertainty of the curve is part of every interval."
        return Caveat("Propensities", "ok", "estimated", about, found)
    found = f"{sentence(result.curve)}: assumed, so no interval says how wrong the curve may be"
    tried = [one for one in result.checks if one.kind == "curve"]
    if tried:
        usual = decide(result.first.gain, result.verdict.margin)
        other = [one.name for one in tried if one.decision != usual]
        found += f"; with {listed(other)}, the decision is another one" if other else "; other curves decide alike"
    found += "."
    return Caveat("Propensities", "warning", "assumed", about, found)


def _unseen(result: ClickComparison) -> Caveat:
    about = "About results that nobody ever saw, a log says nothing. What they are worth is a model's guess."
    seen = result.support
    share = f"{1 - seen.shown:.1%} of the top {seen.k} of {result.new} was never shown"
    if seen.shown_old is not None and seen.shown_old < _ALL_SHOWN:
        share += f", and {1 - seen.shown_old:.1%} of that of {result.old}"
    if result.verdict.depends_on_unseen:
        return Caveat("The unseen", "warning", "decisive", about, f"{share}, and the decision rests on the model.")
    if min(seen.shown, 1.0 if seen.shown_old is None else seen.shown_old) >= _ALL_SHOWN:
        return Caveat("The unseen", "ok", "all seen", about, f"{share}.")
    if result.verdict.decision == "cannot tell":
        return Caveat("The unseen", "note", "open", about, f"{share}.")
    return Caveat(
        "The unseen", "ok", "no matter", about, f"{share}, and the decision is the same whatever they are worth."
    )


def _model(result: ClickComparison) -> Caveat:
    about = (
        "The model can be checked on results at the lowest positions alone, which are hidden from it. Results that "
        "production ranks far below may be different."
    )
    unseen, off = result.unseen, result.first.difference.errors.extrapolation
    found = " ".join(model_words(unseen))
    if unseen.hidden_predicted is None or unseen.hidden_observed is None:
        return Caveat("The model of the unseen", "warning", "unchecked", about, found)
    found += f" That error may move the difference in {result.first.measure} by {off:.4f}, which its interval includes."
    observed = unseen.hidden_observed
    if observed.low <= unseen.hidden_predicted <= observed.high:
        return Caveat("The model of the unseen", "ok", "checked", about, found)
    if off <= result.verdict.margin:
        return Caveat("The model of the unseen", "note", "a bit off", about, found)
    return Caveat("The model of the unseen", "warning", "off", about, found)


def _weights(result: ClickComparison) -> Caveat:
    seen = result.support
    about = (
        "Intervals hold for many queries of similar weight; with few, or where few impressions decide, they are rough."
    )
    heavy = seen.top_percent > _MUCH_WEIGHT
    few = seen.queries < _FEW_QUERIES
    found = (
        f"{count(seen.queries, 'query', 'queries')}; the heaviest 1% of impressions have {seen.top_percent:.0%} of all "
        "weight."
    )
    return Caveat(
        "Enough to go by", "warning" if heavy or few else "ok", "thin" if heavy or few else "yes", about, found
    )
