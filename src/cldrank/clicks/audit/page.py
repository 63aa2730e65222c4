"""The audit as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from cldrank._version import __version__
from cldrank.clicks.aggregate import REASONS
from cldrank.clicks.audit.actors import Actors
from cldrank.clicks.audit.charts import Mark, bars, heat, points
from cldrank.clicks.audit.drift import Drift
from cldrank.clicks.audit.facts import Audit, Facts
from cldrank.clicks.audit.log_facts import PageGroup
from cldrank.clicks.audit.verdict import NOTHING_TO_DO, Finding
from cldrank.clicks.audit.ways import PropensityWay
from cldrank.pages.document import document, packaged, tiles
from cldrank.pages.numbers import short

_MOST_POSITIONS = 100  # in charts and tables; JSON has all
_MOST_IN_HEAT = 50


def render(audit: Audit) -> str:
    """The whole page."""
    facts, verdict = audit.facts, audit.verdict
    body = [
        f"<header><h1>Click log audit</h1><p>{_header(facts)}</p></header>",
        f'<section class="verdict {verdict.severity}"><b>Verdict</b>{_marked(verdict.sentence)}</section>',
        _tiles(facts),
        "<section><h2>Findings</h2>",
        f'<ul class="findings">{"".join(map(_finding, verdict.findings))}</ul></section>',
        f"<section><h2>Positions</h2>{_positions(facts)}</section>",
        f"<section><h2>Propensities</h2>{_propensities(facts)}</section>",
        f"<section><h2>Traffic</h2>{_traffic(facts)}</section>",
        f"<footer>Made by cldrank {escape(__version__)}. Intervals cover 95% and take clicks as independent of each "
        "other; where few users click much, they are somewhat wider.</footer>",
    ]
    style = packaged("cldrank.clicks.audit", "page.css")
    return document(f"Click log audit: {facts.source}", body, styles=[style])


def _header(facts: Facts) -> str:
    told = [escape(facts.source)]
    if facts.log is None:
        told.append("cells only: what needs the log itself is unknown")
    elif facts.log.drift is not None:
        told.append(f"{escape(facts.log.drift.first)} to {escape(facts.log.drift.last)} UTC")
    return " · ".join(told)


def _tiles(facts: Facts) -> str:
    values = {
        "impressions": f"{facts.impressions:,}",
        "clicks": f"{facts.clicks:,}",
        "click-through rate": f"{facts.rate:.2%}",
        "queries": f"{facts.queries.searched:,}",
        "candidates shown": f"{facts.queries.shown:,}",
        "depth": f"{facts.depth}",
    }
    if facts.log is not None:
        values = {"pages": f"{facts.log.pages.pages:,}", **values}
    return tiles(values)


def _finding(finding: Finding) -> str:
    advice = "" if finding.advice == NOTHING_TO_DO else f"<p>{_marked(finding.advice)}</p>"
    return (
        f'<li class="{finding.severity}"><span class="chip">{finding.severity}</span>'
        f"<div><h3>{escape(finding.topic)}</h3><p>{_marked(finding.found)}</p>{advice}</div></li>"
    )


# -- sections -----------------------------------------------------------------------------------------------------


def _positions(facts: Facts) -> str:
    shown = facts.curve[:_MOST_POSITIONS]
    rates = [
        Mark(
            str(entry.position),
            entry.rate,
            entry.low,
            entry.high,
            f"position {entry.position}: {entry.rate:.2%} ({entry.low:.2%} … {entry.high:.2%})",
        )
        for entry in shown
    ]
    counts = [
        Mark(str(entry.position), float(entry.impressions), told=f"position {entry.position}: {entry.impressions:,}")
        for entry in shown
    ]
    cards = [
        _card(
            "Click-through rate by position",
            "Clicks per impression, with 95% intervals.",
            points(rates, title="Click-through rate by position", across="position"),
        ),
        _card(
            "Impressions by position",
            "How often anything was shown there.",
            bars(counts, title="Impressions by position", across="position"),
        ),
    ]
    rows = [
        (
            entry.position,
            f"{entry.impressions:,}",
            f"{entry.clicks:,}",
            f"{entry.rate:.2%}",
            f"{entry.low:.2%} … {entry.high:.2%}",
        )
        for entry in shown
    ]
    table = _table(("position", "impressions", "clicks", "rate", "95% interval"), rows)
    more = f" (the first {_MOST_POSITIONS})" if len(facts.curve) > _MOST_POSITIONS else ""
    return f'<div class="charts">{"".join(cards)}</div><details><summary>All numbers{more}</summary>{table}</details>'


def _propensities(facts: Facts) -> str:
    overlap = facts.overlap
    ways = "".join(map(_method, facts.ways))
    cards = [
        _card(
            "Ways to estimate propensities",
            "Error: the largest standard error of a log propensity; 0.1 means about ±18% at 90% confidence.",
            f'<ul class="methods">{ways}</ul>',
            wide=True,
        )
    ]
    if overlap.moving:
        names = [str(position) for position in overlap.positions[:_MOST_IN_HEAT]]
        title = "Candidates in common by pair of positions"
        chart = heat(names, overlap.common, title=title, across="position", unit="candidates in common")
        told = (
            f"{overlap.moving:,} of {overlap.candidates:,} candidates were shown at several positions; "
            f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have some in common."
        )
        cards.append(_card("Overlap of positions", told, chart))
        cards.append(_precision(facts))
    return f'<div class="charts">{"".join(cards)}</div>'


def _method(method: PropensityWay) -> str:
    state = ("yes", "possible") if method.possible else ("no", "not here")
    error = "" if method.error is None else f"error {method.error:.3f}"
    return (
        f'<li><code>{escape(method.name)}</code><span class="{state[0]}">{state[1]}</span><span>{error}</span>'
        f"<span>{escape(method.reason)}</span></li>"
    )


def _precision(facts: Facts) -> str:
    def told(error: float | None) -> str:
        return "–" if error is None else f"{error:.3f}"

    entries = facts.precision[:_MOST_POSITIONS]
    chosen = entries if len(entries) <= 12 else [entries[round(i * (len(entries) - 1) / 11)] for i in range(12)]
    rows = [
        (entry.position, f"{entry.candidates:,}", f"{entry.clicks:,}", told(entry.step), told(entry.all_pairs))
        for entry in chosen
    ]
    columns = ("position", "in common", "clicks", "step", "all pairs")
    text = (
        "Candidates in common with the position above, their clicks at the two, and the standard errors of log "
        "propensities: of that step alone, and against the top with all pairs."
    )
    if len(chosen) < len(facts.precision):
        text += f" {len(chosen)} of {len(facts.precision)} positions, evenly spread; --json has all."
    return _card("Expected precision", text, _table(columns, rows))


def _traffic(facts: Facts) -> str:
    cards = []
    queries = facts.queries
    if queries.searched > 1:
        marks = [
            Mark(
                str(entry.low)
                if entry.low == entry.high
                else f"{entry.low:,}+"
                if entry.low < 10_000
                else f"{short(entry.low)}+",
                float(entry.count),
                told=f"{entry.low:,} … {entry.high:,} pages: {entry.count:,} queries",
            )
            for entry in queries.histogram
        ]
        chart = bars(marks, title="Sessions per query", across="pages of a query, in powers of two")
        told = f"How many queries were searched how often; {queries.unclicked:,} of {queries.searched:,} have no click."
        cards.append(_card("Sessions per query", told, chart))
    if facts.log is not None:
        if facts.log.drift is not None:
            cards += _drift(facts.log.drift)
        cards.append(_actors(facts.log.actors, facts))
        for title, groups in (("Surfaces", facts.log.surfaces), ("Rankers", facts.log.rankers)):
            if groups:
                cards.append(_groups(title, groups))
    if facts.rejects is not None and facts.rejects.rejected:
        rows = [(f"{count:,}", REASONS[reason]) for reason, count in facts.rejects.rejected.items()]
        told = f"{facts.rejects.n_rejected:,} of {facts.rejects.rows:,} rows ({facts.rejects.share_rejected:.2%})."
        cards.append(_card("Rows set aside", told, _table(("rows", "why"), rows, text=(1,)), wide=True))
    if not cards:
        return "<p>Only one query, and nothing else is known from cells alone.</p>"
    return f'<div class="charts">{"".join(cards)}</div>'


def _drift(drift: Drift) -> list[str]:
    one_day = drift.seconds >= 86_400
    labels = [entry.start[5:10] if one_day else entry.start[11:16] for entry in drift.slices]
    across = f"slices of {_duration(drift.seconds)}, UTC"
    rates = [
        Mark(
            label,
            entry.top_rate,
            entry.top_low,
            entry.top_high,
            f"{entry.start}: {entry.top_clicks:,} of {entry.top_impressions:,}",
        )
        for label, entry in zip(labels, drift.slices, strict=True)
    ]
    counts = [
        Mark(label, float(entry.impressions), told=f"{entry.start}: {entry.impressions:,} impressions")
        for label, entry in zip(labels, drift.slices, strict=True)
    ]
    change = drift.top_rate
    told = (
        "Too few clicks to test for change."
        if change is None
        else f"Varies by ±{change.spread:.1%} beyond chance ({change.p_text})."
    )
    return [
        _card(
            "Click-through rate at position 1 over time",
            told,
            points(rates, title="Click-through rate at position 1 over time", across=across),
        ),
        _card(
            "Impressions over time",
            f"From {drift.first} to {drift.last}, read as {drift.unit}; {drift.silent} silent slices, "
            f"{drift.undated:,} pages without a time.",
            bars(counts, title="Impressions over time", across=across),
        ),
    ]


def _actors(actors: Actors, facts: Facts) -> str:
    rate = "" if actors.rate_limit is None else f", or with a click rate above {actors.rate_limit:.0%}"
    told = (
        f"A {actors.kind} is suspicious with more than {actors.page_limit:,} pages, with {actors.all_clicked_from} or "
        f"more impressions all clicked{rate}. {actors.suspicious:,} of {actors.actors:,} {actors.kind}s are, with "
        f"{actors.impressions / max(facts.impressions, 1):.1%} of impressions and "
        f"{actors.clicks / max(facts.clicks, 1):.1%} of clicks."
    )
    rows = [
        (
            entry.name,
            f"{entry.pages:,}",
            f"{entry.impressions:,}",
            f"{entry.clicks:,}",
            f"{entry.clicks / entry.impressions:.0%}",
        )
        for entry in actors.named
    ]
    table = _table((actors.kind, "pages", "impressions", "clicks", "rate"), rows) if rows else ""
    return _card(f"Suspicious {actors.kind}s", told, table)


def _groups(title: str, groups: Sequence[PageGroup]) -> str:
    rows = [
        (
            group.name,
            f"{group.pages:,}",
            f"{group.impressions:,}",
            f"{group.clicks / max(group.impressions, 1):.2%}",
            group.depth,
        )
        for group in groups
    ]
    return _card(title, "The largest, by impressions.", _table(("name", "pages", "impressions", "rate", "depth"), rows))


# -- pieces -------------------------------------------------------------------------------------------------------


def _card(title: str, text: str, content: str, wide: bool = False) -> str:
    """A box; `content` is HTML, the rest is text."""
    kind = "card wide" if wide else "card"
    return f'<div class="{kind}"><h3>{escape(title)}</h3><p>{escape(text)}</p>{content}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], text: tuple[int, ...] = ()) -> str:
    """A table of numbers; columns that hold `text` are set from the left."""

    def line(tag: str, cells: Sequence[object]) -> str:
        parts = []
        for place, cell in enumerate(cells):
            kind = ' class="text"' if place in text else ""
            parts.append(f"<{tag}{kind}>{escape(str(cell))}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<div class="scroll"><table><thead>{line("th", head)}</thead><tbody>{body}</tbody></table></div>'


def _marked(text: str) -> str:
    """Text with `names` set as code."""
    parts = escape(text).split("`")
    return "".join(part if index % 2 == 0 else f"<code>{part}</code>" for index, part in enumerate(parts))


def _duration(seconds: float) -> str:
    """A length of time in words.

    >>> _duration(100.5), _duration(7200), _duration(86_400)
    ('1.7 minutes', '2 hours', '1 day')
    """
    for name, length in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= length:
            count = f"{seconds / length:.2g}"
            return f"{count} {name}{'' if count == '1' else 's'}"
    return f"{seconds:.2g} seconds"
