"""The verdict: one rule per topic says what was found, how bad it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cldrank.clicks.aggregate import REASONS
from cldrank.clicks.audit.propensity_rules import best_way, judge_precision, judge_propensities, judge_shape, to_within
from cldrank.clicks.audit.verdict import NOTHING_TO_DO, Finding, Severity, Verdict
from cldrank.clicks.log.layout import mapping
from cldrank.errors import Language, Spelling, setting, worded
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.audit.facts import Facts

_ONLY_CLICKS = 0.99
_FEW_CLICKS = 1_000
_MANY_REJECTED, _MOST_REJECTED = 0.05, 0.25
_ODD_PAGES = 0.01
_BOTS = 0.05
_UNCLICKED = 0.5
_DRIFT, _SLIGHT_DRIFT, _DRIFT_P = 0.1, 0.05, 1e-3
_FROM_0 = setting("first_position", 0)
_GAPS = "Find out what was shown there (advertisements, results not logged); positions must count all that users see."
_SHARED = (
    "If results are shown side by side, number them in reading order; if second pages count from 1 again, continue the "
    "count; if sessions were mixed up, separate them."
)
_LATE = "Fine for second pages and scrolling; otherwise results at the top were not logged."
_RANK = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def judge(facts: Facts, language: Language = "python") -> Verdict:
    """Judge what was found, with advice in the words of Python or of the command line."""
    unknown = facts.rejects is not None and bool(facts.rejects.strangers)
    rules = (_strangers, _rejects, _layout) if unknown else _RULES  # else most would judge the nothing that is left
    findings = [finding for rule in rules for finding in rule(facts, language)]
    findings.sort(key=lambda finding: _RANK[finding.severity])
    worst = findings[0].severity
    topics = dict.fromkeys(finding.topic for finding in findings if finding.severity == worst)
    best = best_way(facts)
    estimable = (
        worded("Propensities can be estimated by {}{}.", (best.spelling, to_within(best)), language)
        if best
        else "Propensities of all positions cannot be estimated by comparing them: assume a curve, or model relevance."
    )
    match worst:
        case Severity.blocking:
            sentence = f"Do not train on this log as it is. {findings[0].found}"
        case Severity.warning:
            sentence = f"Usable with care: see {', '.join(topics)}. {estimable}"
        case _:
            sentence = f"Fit for training. {estimable}"
    return Verdict(worst, sentence, tuple(findings))


def _strangers(facts: Facts, _: Language) -> Iterator[Finding]:
    if facts.rejects is None:
        return
    found = facts.rejects.strangers
    yield Finding(
        "ids",
        Severity.blocking,
        f"{found[0].upper()}{found[1:]}.",
        "Write ids alike in both (case, spaces, prefixes), or give the features of what was logged.",
    )


def _clicks(facts: Facts, _: Language) -> Iterator[Finding]:
    impressions, clicks = facts.impressions, facts.clicks
    if not impressions:
        yield Finding("clicks", Severity.blocking, "The log shows nothing at all.", "Check that it is the right file.")
        return
    found = f"{count(clicks, 'click')} in {count(impressions, 'impression')}, a click-through rate of {facts.rate:.2%}."
    if not clicks:
        advice = "Check which column holds the clicks; without clicks there is nothing to learn from."
        yield Finding("clicks", Severity.blocking, found, advice)
    elif facts.rate > _ONLY_CLICKS:
        advice = "It seems to hold only what was clicked; log everything that was displayed, clicked or not."
        yield Finding("clicks", Severity.blocking, found, advice)
    elif clicks < _FEW_CLICKS:
        yield Finding("clicks", Severity.warning, found, "Collect more: differences between candidates will be noise.")
    else:
        yield Finding("clicks", Severity.ok, found, NOTHING_TO_DO)


def _rejects(facts: Facts, language: Language) -> Iterator[Finding]:
    if facts.rejects is None:
        return
    account = facts.rejects
    if account.wrong_start:
        found = account.wrong_start.found
        advice = account.wrong_start.advice(language)
        yield Finding("first position", Severity.blocking, f"{found[0].upper()}{found[1:]}.", advice)
    if account.found:
        yield Finding("reading", Severity.ok, f"Found in the log: {'; '.join(account.found)}.", NOTHING_TO_DO)
    if not account.n_rejected:
        yield Finding(
            "rows", Severity.ok, f"{_all_of(account.rows, 'row')} of the log could be counted.", NOTHING_TO_DO
        )
        return
    worst = max(account.rejected, key=lambda reason: account.rejected[reason])
    found = (
        f"{account.n_rejected:,} of {account.rows:,} rows ({account.share_rejected:.2%}) had to be set aside, most "
        f"({account.rejected[worst]:,}) because: {REASONS[worst]}."
    )
    if worst == "click never shown" and "position below 1" in account.rejected:
        worst = "position below 1"  # the clicked ones of the same rows
    share = account.share_rejected
    severity = (
        Severity.blocking if share > _MOST_REJECTED else Severity.warning if share > _MANY_REJECTED else Severity.note
    )
    advice, *words = _REJECT_ADVICE[worst]
    yield Finding("rows", severity, found, worded(advice, tuple(words), language))
    views = account.rejected.get("second view", 0)
    if views:
        yield Finding(
            "views",
            Severity.warning if views > _ODD_PAGES * account.rows else Severity.note,
            f"{views:,} of {account.rows:,} rows ({views / account.rows:.2%}) show a session the same result of the "
            "same query again, at another time or with other clicks; they were set aside.",
            worded(
                "If pages were viewed again, count each view with {}, or log a session_id per page. If the log has a "
                "separate row for a click, nothing is lost: the impression counts once, as clicked.",
                (Spelling("by_time=True", "--by-time"),),
                language,
            ),
        )


_REJECT_ADVICE: dict[str, tuple[Any, ...]] = {  # a sentence, and the words in it
    "null key": ("Repair the logging of keys, or accept the loss; `cldrank clicks aggregate` lists the rows.",),
    "not a number": ("Find out where they come from.",),
    "unequal lists": ("Lists of results and of their clicks must match; find out which of them is cut.",),
    "off the page": (
        "Results stand beyond the page size or the columns of the grid that the log is read with; check these.",
    ),
    "position below 1": ("If part of the log counts positions from 0, read that part with {}.", _FROM_0),
    "click never shown": ("Clicks and displays were joined wrongly, or clicks come from elsewhere; check the join.",),
    "repeated row": (
        "Find out why the log has rows twice, perhaps a retried export; one of each is counted. Without a timestamp, a "
        "page that was shown twice looks the same.",
    ),
    "second view": ("See under views.",),
    "document twice": (
        "A page shows a document twice, or several searches share one session_id; make it one per page.",
    ),
    "unknown query": ("The features lack queries that the log has; give those of the same time and market.",),
    "unknown document": ("The features lack candidates that were shown; give the candidates of the logged ranker.",),
}


def _layout(facts: Facts, language: Language) -> Iterator[Finding]:
    if facts.log is None or not facts.log.pages.pages:
        return
    pages = facts.log.pages
    for topic, odd, what, advice in (
        ("gaps", pages.gaps, "leave out positions between their first and last", _GAPS),
        ("shared positions", pages.shared, "show two documents at one position", _SHARED),
        ("first position", pages.late, "begin below position 1", _LATE),
    ):
        if odd:
            severe = odd > _ODD_PAGES * pages.pages and advice != _LATE
            found = f"{odd:,} of {pages.pages:,} pages ({odd / pages.pages:.2%}) {what}."
            yield Finding(topic, Severity.warning if severe else Severity.note, found, advice)
    if not (pages.gaps or pages.shared or pages.late):
        which = _all_of(pages.pages, "page")
        found = f"{which} show{'s' * (pages.pages == 1)} positions 1, 2, 3, … without gaps, one document each."
        yield Finding("positions", Severity.ok, found, NOTHING_TO_DO)
    surfaces = facts.log.surfaces
    if surfaces and len(surfaces) > 1:
        depths = ", ".join(f"{group.name}: {group.depth}" for group in surfaces[:4])
        yield Finding(
            "surfaces",
            Severity.note,
            f"{len(surfaces)}{' or more' if len(surfaces) == 20 else ''} surfaces with their own depth ({depths}"
            f"{', …' if len(surfaces) > 4 else ''}).",
            worded(
                "Examination differs between surfaces: aggregate by them with {}; then each has a curve, and one "
                "ranker learns from all.",
                (Spelling('segment="surface"', "--segment SURFACE"),),
                language,
            ),
        )


def _candidates(facts: Facts, language: Language) -> Iterator[Finding]:
    queries = facts.queries
    if queries.never_shown is None or queries.candidates is None:
        yield Finding(
            "selection",
            Severity.note,
            f"How many candidates were never shown is unknown; {queries.shown:,} were.",
            worded(
                "Give the candidates with {}, to see how many were never shown.",
                (Spelling("dataset=…", "--features FILE"),),
                language,
            ),
        )
        return
    share = queries.never_shown / max(queries.candidates, 1)
    found = (
        f"{queries.never_shown:,} of {queries.candidates:,} candidates ({share:.1%}) of the queries searched for were "
        "never shown."
    )
    were = "was" if queries.candidates == 1 else "were"
    if queries.never_shown:
        advice = "This is selection bias: prefer a method that models selection, such as CLD."
        yield Finding("selection", Severity.note, found, advice)
    else:
        yield Finding(
            "selection",
            Severity.warning,
            f"{_all_of(queries.candidates, 'candidate')} of the queries searched for {were} shown at least once. Do "
            "the features leave out candidates that were never shown?",
            "If so, add them: without them selection bias cannot be seen, let alone corrected. If not, correcting "
            "positions is enough.",
        )


def _queries(facts: Facts, _: Language) -> Iterator[Finding]:
    queries = facts.queries
    if not queries.searched:
        return
    share = queries.unclicked / queries.searched
    pages, clicks = (round(quantiles["median"]) for quantiles in (queries.sessions, queries.clicks))
    usual = f"{count(pages, 'page')} and {count(clicks, 'click')}"
    found = (
        f"The only query has {usual}."
        if queries.searched == 1
        else f"{queries.unclicked:,} of {queries.searched:,} queries ({share:.1%}) have no click; "
        f"the median query has {usual}."
    )
    if share > _UNCLICKED:
        advice = (
            "Most queries teach nothing on their own; use a model that shares features between queries, or more data."
        )
        yield Finding("queries", Severity.warning if share > 0.9 else Severity.note, found, advice)
    else:
        yield Finding("queries", Severity.ok, found, NOTHING_TO_DO)
    if queries.queries > queries.searched:
        idle = queries.queries - queries.searched
        yield Finding(
            "unsearched queries",
            Severity.note,
            f"{idle:,} of {queries.queries:,} queries of the features were never searched for.",
            "Nothing can be learned from them; if there are many, check that log and features are of the same time.",
        )


def _actors(facts: Facts, _: Language) -> Iterator[Finding]:
    if facts.log is None:
        return
    actors = facts.log.actors
    kind = f"{actors.kind}s"
    if not actors.suspicious:
        found = f"None of {actors.actors:,} {kind} behaves very differently from the rest."
        yield Finding("bots", Severity.ok, found, NOTHING_TO_DO)
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
        f"Look at those {kind}, and remove them from the log if they are bots.",
    )


def _drift(facts: Facts, language: Language) -> Iterator[Finding]:
    if facts.log is None:
        return
    drift = facts.log.drift
    if drift is None:
        if facts.log.has_times and facts.impressions:
            found = "Drift over time is unknown: no value of the timestamp column can be read as a time."
            yield Finding("drift", Severity.warning, found, "Write times as 2024-03-30T00:00:00+01:00, or as numbers.")
            return
        found = "Drift over time is unknown: the log has no timestamp."
        advice = worded("Map a timestamp column with {}.", (mapping("timestamp"),), language)
        yield Finding("drift", Severity.note, found, advice)
        return
    changes = {"click-through rate at position 1": drift.top_rate, "number of clicks per page": drift.page_clicks}
    known = {name: change for name, change in changes.items() if change is not None}
    real = {name: change for name, change in known.items() if change.p_value < _DRIFT_P}
    if not known:
        found = f"Too few clicks between {drift.first} and {drift.last} to see whether clicking changed."
        yield Finding("drift", Severity.note, found, NOTHING_TO_DO)
    elif real and max(change.spread for change in real.values()) > _SLIGHT_DRIFT:
        name = max(real, key=lambda key: real[key].spread)
        severe = real[name].spread > _DRIFT
        yield Finding(
            "drift",
            Severity.warning if severe else Severity.note,
            f"From {drift.first} to {drift.last} the {name} varies by ±{real[name].spread:.0%} between slices, beyond "
            f"chance ({real[name].p_text}).",
            "Find out what changed, and train on the time since, or on each part separately."
            if severe
            else "Keep an eye on it.",
        )
    else:
        found = f"Clicking did not change noticeably between {drift.first} and {drift.last}."
        yield Finding("drift", Severity.ok, found, NOTHING_TO_DO)
    if drift.silent:
        slices = len(drift.slices) + drift.silent
        found = f"{drift.silent} of {slices} slices of time have no pages."
        yield Finding(
            "silence", Severity.note, found, "Check whether parts of the log are missing, or timestamps wrong."
        )


def _all_of(number: int, word: str) -> str:
    """All of something, at the beginning of a sentence: the only page, both pages, all 3 pages."""
    return {1: f"The only {word}", 2: f"Both {word}s"}.get(number, f"All {number:,} {word}s")


_RULES = (
    _clicks,
    _rejects,
    _layout,
    _candidates,
    _queries,
    judge_propensities,
    judge_precision,
    judge_shape,
    _actors,
    _drift,
)
