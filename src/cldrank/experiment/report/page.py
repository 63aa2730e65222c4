"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from cldrank._version import __version__
from cldrank.experiment.report.contents import Block, Failure
from cldrank.experiment.report.figures import Figure, figures
from cldrank.experiment.report.palette import Look, looks, style
from cldrank.experiment.report.sentences import data_title, experiment_title, what_came_out, what_was_run
from cldrank.experiment.report.svg import draw, swatch
from cldrank.experiment.report.tables import Entry, Group, Row, Table, notes, shares, tables
from cldrank.experiment.report.words import count, duration, listed, measure_told, memory, method_told
from cldrank.experiment.results import method_order
from cldrank.pages.document import document, packaged, tiles


def render(blocks: Sequence[Block]) -> str:
    """The whole page."""
    chosen = looks(sorted({method for block in blocks for method in block.methods}, key=method_order))
    leading = _leading(blocks)
    here = "cldrank.experiment.report"
    body = [
        f"<header><h1>{escape(_title(blocks))}</h1><p>{escape(_subtitle(blocks))}</p></header>",
        *([_short(leading), _tiles(blocks), _contents(blocks), _reading(blocks)] if blocks else [_nothing()]),
        *(_section(block, chosen, is_told=block in leading) for block in blocks),
        f"<footer>Made by cldrank {escape(__version__)}. Intervals are 90% t-intervals over seeds: they tell how much "
        "a mean would move with other seeds, not with other queries.</footer>",
    ]
    styles = [packaged(here, "page.css"), style(chosen.values())]
    after = f'<div id="tip" role="status" hidden></div>\n<script>\n{packaged(here, "page.js")}</script>'
    return document(_title(blocks), body, styles=styles, after=after)


# -- the head of the page -----------------------------------------------------------------------------------------


def _title(blocks: Sequence[Block]) -> str:
    data = list(dict.fromkeys(block.data for block in blocks))
    return f"Ranking experiments on {listed(data)}" if 0 < len(data) <= 3 else "Ranking experiments"


def _subtitle(blocks: Sequence[Block]) -> str:
    if not blocks:
        return "no results"
    last = max(block.finished[1] for block in blocks)
    told = [count(len({block.experiment for block in blocks}), "experiment"), f"finished {last:%Y-%m-%d %H:%M} UTC"]
    if any(block.synthetic for block in blocks):
        named = list(dict.fromkeys(block.data for block in blocks if block.synthetic))
        told.append(f"{listed(named)} {'is' if len(named) == 1 else 'are'} synthetic data")
    return " · ".join(told)


def _nothing() -> str:
    return '<section class="verdict note"><b>In short</b>There are no results yet; run an experiment first.</section>'


def _leading(blocks: Sequence[Block]) -> list[Block]:
    """The experiments in which nothing varies; all, if something varies in each."""
    return [block for block in blocks if block.across is None and block.has_values] or list(blocks)


def _short(leading: Sequence[Block]) -> str:
    """What came out of these; their sections do not say it again."""
    lines = [
        f'<li><a href="#{block.name}">{escape(_named(block))}</a>: {escape(what_came_out(block))}</li>'
        for block in leading
    ]
    tone = "note" if any(block.has_values for block in leading) else "blocking"
    return f'<section class="verdict {tone}"><b>In short</b><ul>{"".join(lines)}</ul></section>'


def _named(block: Block) -> str:
    made = " (synthetic)" if block.synthetic else ""
    return f"{block.experiment} on {block.data}{made}"


def _tiles(blocks: Sequence[Block]) -> str:
    failed = sum(block.failed for block in blocks)
    values = {
        "experiments": f"{len({block.experiment for block in blocks})}",
        "data sets": f"{len({block.data for block in blocks})}",
        "methods": f"{len({method for block in blocks for method in block.methods})}",
        "seeds": f"{len({seed for block in blocks for seed in block.seeds})}",
        "units": f"{sum(block.units for block in blocks):,}",
        "failed": f"{failed:,}",
        "computing time": duration(sum(block.seconds for block in blocks)),
    }
    return tiles(values, bad=["failed"] if failed else [])


def _contents(blocks: Sequence[Block]) -> str:
    """Links to the sections, a line for each data set."""
    if len(blocks) < 2:
        return ""
    lines = []
    for data in dict.fromkeys(block.data for block in blocks):
        links = "".join(
            f'<a href="#{block.name}">{escape(block.experiment)}</a>' for block in blocks if block.data == data
        )
        lines.append(f"<div><b>{escape(data)}</b>{links}</div>")
    return f'<nav aria-label="Experiments">{"".join(lines)}</nav>'


