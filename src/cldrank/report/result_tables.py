"""The tables of a section, before anyone decides whether they become HTML, Markdown or LaTeX."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cldrank.drawing.numbers import percent
from cldrank.experiment.results import Summary
from cldrank.report.labels import axis_name, key_name, setting_value
from cldrank.report.published import CONDITIONS, published
from cldrank.report.sections import Panel, Section
from cldrank.wording import count

MISSING = "–"
SHARE = "share of the gap from Naive to Oracle"


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table.

    best, tied    the best of its column among those that see no labels; statistically tied with it
    share         the share of the gap from Naive to Oracle, for a bar
    note          what restricts the number, such as fewer seeds than for the others
    """

    text: str
    best: bool = False
    tied: bool = False
    share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class ColumnGroup:
    """Columns under one name, or a brief one; `ours` is False for numbers that others published."""

    name: str
    columns: tuple[str, ...]
    ours: bool = True
    brief: str = ""


@dataclass(frozen=True)
class MethodRow:
    """A method with its entries.

    apart    from those that learn from clicks, as it does not
    begins   methods of another kind than the row above: trees, or what sees the labels
    """

    method: str
    entries: tuple[TableEntry, ...]
    apart: bool = False
    begins: bool = False


@dataclass(frozen=True)
class ResultTable:
    """A table with one row per method."""

    title: str
    groups: tuple[ColumnGroup, ...]
    rows: tuple[MethodRow, ...]

    def places(self, row: MethodRow) -> Iterator[tuple[ColumnGroup, str, bool, TableEntry]]:
        """The entries of a row, each with its group and column, and whether it is the first of its group."""
        columns = [(group, column, not place) for group in self.groups for place, column in enumerate(group.columns)]
        for column, entry in zip(columns, row.entries, strict=True):
            yield (*column, entry)

    def name_of(self, group: ColumnGroup, column: str) -> str:
        """What a number of a column is, without the head of the table."""
        if not group.name:
            return column
        about = group.brief or group.name
        return f"{about} = {column}" if len(self.groups) == 1 else f"{column}, {about}"


@dataclass(frozen=True)
class Leader:
    """A method that is best or tied in a setting by a measure.

    text    of the best, its mean with its interval; of another, its difference from the best, paired over seeds
    best    whether none is better
    """

    method: str
    text: str
    best: bool


@dataclass(frozen=True)
class LeaderRow:
    """The methods that lead in a setting, for each measure; the best come first."""

    setting: str
    leaders: tuple[tuple[Leader, ...], ...]


def leader_rows(section: Section) -> tuple[LeaderRow, ...]:
    """Who is best or tied in each setting of those that see no labels; none without a choice or with one seed."""
    if len(section.rivals) < 2 or not section.has_intervals:
        return ()
    return tuple(
        LeaderRow(_setting_name(setting), tuple(_leaders(section, setting, measure) for measure in section.measures))
        for setting in section.settings
    )


def _leaders(section: Section, setting: str, measure: str) -> tuple[Leader, ...]:
    cells = [cell for label in section.rivals if (cell := section.known(setting, label, measure)) is not None]
    leading = sorted((cell for cell in cells if cell.best or cell.tied), key=lambda cell: not cell.best)
    return tuple(Leader(cell.method, _lead(cell), cell.best) for cell in leading)


def _lead(cell: Summary) -> str:
    if cell.best or cell.distance is None:
        return f"{cell.mean:.3f}" if cell.interval is None else f"{cell.interval:.3f}"
    return f"{cell.distance:+z.3f}".replace("-", "−")


def _setting_name(setting: str) -> str:
    return ", ".join(f"{key_name(key)} = {setting_value(value)}" for key, value in json.loads(setting).items())


def tables(section: Section) -> tuple[ResultTable, ...]:
    """One table per panel; where something numeric varies, one for each measure in each panel."""
    if section.across is None:
        return tuple(_overview(section, panel) for panel in section.panels)
    return tuple(_along(section, panel, measure) for panel in section.panels for measure in section.measures)


def shares(section: Section) -> tuple[ResultTable, ...]:
    """Where something numeric varies: the shares of the gap, one table for each measure in each panel."""
    if section.across is None or not section.has_gaps:
        return ()
    return tuple(
        _along(section, panel, measure, as_share=True) for panel in section.panels for measure in section.measures
    )


