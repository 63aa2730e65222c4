"""Reports on results: for each experiment its figures and tables."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cldrank import documents as doc
from cldrank.decoding import dotted
from cldrank.experiment.experiment_file import SHIPPED, read
from cldrank.experiment.results import Summary, load_results, setting_order, summary
from cldrank.files import make_folder, save_text
from cldrank.wording import count, duration, listed

_MOST_PROBLEMS = 20  # of different errors or warnings
_NAMES = {  # keys of settings in plain words
    "simulation.depth": "depth K",
    "simulation.eta": "η",
    "simulation.sessions": "sessions",
    "simulation.noise": "click noise",
    "simulation.assumed_eta": "assumed η",
}
_SHARED = ("data", "production", "simulation", "propensities")  # of a configuration: the same for all methods


def save_report(folder: str | PathLike[str], out: str | PathLike[str]) -> Path:
    """Write the report on the results in a folder, a page that needs no other file; returns its path.

    Where `out` is a folder, the report is called `report.html` in it.
    """
    table, target = load_results(folder), Path(out)
    target = target / "report.html" if target.is_dir() else make_folder(target.parent) / target.name
    save_text(target, doc.render_html(report_document(table)))
    return target


# -- what a report is about ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """Settings that are alike but for the value along the horizontal axis.

    label       what sets it apart from the other panels; empty for a single panel
    settings    as JSON, in the order of the axis
    ticks       the value of each along the axis
    """

    label: str
    settings: tuple[str, ...]
    ticks: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """An experiment on a data set.

    units       a row of the results for each fold, setting, method and seed, its configuration decoded
    cells       the summary, by setting, method and measure
    across      the key on the horizontal axis; empty where no number varies
    """

    title: str
    units: tuple[Mapping[str, Any], ...]
    cells: Mapping[tuple[str, str, str], Summary]
    across: str
    panels: tuple[Panel, ...]

    @property
    def methods(self) -> list[str]:
        """The labels of the methods that took part, in the usual order."""
        return list(dict.fromkeys(cell.method for cell in self.cells.values()))

    @property
    def measures(self) -> list[str]:
        """The measures, in their order."""
        return list(dict.fromkeys(cell.measure for cell in self.cells.values()))

    def distinct(self, key: str) -> list[Any]:
        """The different values that units have for a key."""
        return list(dict.fromkeys(unit[key] for unit in self.units if unit[key] not in ("", None)))


def sections(table: pa.Table) -> list[Section]:
    """The sections of a table of results, the paper's experiments first, in the paper's order."""
    pairs = {(row["experiment"], row["data"]) for row in table.select(["experiment", "data"]).to_pylist()}
    ordered = sorted(pairs, key=lambda pair: ([*SHIPPED, pair[0]].index(pair[0]), *pair))
    return [
        _section(table.filter((pc.field("experiment") == experiment) & (pc.field("data") == data)), experiment, data)
        for experiment, data in ordered
    ]


def _section(table: pa.Table, experiment: str, data: str) -> Section:
    title = f"{read(experiment).title if experiment in SHIPPED else experiment} ({data})"
    units = {(row["fold"], row["setting"], row["method"], row["seed"]): row for row in table.to_pylist()}
    for unit in units.values():
        unit["configuration"] = json.loads(unit["configuration"])
    cells = summary(table)
    across, panels = _panels(sorted({cell.setting for cell in cells}, key=setting_order))
    by_place = {(cell.setting, cell.method, cell.measure): cell for cell in cells}
    return Section(title, tuple(units.values()), by_place, across, panels)


def _panels(settings: Sequence[str]) -> tuple[str, tuple[Panel, ...]]:
    """The key that varies most among those of numbers, and a panel for every value of the others."""
    chosen = {setting: json.loads(setting) for setting in settings}
    values: dict[str, set[str]] = defaultdict(set)
    for varied in chosen.values():
        for key, value in varied.items():
            values[key].add(json.dumps(value))
    numeric = [
        key
        for key in sorted(values)
        if len(values[key]) > 1 and all(type(varied.get(key)) in (int, float) for varied in chosen.values())
    ]
    across = max(numeric, key=lambda key: len(values[key]), default="")
    groups: dict[str, list[str]] = defaultdict(list)
    for setting, varied in chosen.items():
        others = {key: value for key, value in varied.items() if key != across and len(values[key]) > 1}
        groups[setting_words(others)].append(setting)
    panels = []
    for label, group in groups.items():
        ordered = sorted(group, key=lambda setting: chosen[setting][across]) if across else group
        ticks = tuple(setting_value(chosen[setting][across]) if across else "" for setting in ordered)
        panels.append(Panel(label, tuple(ordered), ticks))
    return across, tuple(panels)


def setting_value(value: Any) -> str:
    """A value of a setting as people write it.

    >>> setting_value(100000), setting_value(0.1), setting_value("pbm"), setting_value(True)
    ('100,000', '0.1', 'pbm', 'true')
    """
    if type(value) not in (int, float):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    is_whole = isinstance(value, int) or (abs(value) >= 1000 and value.is_integer())
    return f"{int(value):,}" if is_whole else f"{value:g}"


def setting_words(varied: Mapping[str, Any]) -> str:
    """Varied keys and their values in words.

    >>> setting_words({"simulation.depth": 5, "simulation.sessions": 1000})
    'depth K = 5, sessions = 1,000'
    """
    return ", ".join(f"{_NAMES.get(key, key)} = {setting_value(value)}" for key, value in varied.items())


# -- the document --------------------------------------------------------------------------------------------------


def report_document(table: pa.Table) -> doc.Document:
    """The whole report."""
    every = sections(table)
    looks = doc.looks(method for section in every for method in section.methods)
    return doc.Document(
        f"Ranking experiments on {listed(sorted(set(table['data'].to_pylist())))}" if every else "Ranking experiments",
        [block for section in every for block in _section_blocks(section, looks)],
        about="" if every else "There are no results yet; run an experiment first.",
        footer="Intervals are 90% t-intervals over seeds: they show how much a mean would change with other seeds, not "
        "with other queries.",
    )


def _section_blocks(section: Section, looks: Mapping[str, doc.Look]) -> Iterator[doc.Block]:
    yield doc.Heading(section.title)
    if any(cell.synthetic for cell in section.cells.values()):
        yield doc.Notice("note", "The data are synthetic, of a generator.")
    if failed := [unit for unit in section.units if unit["status"] != "ok"]:
        yield doc.Notice("warning", f"{len(failed):,} of {count(len(section.units), 'unit')} failed.")
        yield from _problems("error", [(unit["method"], unit["error"]) for unit in failed])
    if drawn := figures(section, looks):
        yield doc.Panels(drawn, len(section.measures))
        yield doc.Paragraph("Shaded: 90% intervals, as far as they fit into the frame.", quiet=True)
    shown: list[doc.Block] = [*tables(section), doc.Paragraph(TABLE_NOTE, quiet=True)]
    yield from [doc.Details("All numbers", shown)] if drawn else shown
    yield doc.Details("How it was run", list(_how_it_was_run(section)))


# -- tables ------------------------------------------------------------------------------------------------------------

TABLE_NOTE = (
    "Mean over seeds ± half of its 90% t-interval. Bold: the best of those that see no labels; ≈: statistically tied "
    "with it (paired t-test over seeds, 90%)."
)


def tables(section: Section) -> list[doc.Table]:
    """For each panel a table of all measures or, where a number varies, a table along its values for each measure."""
    made = []
    for panel in section.panels:
        if not section.across:
            (setting,) = panel.settings
            columns = [(measure, setting, measure) for measure in section.measures]
            made.append(_table(section, panel.label, "", columns))
        for measure in section.measures if section.across else ():
            columns = [(tick, setting, measure) for tick, setting in zip(panel.ticks, panel.settings, strict=True)]
            title = " · ".join(filter(None, (measure, panel.label)))
            made.append(_table(section, title, _NAMES.get(section.across, section.across), columns))
    return made


def _table(section: Section, title: str, about: str, columns: Sequence[tuple[str, str, str]]) -> doc.Table:
    """A row for each method; a column has a name, a setting and a measure."""
    rows = [
        [method, *(_mean(section.cells.get((setting, method, measure))) for _, setting, measure in columns)]
        for method in section.methods
    ]
    return doc.Table(["method", *(name for name, *_ in columns)], rows, title=title, about=about, wide=True)


def _mean(cell: Summary | None) -> str:
    if cell is None or math.isnan(cell.mean):
        return "–" if cell is None or not cell.failed else "failed"
    text = f"{cell.mean if cell.interval is None else cell.interval:.3f}"
    if cell.failed:
        text += f" ({count(cell.seeds, 'seed')})"
    return doc.Strong(text) if cell.best else f"{text}{' ≈' if cell.tied else ''}"


# -- figures -----------------------------------------------------------------------------------------------------------


def figures(section: Section, looks: Mapping[str, doc.Look]) -> tuple[doc.Figure, ...]:
    """A figure for each measure in each panel, where a number varies; panels share the axis of a measure."""
    drawn = []
    for measure in section.measures if section.across else ():
        cells = [cell for (*_, name), cell in section.cells.items() if name == measure and not math.isnan(cell.mean)]
        if cells:
            scale = doc.Axis.around(_ends(cells), name=measure)
            drawn += [(panel, measure, scale) for panel in section.panels]
    return tuple(
        _figure(section, panel, measure, scale, looks)
        for panel, measure, scale in sorted(drawn, key=lambda figure: section.panels.index(figure[0]))
    )


def _figure(section: Section, panel: Panel, measure: str, scale: doc.Axis, looks: Mapping[str, doc.Look]) -> doc.Figure:
    series = []
    for method in section.methods:
        points = []
        for at, setting in enumerate(panel.settings):
            cell = section.cells.get((setting, method, measure))
            if cell is not None and not math.isnan(cell.mean):
                low, high = (None, None) if cell.interval is None else (cell.low, cell.high)
                note = f"{method}, {panel.ticks[at]}: {cell.mean if cell.interval is None else cell.interval:.4f}"
                points.append(doc.Point(at, scale.within(cell.mean), low, high, note))
        if points:
            series.append(doc.Series(method, tuple(points), looks[method]))
    title = " · ".join(filter(None, (measure, panel.label)))
    along = doc.Axis.of_labels(panel.ticks, most=9, name=_NAMES.get(section.across, section.across))
    return doc.Figure(title, tuple(series), along, scale)


def _ends(cells: Sequence[Summary]) -> list[float]:
    """What an axis must reach: all means, and intervals as far as the means stay readable.

    With few seeds, intervals can be many times as wide as all that lies between methods.
    """
    means = [cell.mean for cell in cells]
    reach = max(means) - min(means)
    ends = [end for cell in cells if cell.interval is not None for end in (cell.low, cell.high)]
    return [*means, *(min(max(end, min(means) - reach), max(means) + reach) for end in ends)]


# -- how it was run ----------------------------------------------------------------------------------------------------


def _how_it_was_run(section: Section) -> Iterator[doc.Block]:
    fits = list({unit["unit"]: unit for unit in section.units}.values())  # settings can share fits
    rows = []
    for method in section.methods:
        own = [fit for fit in fits if fit["method"] == method]
        done = [fit["seconds"] for fit in own if fit["status"] == "ok"]
        time = duration(math.fsum(done) / len(done)) if done else "–"
        described = own[0]["configuration"].get("method", {}) if own else {}
        chosen = {key: value for key, value in described.get("parameters", {}).items() if key != "seed"}
        what = [str(described.get("class", "")), *(f"{key} = {setting_value(value)}" for key, value in chosen.items())]
        rows.append((method, ", ".join(what), f"{len(done):,}", time))
    yield doc.Table(("method", "parameters", "fits", "time of a fit"), rows, text=("parameters",))
    warned = [(unit["method"], text) for unit in section.units for text in json.loads(unit["warnings"] or "[]")]
    yield from _problems("warning", warned)
    versions = [json.loads(text).items() for text in section.distinct("versions")]
    yield doc.Facts(
        {
            "settings": [doc.Mono(f"{key} = {json.dumps(value)}") for key, value in _fixed(section).items()],
            "seeds": listed([str(seed) for seed in sorted(section.distinct("seed"))]),
            "folds": section.distinct("fold"),
            "command": [doc.Mono(text) for text in section.distinct("command")],
            "data fingerprint": [doc.Mono(text) for text in section.distinct("data_fingerprint")],
            "commit": [doc.Mono(text) for text in section.distinct("commit")],
            "versions": [", ".join(f"{name} {version}" for name, version in known) for known in versions],
            "finished": f"{max(section.distinct('finished')):%Y-%m-%d %H:%M} UTC",
        }
    )


def _fixed(section: Section) -> dict[str, Any]:
    """What was simulated on which data, as far as all units that say it agree, with dotted keys."""
    parts = [unit["configuration"] for unit in section.units]  # Oracle's has nothing about clicks
    flat = [dict(dotted({name: part[name] for name in _SHARED if name in part})) for part in parts]
    known = {key: value for entry in flat for key, value in entry.items() if not key.startswith("data.f")}
    return {key: value for key, value in known.items() if all(entry.get(key, value) == value for entry in flat)}


def _problems(what: str, told: Sequence[tuple[str, str]]) -> Iterator[doc.Block]:
    """Errors or warnings: which method, what, in how many units."""
    rows = [(*key, f"{number:,}") for key, number in sorted(Counter(told).items())]
    if rows:
        yield doc.Table(("method", what, "units"), rows[:_MOST_PROBLEMS], text=(what,))
        yield from doc.left_out(min(len(rows), _MOST_PROBLEMS), len(rows), f"different {what}s")