def _reading(blocks: Sequence[Block]) -> str:
    """What the methods and measures are, for those who see them for the first time."""
    methods = sorted({method for block in blocks for method in block.methods}, key=method_order)
    measures = dict.fromkeys(measure for block in blocks for measure in block.measures)
    told = {name: about for name in (*methods, *measures) if (about := method_told(name) or measure_told(name))}
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(about)}</dd>" for name, about in told.items())
    return _folded("What the methods and measures are", f'<dl class="facts">{lines}</dl>') if told else ""


# -- an experiment ------------------------------------------------------------------------------------------------


def _section(block: Block, chosen: Mapping[str, Look], *, is_told: bool) -> str:
    chip = '<span class="chip warning">synthetic data</span>' if block.synthetic else ""
    title = data_title(block.data)
    named = escape(block.data) if title == block.data else f"{escape(title)} ({escape(block.data)})"
    made = ", made by a generator and no measure of the real world" if block.synthetic else ""
    parts = [
        f'<section id="{block.name}" class="experiment">',
        f"<h2>{escape(experiment_title(block.experiment))} <small>{escape(block.data)}</small>{chip}</h2>",
        f'<p class="run">On {named}{made}. {escape(what_was_run(block))}</p>',
        "" if is_told else f'<p class="found">{escape(what_came_out(block))}</p>',
    ]
    if block.has_values:
        body = [_table(table) for table in tables(block)]
        remarks = "".join(f"<p>{escape(note)}</p>" for note in notes(block))
        drawn = _figures(figures(block), chosen, block)
        if block.across is None:
            parts += [f'<div class="card">{"".join(body)}<div class="notes">{remarks}</div></div>', drawn]
        else:
            gaps = "".join(map(_table, shares(block)))
            parts += [drawn, _folded("All numbers", f'{"".join(body)}{gaps}<div class="notes">{remarks}</div>')]
    if block.failures:
        told = f"{block.failed:,} of {count(block.units, 'unit')} failed"
        parts.append(f'<div class="card failed"><h3>{told}</h3>{_failures(block.failures, "error")}</div>')
    parts.append(_folded("Run times, data, versions and command", _provenance(block)))
    return "\n".join([*parts, "</section>"])


