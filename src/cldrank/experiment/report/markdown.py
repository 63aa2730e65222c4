"""The report as Markdown, with pictures of its figures beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from cldrank._version import __version__
from cldrank.experiment.report.contents import Block, Failure
from cldrank.experiment.report.figures import figures
from cldrank.experiment.report.palette import looks
from cldrank.experiment.report.sentences import data_title, experiment_title, what_came_out, what_was_run
from cldrank.experiment.report.sheet import sheet
from cldrank.experiment.report.tables import Entry, Table, notes, shares, tables
from cldrank.experiment.report.words import count, duration, memory
from cldrank.experiment.results import method_order

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$^&!])")


def render(blocks: Sequence[Block], beside: Mapping[str, str]) -> str:
    """The whole text; `beside` names the picture of each block."""
    parts = ["# Ranking experiments"]
    if not blocks:
        parts.append("There are no results yet; run an experiment first.")
    for block in blocks:
        parts += _section(block, beside.get(block.name))
    parts.append(f"Made by cldrank {__version__}. Intervals are 90% t-intervals over seeds.")
    return "\n\n".join(parts) + "\n"


def pictures(blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """The name of each block that has figures, with a picture of them as SVG."""
    chosen = looks(sorted({method for block in blocks for method in block.methods}, key=method_order))
    for block in blocks:
        drawn = figures(block)
        if drawn:
            yield block.name, sheet(drawn, chosen, columns=len(block.measures))


def _section(block: Block, picture: str | None) -> list[str]:
    title = data_title(block.data)
    named = _plain(title if title == block.data else f"{title} ({block.data})")
    made = ", **synthetic data** made by a generator" if block.synthetic else ""
    parts = [
        f"## {_plain(experiment_title(block.experiment))} ({_plain(block.data)})",
        f"On {named}{made}. {_plain(what_was_run(block))}",
        _plain(what_came_out(block)),
    ]
    if picture is not None:
        parts.append(f"![{_plain(experiment_title(block.experiment))}]({picture})")
    if block.has_values:
        parts += [_table(table) for table in (*tables(block), *shares(block))]
        parts.append(_plain(" ".join(notes(block))))
    if block.failures:
        parts += [f"{block.failed:,} of {count(block.units, 'unit')} failed:", "\n".join(map(_failure, block.failures))]
    if block.timings:
        lines = [
            f"| {_plain(timing.method)} | {duration(timing.median)} | {memory(timing.peak_mib)} | {timing.fits:,} |"
            for timing in block.timings
        ]
        parts.append("\n".join(["| method | a fit (median) | most memory | fits |", "|---|---:|---:|---:|", *lines]))
    return [*parts, "\n".join(_provenance(block))]


def _table(table: Table) -> str:
    heads = [
        f"{column}, {group.brief or group.name}" if len(table.groups) > 1 and group.name else column
        for group in table.groups
        for column in group.columns
    ]
    lines = [
        f"| {' | '.join(map(_plain, ['method', *heads]))} |",
        f"|---|{'---:|' * len(heads)}",
        *(f"| {' | '.join([_plain(row.method), *map(_entry, row.entries)])} |" for row in table.rows),
    ]
    along = f" by {_plain(table.groups[0].name)}" if len(table.groups) == 1 and table.groups[0].name else ""
    return "\n".join([f"**{_plain(table.title)}**{along}\n", *lines] if table.title else lines)


def _entry(entry: Entry) -> str:
    text = f"**{_plain(entry.text)}**" if entry.best else _plain(entry.text)
    note = f" ({entry.note})" if entry.note else ""
    return f"{text}{' ≈' if entry.tied else ''}{note}"


def _failure(failure: Failure) -> str:
    return f"- {_plain(failure.method)}, {_plain(failure.where)}: {_plain(failure.error)}"


def _provenance(block: Block) -> Iterator[str]:
    yield f"- {duration(block.seconds)} of computing, finished {block.finished[1]:%Y-%m-%d %H:%M} UTC"
    for name, values in (
        ("command", block.commands),
        ("data fingerprint", block.fingerprints),
        ("commit", block.commits),
    ):
        for value in values:
            yield f"- {name}: {_code(value)}"
    for text in block.versions:
        versions = json.loads(text)
        if isinstance(versions, dict):
            yield f"- versions: {_plain(', '.join(f'{name} {version}' for name, version in versions.items()))}"


def _plain(text: str) -> str:
    r"""Text that Markdown leaves as it is, on one line.

    >>> print(_plain("a|b <c>"))
    a\|b \<c\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Text as code, fenced by more backticks than it has."""
    flat = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    space = " " if "`" in flat else ""
    return f"{fence}{space}{flat}{space}{fence}"
