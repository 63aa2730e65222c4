"""The tables of a block, before anyone decides whether they become HTML, Markdown or LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cldrank.experiment.report.contents import Block, Panel
from cldrank.experiment.report.published import CONDITIONS, published
from cldrank.experiment.report.words import axis_name, count, key_name, number
from cldrank.experiment.results import Summary

MISSING = "–"
SHARE = "share of the gap from Naive to Oracle"


@dataclass(frozen=True)
class Entry:
    """What stands in a table at one place.

    best, tied    the best of its column (Oracle aside); statistically tied with the best
    share         the share of the gap from Naive to Oracle, for a bar
    note          what restricts the number, such as fewer seeds than the others
    """

    text: str
    best: bool = False
    tied: bool = False
    share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Columns that stand together under one name, or a brief one; `ours` is False for numbers that others published."""

    name: str
    columns: tuple[str, ...]
    ours: bool = True
    brief: str = ""


@dataclass(frozen=True)
class Row:
    """A method with its entries; `apart` from those that learn from clicks if it does not."""

    method: str
    entries: tuple[Entry, ...]
    apart: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a line for each method."""

    title: str
    groups: tuple[Group, ...]
    rows: tuple[Row, ...]


def tables(block: Block) -> tuple[Table, ...]:
    """One table a panel; where something numeric varies, one for each measure in each panel."""
    if block.across is None:
        return tuple(_overview(block, panel) for panel in block.panels)
    return tuple(_along(block, panel, measure) for panel in block.panels for measure in block.measures)


def shares(block: Block) -> tuple[Table, ...]:
    """Where something numeric varies: the shares of the gap, one table for each measure in each panel."""
    if block.across is None or not block.has_gaps:
        return ()
    return tuple(_along(block, panel, measure, as_share=True) for panel in block.panels for measure in block.measures)


def notes(block: Block) -> tuple[str, ...]:
    """What must be known to read the tables, in plain sentences."""
    if not block.has_values:
        return ("No unit has finished, so there is nothing to measure yet.",)
    told = []
    rivals = [method for method in block.methods if method.casefold() != "oracle"]
    if block.has_intervals:
        told.append("Mean over seeds ± half of its 90% t-interval.")
        if len(block.seeds) == 2:
            told.append("Two seeds leave intervals very wide; with five, differences can be told from chance.")
        if len(rivals) > 1:
            told.append(
                "Bold: the best, Oracle aside. ≈: statistically tied with the best (paired t-test over seeds, 90%)."
            )
    else:
        told.append("One seed: there are no intervals, and nobody can tell which differences are chance.")
        if len(rivals) > 1:
            told.append("Bold: the best, Oracle aside.")
    if block.has_gaps:
        told.append(
            "The share of the gap is how far a method gets from Naive (0%) to Oracle (100%), taken between means."
        )
    else:
        told.append(_no_gap(block))
    if block.across is None and any(published(block, panel.settings[0]) for panel in block.panels):
        told.append(
            f"Published: the paper's own numbers ({CONDITIONS}), not measured here; its MAP stands in the column of AP."
        )
    return tuple(told)


def _no_gap(block: Block) -> str:
    names = {method.casefold() for method in block.methods}
    missing = [name for name in ("Naive", "Oracle") if name.casefold() not in names]
    if missing:
        return f"There is no {' and no '.join(missing)} here, so no share of the gap between Naive and Oracle is known."
    return "Oracle is not better than Naive here, so there is no gap to take a share of."


def _overview(block: Block, panel: Panel) -> Table:
    setting = panel.settings[0]
    beside = published(block, setting)
    groups = [Group("", block.measures)]
    if block.has_gaps:
        groups.append(Group(SHARE, block.measures, brief="gap closed"))
    known = tuple(measure for measure in block.measures if any(other == measure for _, other in beside))
    if known:
        groups.append(Group("published", known, ours=False))
    rows = []
    for method in block.methods:
        cells = [block.cells.get((setting, method, measure)) for measure in block.measures]
        entries = [_mean(block, cell) for cell in cells]
        if block.has_gaps:
            entries += [_share(cell) for cell in cells]
        entries += [
            Entry(f"{beside[method, measure]:.3f}" if (method, measure) in beside else MISSING) for measure in known
        ]
        rows.append(_row(method, entries))
    return Table(panel.label, tuple(groups), tuple(rows))


def _along(block: Block, panel: Panel, measure: str, as_share: bool = False) -> Table:
    rows = []
    for method in block.methods:
        cells = [block.cells.get((setting, method, measure)) for setting in panel.settings]
        rows.append(_row(method, [_share(cell) if as_share else _mean(block, cell) for cell in cells]))
    title = f"{measure}, {SHARE}" if as_share else measure
    varied = block.across or ""
    group = Group(axis_name(varied), tuple(map(number, panel.places)), brief=key_name(varied))
    return Table(f"{title} · {panel.label}" if panel.label else title, (group,), tuple(rows))


def _row(method: str, entries: Sequence[Entry]) -> Row:
    return Row(method, tuple(entries), apart=method.casefold() == "oracle")


def _mean(block: Block, cell: Summary | None) -> Entry:
    if cell is None or math.isnan(cell.mean):
        return Entry("failed" if cell is not None and cell.failed else MISSING)
    text = f"{cell.mean:.3f}" if cell.interval is None else f"{cell.interval:.3f}"
    note = count(cell.seeds, "seed") if cell.seeds < len(block.seeds) else ""
    rivals = sum(method.casefold() != "oracle" for method in block.methods)
    if rivals < 2:
        return Entry(text, note=note)
    return Entry(text, best=cell.best, tied=cell.tied and not cell.best, note=note)


def _share(cell: Summary | None) -> Entry:
    if cell is None or math.isnan(cell.gap):
        return Entry(MISSING)
    return Entry(f"{100 * cell.gap:.0f}%".replace("-", "−"), share=cell.gap)
