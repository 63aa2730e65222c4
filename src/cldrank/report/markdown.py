"""The report as Markdown, with pictures of its figures beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cldrank._version import __version__
from cldrank.drawing.markdown_text import code, escaped
from cldrank.drawing.picture import picture
from cldrank.report.labels import memory_size
from cldrank.report.narrative import data_name, experiment_title, what_came_out, what_was_run
from cldrank.report.plots import figures, method_looks
from cldrank.report.result_tables import (
    LEADERS_NOTE,
    Leader,
    LeaderRow,
    ResultTable,
    TableEntry,
    leader_rows,
    notes,
    shares,
    tables,
)
from cldrank.report.sections import Failure, Section, who_took_part
from cldrank.wording import count, duration


def render_markdown(sections: Sequence[Section], beside: Mapping[str, str]) -> str:
    """The whole text; `beside` names the picture of each section."""
    parts = ["# Ranking experiments"]
    if not sections:
        parts.append("There are no results yet; run an experiment first.")
    for section in sections:
        parts += _section(section, beside.get(section.name))
    parts.append(f"Made by cldrank {__version__}. Intervals are 90% t-intervals over seeds.")
    return "\n\n".join(parts) + "\n"


def section_pictures(sections: Sequence[Section]) -> Iterator[tuple[str, str]]:
    """The name of each section that has figures, with a picture of them as SVG."""
    chosen = method_looks(who_took_part(sections))
    for section in sections:
        drawn = figures(section, chosen)
        if drawn:
            yield section.name, picture(drawn, columns=len(section.measures))


def _section(section: Section, drawn: str | None) -> list[str]:
    made = ", **synthetic data** made by a generator" if section.synthetic else ""
    parts = [
        f"## {escaped(experiment_title(section.experiment))} ({escaped(section.data)})",
        f"On {escaped(data_name(section.data))}{made}. {escaped(what_was_run(section))}",
        escaped(what_came_out(section)),
    ]
    if drawn is not None:
        parts.append(f"![{escaped(experiment_title(section.experiment))}]({drawn})")
    rows = leader_rows(section)
    if rows:
        parts += [_leader_table(section, rows), escaped(LEADERS_NOTE)]
    if section.has_values:
        values = [_table(table) for table in (*tables(section), *shares(section))]
        values.append(escaped(" ".join(notes(section))))
        parts += _folded("All values", values) if len(rows) > 1 else values
    if section.failures:
        parts += [
            f"{section.failed:,} of {count(section.units, 'unit')} failed:",
            "\n".join(map(_failure, section.failures)),
        ]
    how: list[str] = []
    if section.timings:
        lines = [
            f"| {escaped(one.method)} | {duration(one.median)} | {memory_size(one.peak_mib)} | {one.fits:,} |"
            for one in section.timings
        ]
        how.append("\n".join(["| method | fit (median) | peak memory | fits |", "|---|---:|---:|---:|", *lines]))
    return [*parts, *_folded("Time, memory and versions", [*how, "\n".join(_provenance(section))])]


def _folded(title: str, parts: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", *parts, "</details>"]


def _table(table: ResultTable) -> str:
    many = len(table.groups) > 1
    heads = [table.name_of(group, name) if many else name for group in table.groups for name in group.columns]
    lines = [
        f"| {' | '.join(map(escaped, ['method', *heads]))} |",
        f"|---|{'---:|' * len(heads)}",
        *(f"| {' | '.join([escaped(row.method), *map(_entry, row.entries)])} |" for row in table.rows),
    ]
    along = f" by {escaped(table.groups[0].name)}" if len(table.groups) == 1 and table.groups[0].name else ""
    return "\n".join([f"**{escaped(table.title)}**{along}\n", *lines] if table.title else lines)


def _leader_table(section: Section, rows: Sequence[LeaderRow]) -> str:
    """Who is best or tied: a row per setting, a column per measure."""
    lines = [
        f"| {' | '.join([escaped(row.setting), *('; '.join(map(_leader, found)) for found in row.leaders)])} |"
        for row in rows
    ]
    heads = ["best or tied", *section.measures]
    return "\n".join([f"| {' | '.join(map(escaped, heads))} |", "|---" * len(heads) + "|", *lines])


def _leader(leader: Leader) -> str:
    name = escaped(leader.method)
    return f"{f'**{name}**' if leader.best else name} {escaped(leader.text)}"


def _entry(entry: TableEntry) -> str:
    text = f"**{escaped(entry.text)}**" if entry.best else escaped(entry.text)
    note = f" ({entry.note})" if entry.note else ""
    return f"{text}{' ≈' if entry.tied else ''}{note}"


def _failure(failure: Failure) -> str:
    return f"- {escaped(failure.method)}, {escaped(failure.where)}: {escaped(failure.error)}"


def _provenance(section: Section) -> Iterator[str]:
    yield f"- {duration(section.seconds)} of computing, finished {section.finished[1]:%Y-%m-%d %H:%M} UTC"
    for name, values in (
        ("command", section.commands),
        ("data fingerprint", section.fingerprints),
        ("commit", section.commits),
    ):
        for value in values:
            yield f"- {name}: {code(value)}"
    for text in section.versions:
        yield f"- versions: {escaped(text)}"
