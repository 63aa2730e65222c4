"""The verdict: for each topic a rule says what the facts show, how bad that is, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from cldrank.auditing.facts import MOST_SURFACES, AuditFacts, Finding, Verdict
from cldrank.documents import Severity
from cldrank.propensity import estimators
from cldrank.propensity.identifiability import USABLE, Requirement
from cldrank.wording import count, some

_ONLY_CLICKS = 0.99
_FEW_PAGES, _FEW_CLICKS = 100, 1_000
_MANY_REJECTED, _MOST_REJECTED = 0.05, 0.25
_ODD_PAGES = 0.01
_BOTS = 0.05
_UNCLICKED, _NEARLY_ALL = 0.5, 0.9
_DRIFT, _SLIGHT_DRIFT, _DRIFT_P = 0.1, 0.05, 1e-3
_SLIGHT_CHANGE = 0.1  # of examination after a click
_PRECISE = 0.1  # an interval of ± this much, relative to the propensity, leaves nothing to be desired
_ESTIMATE = "`cldrank propensity estimate"
_UNKNOWN = "Propensities of all positions cannot be estimated by comparing them: assume a curve, or model relevance."
_FROM_BAD_TO_MILD: tuple[Severity, ...] = ("blocking", "warning", "note", "ok")

_REJECT_ADVICE = {
    "no day": "Find out where times are missing.",
    "null key": "Repair the logging of keys, or accept the loss; `cldrank clicks aggregate` lists the rows.",
    "not a number": "Find out where they come from.",
    "unequal lists": "Lists of results and of their clicks must match; find out which of them is cut.",
    "position below 1": "Positions count from 1, at the top; read what counts from 0 with `first_position=0`.",
    "click never shown": "Clicks and displays were joined wrongly, or clicks come from elsewhere; check the join.",
    "repeated row": "Find out why, perhaps a retried export; each counts once. Without a timestamp, a page shown "
    "twice looks the same.",
    "second view": "If pages were viewed again, log a session_id per page, such as the session and the time. If "
    "a click has a row of its own, nothing is lost: the impression counts once, as clicked.",
    "document twice": "A page shows a document twice, or several searches share a session_id; give each page its own.",
    "unknown query": "The features lack queries that the log has; give those of the same time and market.",
    "unknown document": "The features lack candidates that were shown; give the candidates of the logged ranker.",
}


def judge(facts: AuditFacts) -> Verdict:
    """The verdict on the facts of a log."""
    unmatched = facts.account is not None and bool(facts.account.mismatch)
    rules = (_unmatched_ids, _rows, _layout) if unmatched else _RULES  # else most would judge an empty table
    findings = [finding for rule in rules for finding in rule(facts)]
    findings.sort(key=lambda finding: _FROM_BAD_TO_MILD.index(finding.severity))
    worst, best = findings[0].severity, facts.chosen
    topics = dict.fromkeys(finding.topic for finding in findings if finding.severity == worst)
    estimable = f"Propensities can be estimated by {best.estimator}{_to_within(best)}." if best else _UNKNOWN
    sentence = {
        "blocking": f"Do not train on this log as it is. {findings[0].found}",
        "warning": f"Usable with care: see {', '.join(topics)}. {estimable}",
    }.get(worst, f"Fit for training. {estimable}")
    return Verdict(worst, sentence, tuple(findings))


def _unmatched_ids(facts: AuditFacts) -> Iterator[Finding]:
    if facts.account is not None:
        advice = "Write ids alike in both (case, spaces, prefixes), or give the features of what was logged."
        yield Finding("ids", "blocking", _sentence(facts.account.mismatch), advice)


def _clicks(facts: AuditFacts) -> Iterator[Finding]:
    if not facts.impressions:
        if facts.account is None or not facts.account.rejected:  # else the finding on rows says why
            yield Finding("clicks", "blocking", "The log shows nothing at all.", "Check that it is the right file.")
        return
    clicks, shown = count(facts.clicks, "click"), count(facts.impressions, "impression")
    severity: Severity = "blocking"
    if not facts.clicks:
        advice = "Check which column holds the clicks; without clicks there is nothing to learn from."
    elif facts.rate > _ONLY_CLICKS:
        advice = "It seems to hold only what was clicked; log everything that was displayed, clicked or not."
    elif facts.clicks < _FEW_CLICKS:
        severity, advice = "warning", "Collect more: differences between candidates will be noise."
    else:
        severity, advice = "ok", ""
    yield Finding("clicks", severity, f"{clicks} in {shown}, a click-through rate of {facts.rate:.2%}.", advice)
    if facts.pages < _FEW_PAGES:
        sentence = f"{count(facts.pages, 'page')} with {clicks} are too few to learn anything from."
        advice = f"Collect at least some thousand pages; below {_FEW_PAGES}, whatever is trained is noise."
        yield Finding("size", "blocking", sentence, advice)


def _rows(facts: AuditFacts) -> Iterator[Finding]:
    account = facts.account
    if account is None:
        return
    if account.wrong_start:
        yield Finding("first position", "blocking", _sentence(account.wrong_start.found), account.wrong_start.advice)
    if account.found:
        unread = account.unread_times
        severity: Severity = "warning" if unread > _MANY_REJECTED * account.rows else "note" if unread else "ok"
        advice = "Check which column holds the timestamp, and how it is written." if unread else ""
        yield Finding("reading", severity, f"Found in the log: {'; '.join(account.found)}.", advice)
    if not account.n_rejected:
        yield Finding("rows", "ok", f"{_all_of(account.rows, 'row')} of the log could be counted.")
        return
    worst, share = max(account.rejected, key=lambda reason: account.rejected[reason]), account.share_rejected
    rows = f"{account.n_rejected:,} of {account.rows:,} rows ({share:.2%})"
    if account.n_rejected == account.rows:
        rows = _all_of(account.rows, "row")
    if worst == "click never shown" and "position below 1" in account.rejected:
        worst = "position below 1"  # the clicked ones of the same rows
    number = account.rejected[worst]
    most = "" if number == account.n_rejected else f", most ({number:,}) because"
    severity = "blocking" if share > _MOST_REJECTED else "warning" if share > _MANY_REJECTED else "note"
    sentence = f"{rows} had to be set aside{most}: {account.why(worst)}."
    yield Finding("rows", severity, sentence, _REJECT_ADVICE.get(worst, ""))


def _layout(facts: AuditFacts) -> Iterator[Finding]:
    log = facts.log
    if log is None or not log.pages:
        return
    gaps = "Find out what was shown there (advertisements, say); positions must count all that users see."
    shared = (
        "Number results that stand side by side in reading order; if second pages count from 1 again, continue the "
        "count; if sessions were mixed up, separate them."
    )
    late = "Fine for second pages and scrolling; otherwise results at the top were not logged."
    for topic, number, fault, advice in (
        ("gaps", log.gaps, "leave out positions between their first and last", gaps),
        ("shared positions", log.shared, "show two documents at one position", shared),
        ("first position", log.late, "begin below position 1", late),
    ):
        if number:
            severe = number > _ODD_PAGES * log.pages and topic != "first position"
            sentence = f"{number:,} of {log.pages:,} pages ({number / log.pages:.2%}) {fault}."
            yield Finding(topic, "warning" if severe else "note", sentence, advice)
    if not (log.gaps or log.shared or log.late):
        shows = f"{_all_of(log.pages, 'page')} show{'s' * (log.pages == 1)}"
        yield Finding("positions", "ok", f"{shows} positions 1, 2, 3, … without gaps, each with a single document.")


def _surfaces(facts: AuditFacts) -> Iterator[Finding]:
    if facts.log is None or facts.log.surfaces is None or len(facts.log.surfaces) < 2:
        return
    surfaces, column = facts.log.surfaces, shlex.quote(facts.log.columns.get("surface", "surface"))
    depths = some((f"{group.name}: {group.depth}" for group in surfaces), most=4)
    number = f"{len(surfaces)}{' or more' if len(surfaces) == MOST_SURFACES else ''}"
    command = f"`cldrank clicks aggregate --log-column segment={column}`"
    advice = f"Each is examined in its own way: aggregate by them ({command}), for a curve each."
    yield Finding("surfaces", "note", f"{number} surfaces with their own depth ({depths}).", advice)


def _candidates(facts: AuditFacts) -> Iterator[Finding]:
    queries = facts.queries
    if not queries.searched:
        return
    if queries.never_shown is None or queries.candidates is None:
        sentence = f"How many candidates were never shown is unknown; {queries.shown:,} were."
        advice = "Give the candidates with `dataset`, to see how many were never shown."
        yield Finding("selection", "note", sentence, advice)
    elif queries.never_shown:
        share = queries.never_shown / queries.candidates
        candidates = f"{queries.never_shown:,} of {queries.candidates:,} candidates ({share:.1%})"
        advice = "This is selection bias: prefer a method that models selection, such as CLD."
        yield Finding("selection", "note", f"{candidates} of the queries searched for were never shown.", advice)
    else:
        were = f"{_all_of(queries.candidates, 'candidate')} {'was' if queries.candidates == 1 else 'were'} shown"
        sentence = f"{were} at least once. Do the features leave out candidates that were never shown?"
        advice = "If so, add them: without them selection bias can be neither seen nor corrected."
        yield Finding("selection", "warning", sentence, advice)


def _features(facts: AuditFacts) -> Iterator[Finding]:
    missing, features = facts.incomplete or (0, 0)
    if missing:
        sentence = f"{missing:,} of {count(features, 'feature')} {'has' if missing == 1 else 'have'} missing values."
        advice = "Train trees with `missing=keep`, or fill them in with `missing=0`."
        yield Finding("features", "note", sentence, advice)


def _queries(facts: AuditFacts) -> Iterator[Finding]:
    queries = facts.queries
    if not queries.searched:
        return
    share, idle = queries.unclicked / queries.searched, queries.queries - queries.searched
    sentence = f"{queries.unclicked:,} of {queries.searched:,} queries ({share:.1%}) have no click."
    if idle:
        sentence += f" {idle:,} of {queries.queries:,} queries of the features were never searched for."
    severity: Severity = "warning" if share > _NEARLY_ALL else "note" if share > _UNCLICKED else "ok"
    advice = "Most teach nothing on their own; use a model that shares features between queries, or more data."
    yield Finding("queries", severity, sentence, "" if severity == "ok" else advice)


def _to_within(need: Requirement) -> str:
    return "" if need.within is None else f" to within {need.within:.1%}"


def _named(need: Requirement) -> str:
    return f"{need.estimator} ({_ESTIMATE} --method {need.estimator}`)"


def _upper(depth: int) -> str:
    return f"Estimate the first {depth} positions alone ({_ESTIMATE} --depth {depth}`)"


def _propensities(facts: AuditFacts) -> Iterator[Finding]:
    if not facts.by_position:
        return
    if len(facts.by_position) == 1:
        sentence = f"Everything was shown at position {facts.by_position[0].position}."
        advice = "There is no position bias to correct, or the log lacks positions; check which column holds them."
        yield Finding("propensities", "warning", sentence, advice)
        return
    best, overlap = facts.chosen, facts.overlap
    share = overlap.impressions / max(facts.impressions, 1)
    candidates = f"{overlap.moving:,} of {overlap.candidates:,} candidates, with {share:.1%} of the impressions"
    moving = f"{candidates}, were shown at several positions"
    if best is None:
        yield _not_compared(facts, moving)
    else:
        assumed = estimators()[best.estimator].assumes
        advice = f"Estimate them with {_named(best)}{f', if {assumed}' if assumed else ''}."
        yield Finding("propensities", "ok", f"{moving}; {best.reason}.", advice)
    logged = next((need for need in facts.requirements if need.estimator == "logged"), None)
    if logged is not None and facts.log is not None and "propensity" in facts.log.columns:
        can = f"{'and' if logged.met else 'but'} the estimator `logged` {'can' if logged.met else 'cannot'} use it"
        advice = f"Use it with {_named(logged)}, if it is the probability of being shown at that position."
        sentence = f"The log has a column of propensities, {can}: {logged.reason}."
        yield Finding("propensities", "note", sentence, advice if logged.met else "")


def _not_compared(facts: AuditFacts, moving: str) -> Finding:
    overlap, queries = facts.overlap, facts.queries
    met = [need for need in facts.requirements if need.met]
    bounds = [f"Find a lower bound with {_named(need)}. " for need in met if estimators()[need.estimator].bound]
    modelled = [f", with {_named(need)}" for need in met if estimators()[need.estimator].needs == "features"]
    model = f"{''.join(bounds)}Model relevance from features as well{''.join(modelled[:1])}"
    advice = f"{model}, or assume a known curve; or randomise a few pages and log again."
    if overlap.moving:
        reason = next(need.reason for need in facts.requirements if need.estimator == "all-pairs")
        depth = max((need.usable_to or 0 for need in facts.requirements if not need.met), default=0)
        if depth > 1:
            advice = f"{_upper(depth)}, to within {USABLE:.0%}. Or: {advice}"
        sentence = f"{moving}; but {reason}."
    elif queries.searched > 1 and queries.most_pages == 1:
        sentence = (
            f"Each of the {queries.searched:,} queries was searched once, so none of its candidates could move: "
            "comparing cannot separate position from relevance, and a random order would not show."
        )
        advice = (
            "If the same documents are shown to many queries, wherever the query puts them, audit and estimate with "
            "`one_query=True`. Otherwise model relevance from features as well, or assume a known curve."
        )
    else:
        sentence = (
            f"Each of the {overlap.candidates:,} candidates was shown at one position only, as by a ranker that never "
            "changes: comparing cannot separate position from relevance."
        )
    return Finding("propensities", "warning", sentence, advice)


def _precision(facts: AuditFacts) -> Iterator[Finding]:
    best = facts.chosen
    if best is None or best.within is None:
        return
    sentence = f"With {best.estimator}, the propensity of every position can be estimated{_to_within(best)}"
    severity: Severity = "ok" if best.within <= _PRECISE else "note" if best.within <= USABLE else "warning"
    advice = {"ok": "", "note": "Enough to train with; more pages would help."}.get(severity)
    if advice is None:
        cut = _upper(best.usable_to) + f", to within {USABLE:.0%}" if best.usable_to else "Collect more pages"
        advice = f"{cut}: inverse propensity weights would be mostly noise."
    yield Finding("precision", severity, f"{sentence}, at 90% confidence.", advice)


def _behaviour(facts: AuditFacts) -> Iterator[Finding]:
    seen = facts.behaviour
    if len(facts.by_position) < 2:
        return
    if seen.overall is None:
        advice = "Audit the raw log, or collect more clicks." if facts.log is None else ""
        yield Finding("behaviour", "note", _sentence(str(seen)), advice)
        return
    severity: Severity = "note" if seen.refuted else "ok"
    if seen.refuted and seen.overall.ratio < 1 - _SLIGHT_CHANGE:
        severity = "warning"
    yield Finding("behaviour", severity, _sentence(str(seen)), _sentence(seen.consequence) if seen.refuted else "")


def _bots(facts: AuditFacts) -> Iterator[Finding]:
    bots = None if facts.log is None else facts.log.bots
    if bots is None or not bots.users:
        return
    users = f"{bots.users:,} {bots.kind}s"
    if not bots.suspicious:
        yield Finding("bots", "ok", f"None of {users} behaves very differently from the rest.")
        return
    shown, clicked = bots.impressions / max(facts.impressions, 1), bots.clicks / max(facts.clicks, 1)
    reasons = ", ".join(f"{number:,} with {reason}" for reason, number in bots.reasons.items())
    yield Finding(
        "bots",
        "warning" if max(shown, clicked) > _BOTS else "note",
        f"{bots.suspicious:,} of {users} behaved unlike people ({reasons}); "
        f"they made {shown:.1%} of the impressions and {clicked:.1%} of the clicks.",
        f"Look at those {bots.kind}s; leave them out with `exclude_bots=True`, or name them in `exclude_users`.",
    )


def _broken_days(facts: AuditFacts) -> Iterator[Finding]:
    if facts.log is not None and facts.log.drift is not None and facts.log.drift.broken_days:
        advice = "Look for a broken export; read the log again when it is mended, or leave the day out."
        days = some(map(str, facts.log.drift.broken_days), most=3)
        yield Finding("broken days", "blocking", _sentence(days), advice)


def _drift(facts: AuditFacts) -> Iterator[Finding]:
    if facts.log is None:
        return
    drift = facts.log.drift
    if drift is None and "timestamp" in facts.log.columns and facts.impressions:
        sentence = "Drift over time is unknown: no value of the timestamp column can be read as a time."
        yield Finding("drift", "warning", sentence, "Write times as 2024-03-30T00:00:00+01:00, or as numbers.")
        return
    if drift is None:
        sentence = "Drift over time is unknown: the log has no timestamp."
        yield Finding("drift", "note", sentence, 'Map a timestamp column with `columns={"timestamp": NAME}`.')
        return
    change, time = drift.top_rate, f"between {drift.first} and {drift.last}"
    if change is None:
        yield Finding("drift", "note", f"Too few clicks or days {time} to see whether clicking changed.")
    elif change.p_value >= _DRIFT_P or change.spread <= _SLIGHT_DRIFT:
        yield Finding("drift", "ok", f"Clicking did not change noticeably {time}.")
    else:
        severe, spread = change.spread > _DRIFT, f"±{change.spread:.0%} from day to day, beyond chance (p < {_DRIFT_P})"
        advice = "Find out what changed, and train on the time since, or on each part separately."
        sentence = f"The click-through rate at position 1 varies {time} by {spread}."
        yield Finding("drift", "warning" if severe else "note", sentence, advice if severe else "Keep an eye on it.")


def _all_of(number: int, word: str) -> str:
    """All of something, at the beginning of a sentence: the only page, both pages, all 3 pages."""
    return {1: f"The only {word}", 2: f"Both {word}s"}.get(number, f"All {number:,} {word}s")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


_RULES = (
    _clicks,
    _rows,
    _layout,
    _surfaces,
    _candidates,
    _features,
    _queries,
    _propensities,
    _precision,
    _behaviour,
    _bots,
    _broken_days,
    _drift,
)
