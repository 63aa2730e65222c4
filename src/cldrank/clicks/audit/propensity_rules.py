"""The rules about propensities: whether positions can be compared, how precisely, and the shape of the curve."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cldrank.clicks.audit.verdict import NOTHING_TO_DO, Finding, Severity
from cldrank.clicks.audit.ways import USABLE, PropensityWay
from cldrank.errors import Language, Spelling, setting, worded

if TYPE_CHECKING:
    from cldrank.clicks.audit.facts import Facts

_FEW_AT_POSITION = 30
_PRECISE = 0.1  # an interval of ± this much, relative to the propensity, leaves nothing to be desired
_RISE_P = 0.01  # for any one position to rise by chance


def best_way(facts: Facts) -> PropensityWay | None:
    """The way that `cldrank propensity estimate` chooses, or else the most precise."""
    possible = [way for way in facts.ways if way.possible and way.error is not None]
    if possible and possible[0].name in ("Randomised", "AllPairs"):
        return possible[0]
    return min(possible, key=lambda way: way.error or 0.0, default=None)


def to_within(way: PropensityWay) -> str:
    """How precise an estimate would be, as the end of a sentence."""
    return "" if way.within is None else f" to within {way.within:.1%}"


def judge_propensities(facts: Facts, language: Language) -> Iterator[Finding]:
    """Whether propensities can be estimated by comparing positions."""
    best = best_way(facts)
    if len(facts.curve) < 2:
        if facts.curve:
            yield Finding(
                "propensities",
                Severity.warning,
                f"Everything was shown at position {facts.curve[0].position}.",
                "There is no position bias to correct, or the log lacks positions; check which column holds them.",
            )
        return
    yield _compared(facts, best, language) if best is not None else _not_compared(facts, language)
    if facts.log is not None and facts.log.propensity:
        yield Finding(
            "propensities",
            Severity.note,
            "The log has a column of propensities.",
            worded(
                "Use it with {}, if it is the probability of being shown at that position and every result had one.",
                (Spelling("`Logged`", "`cldrank propensity estimate --method logged`"),),
                language,
            ),
        )


def _compared(facts: Facts, best: PropensityWay, language: Language) -> Finding:
    overlap = facts.overlap
    if best.name == "Randomised":
        return Finding(
            "propensities",
            Severity.ok,
            f"The display order looks random (strength {facts.order.strength:.3f}, where 0 is random and 1 is fixed), "
            "so click-through rates by position are the propensities, up to a factor.",
            worded("Estimate them with {}.", (_estimator(best),), language),
        )
    share = overlap.impressions / max(facts.impressions, 1)
    return Finding(
        "propensities",
        Severity.ok,
        f"{overlap.moving:,} of {overlap.candidates:,} candidates, with {share:.1%} of the impressions, were shown at "
        "several positions, and they connect all positions.",
        worded(
            "Harvest them with {}; check that, for the same candidate, the position did not depend on relevance.",
            (_estimator(best),),
            language,
        ),
    )


def _estimator(way: PropensityWay) -> Spelling:
    return Spelling(f"`{way.spelling.python}`", f"`cldrank propensity estimate --method {way.spelling.shell}`")


def _not_compared(facts: Facts, language: Language) -> Finding:
    overlap = facts.overlap
    if not overlap.moving and facts.queries.searched > 1 and facts.queries.sessions["most"] == 1:
        return Finding(
            "propensities",
            Severity.warning,
            f"Each of the {facts.queries.searched:,} queries was searched once, so none of its candidates could move: "
            "comparing cannot separate position from relevance, and a random order would not show.",
            worded(
                "If the same documents are shown to many queries, and their positions do not depend on the query, "
                "audit and estimate with {}. Otherwise model relevance from features as well, or assume a known curve.",
                (Spelling("one_query=True", "--one-query"),),
                language,
            ),
        )
    if not overlap.moving:
        return Finding(
            "propensities",
            Severity.warning,
            f"Each of the {overlap.candidates:,} candidates was shown at one position only, as by a ranker that never "
            "changes: comparing cannot separate position from relevance.",
            _bounded(facts, language)
            + "Model relevance from features as well, or assume a known curve; or swap results on a few pages and log "
            "again.",
        )
    share = overlap.impressions / max(facts.impressions, 1)
    sets = len(overlap.components)
    parts = (
        f"positions fall into {sets} sets that cannot be compared"
        if sets > 1
        else "too few of them were clicked to compare all positions"
    )
    return Finding(
        "propensities",
        Severity.warning,
        f"Only {overlap.moving:,} of {overlap.candidates:,} candidates ({share:.1%} of impressions) were shown at "
        f"several positions, and {parts}.",
        _first_positions(facts, language)
        + _bounded(facts, language)
        + "Model relevance from features as well, or assume a known curve; or randomise a small share of pages and log "
        "again.",
    )


def _first_positions(facts: Facts, language: Language) -> str:
    """The advice to estimate the upper positions alone, where that is possible."""
    depth = max((way.usable_to or 0 for way in facts.ways if not way.possible), default=0)
    if depth < 2:
        return ""
    upper = worded("Estimate the first {} positions alone ({})", (depth, setting("depth", depth)), language)
    return f"{upper}, to within {USABLE:.0%}. Or: "


def _bounded(facts: Facts, language: Language) -> str:
    """The advice to bound the curve from below, where that is possible."""
    found = [way for way in facts.ways if way.name == "Envelope" and way.possible]
    return worded("Find a lower bound with {}. ", (_estimator(found[0]),), language) if found else ""


def judge_precision(facts: Facts, language: Language) -> Iterator[Finding]:
    """How precise an estimate would be."""
    thin = [entry.position for entry in facts.curve if entry.clicks < _FEW_AT_POSITION]
    if thin and facts.clicks:
        yield Finding(
            "thin positions",
            Severity.note,
            f"{len(thin)} of {len(facts.curve)} positions have fewer than {_FEW_AT_POSITION} clicks, the first of them "
            f"position {thin[0]}.",
            f"Cut the pages above position {thin[0]}, or pool the positions below.",
        )
    best = best_way(facts)
    if best is None or best.within is None:
        return
    found = worded(
        "With `{}`, the propensity of every position can be estimated{}, at 90% confidence.",
        (best.spelling, to_within(best)),
        language,
    )
    if best.within <= _PRECISE:
        yield Finding("precision", Severity.ok, found, NOTHING_TO_DO)
    elif best.within <= USABLE:
        advice = "Enough to train with; more pages, or a smoothed curve, would make it better."
        yield Finding("precision", Severity.note, found, advice)
    else:
        if best.usable_to:
            found = found[:-1] + f"; down to position {best.usable_to}, to within {USABLE:.0%}."
        advice = f"Cut the pages below position {best.usable_to}" if best.usable_to else "Collect more pages"
        advice += ", or use a smooth curve: inverse propensity weights would be mostly noise."
        yield Finding("precision", Severity.warning, found, advice)


def judge_shape(facts: Facts, language: Language) -> Iterator[Finding]:
    """Rates that rise with the position, beyond chance."""
    from scipy.stats import norm

    del language
    rising = []
    limit = float(norm.isf(_RISE_P / max(len(facts.curve) - 1, 1)))
    for one, two in zip(facts.curve, facts.curve[1:], strict=False):
        noise = math.hypot(one.error, two.error)
        if noise and two.rate - one.rate > limit * noise:
            rising.append(two.position)
    if rising and facts.order.looks == "random":
        yield Finding(
            "shape",
            Severity.note,
            f"Users click position {', '.join(map(str, rising[:3]))} more often than the one above, beyond chance, "
            "although the order is random.",
            "Do not assume a falling curve such as a power law; estimate a value for each position.",
        )
    elif rising:
        yield Finding(
            "shape",
            Severity.note,
            f"The click-through rate rises at position {', '.join(map(str, rising[:3]))}, beyond chance.",
            "Look at what is shown there; a falling curve such as a power law may be wrong.",
        )
