"""The judgement: one rule a topic says what was found, how bad it is, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scipy.stats import norm

from cldrank.clicks.aggregate import REASONS
from cldrank.clicks.audit.methods import USABLE, Method
from cldrank.clicks.audit.verdict import NOTHING_TO_DO, Finding, Severity, Verdict

if TYPE_CHECKING:
    from cldrank.clicks.audit.report import Facts

_ONLY_CLICKS = 0.99
_FEW_CLICKS = 1_000
_FEW_AT_POSITION = 30
_MANY_REJECTED, _MOST_REJECTED = 0.05, 0.25
_ODD_PAGES = 0.01
_BOTS = 0.05
_UNCLICKED = 0.5
_DRIFT, _SLIGHT_DRIFT, _DRIFT_P = 0.1, 0.05, 1e-3
_PRECISE = 0.1  # an interval of ± so much, relative to the propensity, leaves nothing to wish for
_RISE_P = 0.01  # for any one position to rise by chance
_RANK = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def judge(facts: Facts) -> Verdict:
    """Judge what was found."""
    rules = (_clicks, _rejects, _layout, _candidates, _queries, _propensities, _precision, _shape, _actors, _drift)
    findings = [finding for rule in rules for finding in rule(facts)]
    findings.sort(key=lambda finding: _RANK[finding.severity])
    worst = findings[0].severity
    topics = dict.fromkeys(finding.topic for finding in findings if finding.severity == worst)
    best = best_method(facts)
    propensities = (
        f"Propensities can be estimated by {best.name}{_to_within(best)}."
        if best
        else "Propensities of all positions cannot be estimated by comparing them: assume a curve, or model relevance."
    )
    match worst:
        case Severity.blocking:
            sentence = f"Do not train on this log as it is. {findings[0].found}"
        case Severity.warning:
            sentence = f"Usable with care: see {', '.join(topics)}. {propensities}"
        case _:
            sentence = f"Fit for training. {propensities}"
    return Verdict(worst, sentence, tuple(findings))


def best_method(facts: Facts) -> Method | None:
    """The method that `cldrank propensity estimate` chooses, or else the most precise that compares positions."""
    compared = [method for method in facts.methods if method.possible and method.error is not None]
    if compared and compared[0].name in ("Randomised", "AllPairs"):
        return compared[0]
    return min(compared, key=lambda method: method.error or 0.0, default=None)


def _clicks(facts: Facts) -> Iterator[Finding]:
    impressions, clicks = facts.impressions, facts.clicks
    if not impressions:
        yield Finding("clicks", Severity.blocking, "The log shows nothing at all.", "Check that it is the right file.")
        return
    told = f"{clicks:,} clicks in {impressions:,} impressions, a click-through rate of {facts.rate:.2%}."
    if not clicks:
        advice = "Check which column holds the clicks; without any there is nothing to learn from."
        yield Finding("clicks", Severity.blocking, told, advice)
    elif facts.rate > _ONLY_CLICKS:
        advice = "It seems to hold only what was clicked; log everything that was displayed, clicked or not."
        yield Finding("clicks", Severity.blocking, told, advice)
    elif clicks < _FEW_CLICKS:
        yield Finding("clicks", Severity.warning, told, "Collect more: differences between candidates will be noise.")
    else:
        yield Finding("clicks", Severity.ok, told, NOTHING_TO_DO)


def _rejects(facts: Facts) -> Iterator[Finding]:
    if facts.rejects is None:
        return
    report = facts.rejects
    if report.wrong_start:
        told, _, advice = report.wrong_start.partition(". ")
        yield Finding("first position", Severity.blocking, f"{told[0].upper()}{told[1:]}.", advice)
    if not report.n_rejected:
        yield Finding("rows", Severity.ok, f"All {report.rows:,} rows of the log could be counted.", NOTHING_TO_DO)
        return
    worst = max(report.rejected, key=lambda reason: report.rejected[reason])
    told = (
        f"{report.n_rejected:,} of {report.rows:,} rows ({report.share_rejected:.2%}) had to be set aside, most "
        f"({report.rejected[worst]:,}) because: {REASONS[worst]}."
    )
    if worst == "click never shown" and "position below 1" in report.rejected:
        worst = "position below 1"  # the clicked ones of the same rows
    share = report.share_rejected
    severity = (
        Severity.blocking if share > _MOST_REJECTED else Severity.warning if share > _MANY_REJECTED else Severity.note
    )
    yield Finding("rows", severity, told, _REJECT_ADVICE.get(worst, "Find out where they come from."))
    views = report.rejected.get("second view", 0)
    if views:
        yield Finding(
            "views",
            Severity.warning if views > _ODD_PAGES * report.rows else Severity.note,
            f"{views:,} of {report.rows:,} rows ({views / report.rows:.2%}) show a session the same result of the same "
            "query again, at another time or with other clicks; they were set aside.",
            "If pages were viewed again, count each view: --by-time, or a session_id for each page. If the log has a "
            "row of its own for a click, nothing is lost: the impression counts once, as clicked.",
        )


_REJECT_ADVICE = {
    "null key": "Repair the logging of keys, or accept the loss; `cldrank clicks aggregate` lists the rows.",
    "position below 1": "If part of the log counts positions from 0, read that part with --first-position 0.",
    "click never shown": "Clicks and displays were joined wrongly, or clicks come from elsewhere; check the join.",
    "repeated row": "Find out why the log holds rows twice, perhaps a retried export; one of each is counted. Without "
    "a timestamp, a page that was shown twice looks the same.",
    "second view": "See under views.",
    "document twice": "A page shows a document twice, or several searches share one session_id; make it one per page.",
    "unknown query": "The features lack queries that the log has; give those of the same time and market.",
    "unknown document": "The features lack candidates that were shown; give the candidates of the logged ranker.",
}


def _layout(facts: Facts) -> Iterator[Finding]:
    if facts.log is None or not facts.log.pages.pages:
        return
    pages = facts.log.pages
    if pages.gaps:
        yield Finding(
            "gaps",
            Severity.warning if pages.gaps > _ODD_PAGES * pages.pages else Severity.note,
            f"{pages.gaps:,} of {pages.pages:,} pages ({pages.gaps / pages.pages:.2%}) leave out positions between "
            "their first and last.",
            "Find out what stood there (advertisements, results not logged); positions must count all that users see.",
        )
    if pages.shared:
        yield Finding(
            "shared positions",
            Severity.warning if pages.shared > _ODD_PAGES * pages.pages else Severity.note,
            f"{pages.shared:,} of {pages.pages:,} pages ({pages.shared / pages.pages:.2%}) show two documents at one "
            "position.",
            "If results stand side by side, number them in reading order; if second pages count from 1 again, go on "
            "counting; if sessions were mixed up, tell them apart.",
        )
    if pages.late:
        yield Finding(
            "first position",
            Severity.note,
            f"{pages.late:,} of {pages.pages:,} pages ({pages.late / pages.pages:.2%}) begin below position 1.",
            "Fine for second pages and scrolling; otherwise results at the top were not logged.",
        )
    if not (pages.gaps or pages.shared or pages.late):
        told = f"All {pages.pages:,} pages show positions 1, 2, 3, … without gaps, one document each."
        yield Finding("positions", Severity.ok, told, NOTHING_TO_DO)
    surfaces = facts.log.surfaces
    if surfaces and len(surfaces) > 1:
        depths = ", ".join(f"{group.name}: {group.depth}" for group in surfaces[:4])
        yield Finding(
            "surfaces",
            Severity.note,
            f"{len(surfaces)}{' or more' if len(surfaces) == 20 else ''} surfaces with their own depth ({depths}"
            f"{', …' if len(surfaces) > 4 else ''}).",
            "Examination differs between surfaces: estimate propensities for each one alone.",
        )


def _candidates(facts: Facts) -> Iterator[Finding]:
    queries = facts.queries
    if queries.never_shown is None or queries.candidates is None:
        yield Finding(
            "selection",
            Severity.note,
            f"How many candidates were never shown is unknown; {queries.shown:,} were.",
            "Give the candidates with --features, to see how much the cutoff hides.",
        )
        return
    share = queries.never_shown / max(queries.candidates, 1)
    told = (
        f"{queries.never_shown:,} of {queries.candidates:,} candidates ({share:.1%}) of the queries searched for were "
        "never shown."
    )
    if queries.never_shown:
        advice = "This is selection bias: prefer methods that correct it, such as CLD, CLDPair or HeckmanRank."
        yield Finding("selection", Severity.note, told, advice)
    else:
        yield Finding(
            "selection",
            Severity.warning,
            f"All {queries.candidates:,} candidates of the queries searched for were shown at least once. Do the "
            "features leave out candidates that were never shown?",
            "If so, add them: without them selection bias cannot be seen, let alone corrected. If not, correcting "
            "positions is enough.",
        )


def _queries(facts: Facts) -> Iterator[Finding]:
    queries = facts.queries
    if not queries.searched:
        return
    share = queries.unclicked / queries.searched
    usual = f"{queries.sessions['median']:,.0f} pages and {queries.clicks['median']:,.0f} clicks"
    told = (
        f"The only query has {usual}."
        if queries.searched == 1
        else f"{queries.unclicked:,} of {queries.searched:,} queries ({share:.1%}) have no click; "
        f"the median query has {usual}."
    )
    if share > _UNCLICKED:
        advice = (
            "Most queries teach nothing alone; a model that shares features between queries is needed, or more data."
        )
        yield Finding("queries", Severity.warning if share > 0.9 else Severity.note, told, advice)
    else:
        yield Finding("queries", Severity.ok, told, NOTHING_TO_DO)
    if queries.queries > queries.searched:
        idle = queries.queries - queries.searched
        yield Finding(
            "unsearched queries",
            Severity.note,
            f"{idle:,} of {queries.queries:,} queries of the features were never searched for.",
            "They cannot be learned from; check that log and features are of the same time if there are many.",
        )


def _propensities(facts: Facts) -> Iterator[Finding]:
    if len(facts.curve) < 2:
        if facts.curve:
            yield Finding(
                "propensities",
                Severity.warning,
                f"Everything was shown at position {facts.curve[0].position}.",
                "There is no position bias to correct, or the log does not tell positions; check which column does.",
            )
        return
    overlap, best = facts.overlap, best_method(facts)
    share = overlap.impressions / max(facts.impressions, 1)
    if best is not None and best.name == "Randomised":
        yield Finding(
            "propensities",
            Severity.ok,
            f"The display order looks random (strength {facts.order.strength:.3f}, where 0 is random and 1 is fixed), "
            "so click-through rates by position are the propensities, up to a factor.",
            "Estimate them with `Randomised`: `cldrank propensity estimate` does.",
        )
    elif best is not None:
        yield Finding(
            "propensities",
            Severity.ok,
            f"{overlap.moving:,} of {overlap.candidates:,} candidates, with {share:.1%} of the impressions, were shown "
            "at several positions, and they connect all positions.",
            f"Harvest them with `{best.name}` (`cldrank propensity estimate`); check that, of the same candidate, the "
            "position did not depend on relevance.",
        )
    elif overlap.moving:
        sets = len(overlap.components)
        parts = (
            f"positions fall into {sets} sets that cannot be compared"
            if sets > 1
            else "too few of them were clicked to compare all positions"
        )
        yield Finding(
            "propensities",
            Severity.warning,
            f"Only {overlap.moving:,} of {overlap.candidates:,} candidates ({share:.1%} of impressions) were shown at "
            f"several positions, and {parts}.",
            _first_positions(facts)
            + "Model relevance as well (`RegressionEM`, `DualLearning`), or take a known curve; or "
            "randomise a small share of pages and log again.",
        )
    else:
        yield Finding(
            "propensities",
            Severity.warning,
            f"Each of the {overlap.candidates:,} candidates was shown at one position only, as a ranker that never "
            "changes does: position and relevance cannot be told apart by comparing.",
            "Model relevance as well (`RegressionEM`, `DualLearning`), or take a known curve; or swap results on a "
            "few pages and log again.",
        )
    if facts.log is not None and facts.log.propensity:
        told = "The log has a column of propensities of its own."
        yield Finding(
            "propensities",
            Severity.note,
            told,
            "`Logged` uses it, if it is the probability of being shown at that position, and no result had none.",
        )


def _precision(facts: Facts) -> Iterator[Finding]:
    thin = [entry.position for entry in facts.curve if entry.clicks < _FEW_AT_POSITION]
    if thin and facts.clicks:
        yield Finding(
            "thin positions",
            Severity.note,
            f"{len(thin)} of {len(facts.curve)} positions have fewer than {_FEW_AT_POSITION} clicks, the first of them "
            f"position {thin[0]}.",
            f"Cut the pages above position {thin[0]}, or pool the positions below.",
        )
    best = best_method(facts)
    if best is None or best.within is None:
        return
    told = (
        f"With `{best.name}`, the propensity of every position can be estimated{_to_within(best)}, at 90% confidence."
    )
    if best.within <= _PRECISE:
        yield Finding("precision", Severity.ok, told, NOTHING_TO_DO)
    elif best.within <= USABLE:
        advice = "Enough to train with; more pages, or a smoothed curve, make it better."
        yield Finding("precision", Severity.note, told, advice)
    else:
        if best.usable_to:
            told = told[:-1] + f"; down to position {best.usable_to}, to within {USABLE:.0%}."
        advice = f"Cut the pages below position {best.usable_to}" if best.usable_to else "Collect more pages"
        advice += ", or take a smooth curve: inverse weights would be mostly noise."
        yield Finding("precision", Severity.warning, told, advice)


def _first_positions(facts: Facts) -> str:
    """The advice to estimate the upper positions alone, where that is possible."""
    depth = max((method.usable_to or 0 for method in facts.methods if not method.possible), default=0)
    if depth < 2:
        return ""
    return f"Estimate the first {depth} positions alone (--depth {depth}), to within {USABLE:.0%}. Or: "


def _shape(facts: Facts) -> Iterator[Finding]:
    """Rates that rise with the position, beyond chance."""
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
            "See what stands there; a falling curve such as a power law may be wrong.",
        )


def _actors(facts: Facts) -> Iterator[Finding]:
    if facts.log is None:
        return
    actors = facts.log.actors
    kind = f"{actors.kind}s"
    if not actors.suspicious:
        told = f"None of {actors.actors:,} {kind} behaves far outside of the rest."
        yield Finding("bots", Severity.ok, told, NOTHING_TO_DO)
        return
    shown, clicked = actors.impressions / max(facts.impressions, 1), actors.clicks / max(facts.clicks, 1)
    ways = [
        f"{actors.many_pages:,} with more than {actors.page_limit:,} pages" if actors.many_pages else "",
        f"{actors.all_clicked:,} that clicked everything" if actors.all_clicked else "",
        f"{actors.high_rate:,} with a click rate above {actors.rate_limit:.0%}"
        if actors.high_rate and actors.rate_limit is not None
        else "",
    ]
    yield Finding(
        "bots",
        Severity.warning if max(shown, clicked) > _BOTS else Severity.note,
        f"{actors.suspicious:,} of {actors.actors:,} {kind} behaved unlike people ({', '.join(filter(None, ways))}); "
        f"they made {shown:.1%} of the impressions and {clicked:.1%} of the clicks.",
        f"Look at those {kind}, and leave them out of the log if they are bots or careless.",
    )


def _drift(facts: Facts) -> Iterator[Finding]:
    if facts.log is None:
        return
    drift = facts.log.drift
    if drift is None:
        if facts.log.has_times and facts.impressions:
            told = "Drift over time is unknown: no value of the timestamp column can be read as a time."
            yield Finding("drift", Severity.warning, told, "Write times as 2024-03-30T00:00:00+01:00, or as numbers.")
            return
        told = "Drift over time is unknown: the log has no timestamp."
        yield Finding("drift", Severity.note, told, "Map a timestamp column with --column timestamp=NAME.")
        return
    changes = {"click-through rate at position 1": drift.top_rate, "number of clicks per page": drift.page_clicks}
    known = {name: change for name, change in changes.items() if change is not None}
    real = {name: change for name, change in known.items() if change.p_value < _DRIFT_P}
    if not known:
        told = f"Too few clicks between {drift.first} and {drift.last} to tell whether clicking changed."
        yield Finding("drift", Severity.note, told, NOTHING_TO_DO)
    elif real and max(change.spread for change in real.values()) > _SLIGHT_DRIFT:
        name = max(real, key=lambda key: real[key].spread)
        severe = real[name].spread > _DRIFT
        yield Finding(
            "drift",
            Severity.warning if severe else Severity.note,
            f"From {drift.first} to {drift.last} the {name} varies by ±{real[name].spread:.0%} between slices, beyond "
            f"chance ({real[name].told_p}).",
            "Find out what changed, and train on the time since, or on each part alone."
            if severe
            else "Keep an eye on it.",
        )
    else:
        told = f"Clicking did not change noticeably between {drift.first} and {drift.last}."
        yield Finding("drift", Severity.ok, told, NOTHING_TO_DO)
    if drift.silent:
        slices = len(drift.slices) + drift.silent
        told = f"{drift.silent} of {slices} slices of time have no pages."
        yield Finding(
            "silence", Severity.note, told, "Check whether parts of the log are missing, or timestamps wrong."
        )


def _to_within(method: Method) -> str:
    return "" if method.within is None else f" to within {method.within:.1%}"