LEADERS_NOTE = (
    "Best or tied: the best mean of those that see no labels, and those whose difference from it cannot be told from 0 "
    "(paired over seeds, 90% t-interval); the difference is given."
)


def notes(section: Section) -> tuple[str, ...]:
    """What must be known to read the tables, in plain sentences."""
    if not section.has_values:
        return ("No unit has finished, so there is nothing to measure yet.",)
    found = []
    if section.has_intervals:
        found.append("Mean over seeds ± half of its 90% t-interval.")
        if len(section.seeds) == 2:
            found.append("Two seeds leave intervals very wide; five seeds can separate differences from chance.")
        if len(section.rivals) > 1:
            found.append(
                "Bold: the best of those that see no labels. ≈: statistically tied with it (paired t-test over seeds, "
                "90%)."
            )
    else:
        found.append("One seed: there are no intervals, and any difference may be chance.")
    if section.has_gaps:
        found.append(
            "The share of the gap is how far a method gets from Naive (0%) to Oracle (100%), taken between means."
        )
    else:
        found.append(_no_gap(section))
    if section.across is None and any(published(section, panel.settings[0]) for panel in section.panels):
        found.append(
            f"Published: the paper's own numbers ({CONDITIONS}), not measured here; its MAP is in the column of AP."
        )
    return tuple(found)


def _no_gap(section: Section) -> str:
    names = {method.casefold() for method in section.methods}
    missing = [name for name in ("Naive", "Oracle") if name.casefold() not in names]
    if missing:
        return f"There is no {' and no '.join(missing)} here, so no share of the gap between Naive and Oracle is known."
    return "Oracle is not better than Naive here, so there is no gap to take a share of."


def _overview(section: Section, panel: Panel) -> ResultTable:
    setting = panel.settings[0]
    beside = published(section, setting)
    groups = [ColumnGroup("", section.measures)]
    if section.has_gaps:
        groups.append(ColumnGroup(SHARE, section.measures, brief="gap closed"))
    known = tuple(measure for measure in section.measures if any(other == measure for _, other in beside))
    if known:
        groups.append(ColumnGroup("published", known, ours=False))
    rows = []
    for method in section.methods:
        cells = [section.cells.get((setting, method, measure)) for measure in section.measures]
        entries = [_mean(section, cell) for cell in cells]
        if section.has_gaps:
            entries += [_share(cell) for cell in cells]
        entries += [
            TableEntry(f"{beside[method, measure]:.3f}" if (method, measure) in beside else MISSING)
            for measure in known
        ]
        rows.append(_row(section, method, entries))
    return ResultTable(panel.label, tuple(groups), tuple(rows))


def _along(section: Section, panel: Panel, measure: str, as_share: bool = False) -> ResultTable:
    rows = []
    for method in section.methods:
        cells = [section.cells.get((setting, method, measure)) for setting in panel.settings]
        rows.append(_row(section, method, [_share(cell) if as_share else _mean(section, cell) for cell in cells]))
    title = f"{measure}, {SHARE}" if as_share else measure
    varied = section.across or ""
    group = ColumnGroup(axis_name(varied), tuple(map(setting_value, panel.places)), brief=key_name(varied))
    return ResultTable(f"{title} · {panel.label}" if panel.label else title, (group,), tuple(rows))


def _row(section: Section, method: str, entries: Sequence[TableEntry]) -> MethodRow:
    labels = list(section.methods)
    place = labels.index(method)
    begins = place > 0 and _kind(section, labels[place - 1]) != _kind(section, method)
    return MethodRow(method, tuple(entries), apart=method not in section.rivals, begins=begins)


def _kind(section: Section, method: str) -> str:
    who = section.methods[method]
    return "labels" if who.sees_labels else "trees" if who.fits_trees else ""


def _mean(section: Section, cell: Summary | None) -> TableEntry:
    if cell is None or math.isnan(cell.mean):
        return TableEntry("failed" if cell is not None and cell.failed else MISSING)
    text = f"{cell.mean:.3f}" if cell.interval is None else f"{cell.interval:.3f}"
    note = count(cell.seeds, "seed") if cell.seeds < len(section.seeds) else ""
    if len(section.rivals) < 2:
        return TableEntry(text, note=note)
    return TableEntry(text, best=cell.best, tied=cell.tied and not cell.best, note=note)


def _share(cell: Summary | None) -> TableEntry:
    if cell is None or math.isnan(cell.gap):
        return TableEntry(MISSING)
    return TableEntry(percent(cell.gap), share=cell.gap)