def _figures(drawn: Sequence[Figure], chosen: Mapping[str, Look], block: Block) -> str:
    if not drawn:
        return ""
    shown = [method for method in chosen if any(method == s.method for figure in drawn for s in figure.series)]
    keys = "".join(
        f'<button type="button" class="key" data-slot="{chosen[method].slot}" aria-pressed="true">'
        f"{swatch(chosen[method])}<span>{escape(method)}</span></button>"
        for method in shown
    )
    beside = any(dot.published is not None for figure in drawn for s in figure.series for dot in s.dots)
    circle = '<svg class="swatch" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
    circle += '<circle class="published" cx="6" cy="6" r="4.4"/></svg>'
    extra = f'<span class="key">{circle}<span>published</span></span>' if beside else ""
    again = '<button type="button" class="key all" hidden>show all</button>'
    cards = "".join(
        f'<figure class="card"><figcaption>{escape(figure.title)}</figcaption>{draw(figure, chosen)}</figure>'
        for figure in drawn
    )
    columns = len(block.measures) if len(block.measures) in (2, 4) else 3
    told = []
    if block.has_intervals:
        told.append("Shaded: 90% intervals." if block.across else "Bars: 90% intervals.")
    if any(figure.cut_off for figure in drawn):
        told.append("They are cut off where they leave the frame.")
    if any(figure.values.low > 0 for figure in drawn):
        told.append("The axis of values does not start at 0.")
    return (
        f'<div class="legend" role="group" aria-label="Show or hide methods">{keys}{extra}{again}</div>'
        f'<div class="figures of{min(columns, 3)}">{cards}</div><p class="quiet">{" ".join(told)}</p>'
    )


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    over = "".join(
        f'<th colspan="{len(group.columns)}" class="{_kind(group.ours, 0)}">{escape(group.name)}</th>'
        for group in table.groups
    )
    named = any(group.name for group in table.groups)
    top = f'<tr class="groups"><th></th>{over}</tr>' if named else ""
    heads = "".join(
        f'<th class="{_kind(group.ours, place)}">{escape(column)}</th>'
        for group in table.groups
        for place, column in enumerate(group.columns)
    )
    kinds = [_kind(group.ours, place) for group in table.groups for place in range(len(group.columns))]
    names = [_name(table, group, column) for group in table.groups for column in group.columns]
    rows = "".join(_row(row, kinds, names) for row in table.rows)
    return (
        f'<div class="scroll"><table class="results">{caption}<thead>{top}<tr><th>method</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _kind(ours: bool, place: int) -> str:
    return f"{'' if ours else 'theirs '}{'first' if place == 0 else ''}".strip()


def _name(table: Table, group: Group, column: str) -> str:
    """What a number is, beside itself: on a phone, tables have no head."""
    if not group.name:
        return column
    about = group.brief or group.name
    return f"{about} = {column}" if len(table.groups) == 1 else f"{column}, {about}"


def _row(row: Row, kinds: Sequence[str], names: Sequence[str]) -> str:
    cells = "".join(_cell(*cell) for cell in zip(row.entries, kinds, names, strict=True))
    return f'<tr{" class=apart" if row.apart else ""}><th scope="row">{escape(row.method)}</th>{cells}</tr>'


def _cell(entry: Entry, kind: str, name: str) -> str:
    text = escape(entry.text)
    if " ± " in text:
        mean, half = text.split(" ± ")
        text = f'{mean}<span class="half"> ± {half}</span>'
    if entry.best:
        kind, text = f"{kind} best", f"<b>{text}</b>"
    elif entry.tied:
        kind, text = f"{kind} tied", f'{text}<sup title="statistically tied with the best">≈</sup>'
    if entry.note:
        text += f'<span class="only">{escape(entry.note)}</span>'
    if entry.share is not None:
        width = 100 * min(max(entry.share, 0.0), 1.0)
        text = f'<span class="share" style="--w:{width:.0f}%">{text}</span>'
    named = f'data-name="{escape(name)}"'
    return f'<td class="{kind.strip()}" {named}>{text}</td>' if kind.strip() else f"<td {named}>{text}</td>"


def _failures(entries: Iterable[Failure], what: str) -> str:
    rows = "".join(
        f'<tr><td>{escape(entry.method)}</td><td class="text" data-name="{what}">{escape(entry.error)}</td>'
        f'<td class="text" data-name="where">{escape(entry.where)}</td><td data-name="units">{entry.units:,}</td></tr>'
        for entry in entries
    )
    return (
        f'<div class="scroll"><table><thead><tr><th>method</th><th class="text">{what}</th><th class="text">where</th>'
        f"<th>units</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


# -- how it was run -----------------------------------------------------------------------------------------------


def _provenance(block: Block) -> str:
    parts = [_times(block)] if block.timings else []
    if block.warnings:
        parts.append(f"<h3>Warnings</h3>{_failures(block.warnings, 'warning')}")
    facts = [
        ("command", block.commands, True),
        ("data fingerprint", block.fingerprints, True),
        ("commit", block.commits, True),
        ("versions", tuple(map(_versions, block.versions)), False),
        ("finished", (f"{block.finished[0]:%Y-%m-%d %H:%M:%S} to {block.finished[1]:%Y-%m-%d %H:%M:%S} UTC",), False),
        ("methods", tuple(f"{label}: {text}" for label, text in block.parameters.items()), True),
        (
            "settings",
            tuple(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in block.fixed.items()),
            True,
        ),
    ]
    lines = "".join(
        f"<dt>{name}</dt><dd>{''.join(_fact(value, code) for value in values)}</dd>"
        for name, values, code in facts
        if values
    )
    return f'{"".join(parts)}<dl class="facts">{lines}</dl>'


def _fact(value: str, code: bool) -> str:
    return f"<div><code>{escape(value)}</code></div>" if code else f"<div>{escape(value)}</div>"


def _versions(text: str) -> str:
    found = json.loads(text)
    return ", ".join(f"{name} {version}" for name, version in found.items()) if isinstance(found, dict) else text


def _times(block: Block) -> str:
    most = max(timing.median for timing in block.timings) or 1.0
    rows = "".join(
        f"<tr><td>{escape(timing.method)}</td>"
        f'<td class="meter"><span style="--w:{100 * timing.median / most:.1f}%"></span></td>'
        f'<td data-name="a fit (median)">{duration(timing.median)}</td>'
        f'<td data-name="range">{duration(timing.least)} … {duration(timing.most)}</td>'
        f'<td data-name="most memory">{memory(timing.peak_mib)}</td><td data-name="fits">{timing.fits:,}</td></tr>'
        for timing in block.timings
    )
    return (
        f"<h3>Run times</h3><p>{duration(block.seconds)} of computing in all.</p>"
        '<div class="scroll"><table class="times"><thead><tr><th>method</th><th></th><th>a fit (median)</th>'
        f"<th>range</th><th>most memory</th><th>fits</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _folded(title: str, content: str) -> str:
    return f'<details><summary>{escape(title)}</summary><div class="card">{content}</div></details>'
