"""What a report shows: the results, sorted into one section for each experiment on each data set."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import median
from typing import Any

import pyarrow as pa

from cldrank.decoding import dotted
from cldrank.experiment.definition import SHIPPED
from cldrank.experiment.makers import Identity, identify
from cldrank.experiment.results import Cell, Summary, per_seed, setting_order, summary
from cldrank.report.labels import key_name, method_sentence, setting_value

_SHARED = (
    "data",
    "production",
    "simulation",
    "propensities",
)  # of a configuration: what all methods of a setting share
_LONGEST_NAME = 80  # files are called after sections
_SHOWN_ELSEWHERE = ("data.name", "data.fold", "data.fingerprint")
_MOST_PLACES = 6  # of units that failed alike


@dataclass(frozen=True)
class Panel:
    """Settings that belong in one figure: all alike except for the value along the horizontal axis.

    label       what sets it apart from the other panels; empty if it is the only one
    settings    the settings as JSON
    places      where each is on the horizontal axis; empty where nothing numeric varies
    """

    label: str
    settings: tuple[str, ...]
    places: tuple[float, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Units that failed with the same error."""

    method: str
    error: str
    units: int
    where: str


@dataclass(frozen=True)
class Timing:
    """What the fits of a method cost: seconds (median, least, most) and the most memory that one of them took."""

    method: str
    fits: int
    median: float
    least: float
    most: float
    peak_mib: float


@dataclass(frozen=True)
class Section:
    """One experiment on one data set.

    name            for anchors and files; no two sections share one
    methods         who took part, by label, in the order that all lists have
    cells           the summary, by setting, method and measure
    by_seed         the value of each seed, by the same
    across          the key on the horizontal axis; None where nothing numeric varies
    fixed           what was simulated on which data, as far as it did not vary, with dotted keys
    sentences       what each method does, as far as it is known
    parameters      the class and parameters of each method, in words
    units, failed   how many units there are, and how many of them failed
    versions        of the libraries, in words
    """

    name: str
    experiment: str
    data: str
    synthetic: bool
    folds: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: Mapping[str, Identity]
    measures: tuple[str, ...]
    cells: Mapping[tuple[str, str, str], Summary]
    by_seed: Mapping[tuple[str, str, str], Mapping[int, float]]
    across: str | None
    panels: tuple[Panel, ...]
    fixed: Mapping[str, Any]
    sentences: Mapping[str, str]
    parameters: Mapping[str, str]
    timings: tuple[Timing, ...]
    failures: tuple[Failure, ...]
    warnings: tuple[Failure, ...]
    units: int
    failed: int
    seconds: float
    fingerprints: tuple[str, ...]
    versions: tuple[str, ...]
    commits: tuple[str, ...]
    commands: tuple[str, ...]
    finished: tuple[datetime, datetime]

    def known(self, setting: str, method: str, measure: str) -> Summary | None:
        """The summary of a method there; None where no seed of it finished."""
        found = self.cells.get((setting, method, measure))
        return None if found is None or math.isnan(found.mean) else found

    @property
    def settings(self) -> tuple[str, ...]:
        """All settings as JSON, panel by panel."""
        return tuple(setting for panel in self.panels for setting in panel.settings)

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop of rounds, shown round by round."""
        return self.across == "loop.rounds"

    @property
    def rivals(self) -> tuple[str, ...]:
        """The methods that see no labels."""
        return tuple(label for label, method in self.methods.items() if not method.sees_labels)

    @cached_property
    def has_values(self) -> bool:
        """Whether anything finished."""
        return any(not math.isnan(cell.mean) for cell in self.cells.values())

    @cached_property
    def has_intervals(self) -> bool:
        """Whether anything was repeated with a second seed."""
        return any(cell.interval is not None for cell in self.cells.values())

    @cached_property
    def has_gaps(self) -> bool:
        """Whether Naive and Oracle were run, and Oracle is better."""
        return any(not math.isnan(cell.gap) for cell in self.cells.values())


def sections(table: pa.Table) -> tuple[Section, ...]:
    """The sections of a table of results, the paper's experiments first."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["experiment"], row["data"]].append(row)
    cells: dict[tuple[str, str], list[Summary]] = defaultdict(list)
    for cell in summary(table):
        cells[cell.experiment, cell.data].append(cell)
    values: dict[tuple[str, str], dict[Cell, dict[int, float]]] = defaultdict(dict)
    for place, seeds in per_seed(table).items():
        values[place.experiment, place.data][place] = seeds
    order = sorted(rows, key=lambda key: (_experiment_order(key[0]), key[1]))
    names: list[str] = []
    for key in order:
        name = anchor("-".join(key))[:_LONGEST_NAME]
        another = (f"{name}-{number}" for number in range(2, len(order) + 2))
        names.append(name if name not in names else next(one for one in another if one not in names))
    return tuple(_section(name, rows[key], cells[key], values[key]) for name, key in zip(names, order, strict=True))


def who_took_part(found: Iterable[Section]) -> list[Identity]:
    """The methods of some sections."""
    return list({label: method for section in found for label, method in section.methods.items()}.values())


def _section(
    name: str, rows: list[dict[str, Any]], cells: list[Summary], values: Mapping[Cell, Mapping[int, float]]
) -> Section:
    units = {(row["fold"], row["setting"], row["method"], row["seed"]): row for row in rows}
    fits = {row["unit"]: row for row in units.values()}
    configurations = {key: json.loads(row["configuration"] or "{}") for key, row in units.items()}
    settings = sorted({cell.setting for cell in cells}, key=setting_order)
    across, panels = _panels(settings)
    told = {key[2]: configuration for key, configuration in configurations.items()}
    known = sorted((identify(label, found) for label, found in told.items()), key=lambda one: one.order)
    methods = {one.label: one for one in known}
    failed = [row for row in units.values() if row["status"] != "ok"]
    warned = [{**row, "error": text} for row in units.values() for text in dict.fromkeys(_list(row["warnings"]))]
    return Section(
        name=name,
        experiment=cells[0].experiment,
        data=cells[0].data,
        synthetic=cells[0].synthetic,
        folds=_distinct(rows, "fold"),
        seeds=tuple(sorted({row["seed"] for row in rows})),
        methods=methods,
        measures=tuple(dict.fromkeys(cell.measure for cell in cells)),
        cells={(cell.setting, cell.method, cell.measure): cell for cell in cells},
        by_seed={(place.setting, place.method, place.measure): seeds for place, seeds in values.items()},
        across=across,
        panels=panels,
        fixed=_fixed(configurations.values()),
        sentences={label: method_sentence(label, found) for label, found in told.items()},
        parameters=_parameters(methods, ((key[2], found) for key, found in configurations.items())),
        timings=_timings(methods, fits.values()),
        failures=_failures(methods, failed),
        warnings=_failures(methods, warned),
        units=len(units),
        failed=len(failed),
        seconds=math.fsum(row["seconds"] for row in fits.values() if not math.isnan(row["seconds"])),
        fingerprints=_distinct(rows, "data_fingerprint"),
        versions=tuple(map(_versions, _distinct(rows, "versions"))),
        commits=_distinct(rows, "commit"),
        commands=_distinct(rows, "command"),
        finished=(min(row["finished"] for row in rows), max(row["finished"] for row in rows)),
    )


def _panels(settings: list[str]) -> tuple[str | None, tuple[Panel, ...]]:
    """The key that varies most among those of numbers, and a panel for every value of the others."""
    varied = {setting: json.loads(setting) for setting in settings}
    values: dict[str, set[Any]] = defaultdict(set)
    for chosen in varied.values():
        for key, value in chosen.items():
            values[key].add(json.dumps(value))
    numeric = [
        key
        for key in sorted(values)
        if len(values[key]) > 1 and all(_is_finite(chosen.get(key)) for chosen in varied.values())
    ]
    across = max(numeric, key=lambda key: len(values[key]), default=None)
    groups: dict[str, list[str]] = defaultdict(list)
    for setting, chosen in varied.items():
        others = [(key, value) for key, value in chosen.items() if key != across and len(values[key]) > 1]
        groups[", ".join(f"{key_name(key)} = {setting_value(value)}" for key, value in others)].append(setting)
    if across is None:
        return None, tuple(Panel(label, (setting,)) for label, found in groups.items() for setting in found)
    return across, tuple(
        Panel(label, tuple(ordered), tuple(float(varied[setting][across]) for setting in ordered))
        for label, found in groups.items()
        for ordered in [sorted(found, key=lambda setting: float(varied[setting][across]))]
    )


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _experiment_order(name: str) -> tuple[int, str]:
    """In the paper's order, then others by name."""
    return (SHIPPED.index(name) if name in SHIPPED else len(SHIPPED)), name


def _fixed(configurations: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What all configurations that have it agree on: Oracle's has nothing about clicks."""
    found = [dict(dotted({part: entry[part] for part in _SHARED if part in entry})) for entry in configurations]
    known = {key: value for entry in found for key, value in entry.items() if key not in _SHOWN_ELSEWHERE}
    return {key: value for key, value in known.items() if all(other.get(key, value) == value for other in found)}


def _parameters(methods: Iterable[str], configurations: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """The class and parameters of each method; all values, where units differ."""
    values: dict[str, dict[str, list[str]]] = {label: defaultdict(list) for label in methods}
    for label, configuration in configurations:
        method = configuration.get("method", {})
        chosen = {**method.get("defaults", {}), **method.get("parameters", {}), **configuration.get("tuned", {})}
        for key, value in {"class": method.get("class", ""), **chosen}.items():
            if key != "seed" and value is not None and setting_value(value) not in values[label][key]:
                values[label][key].append(setting_value(value))
    return {
        label: ", ".join([*found.pop("class", []), *(f"{key} = {' or '.join(found[key])}" for key in sorted(found))])
        for label, found in values.items()
    }


def _timings(methods: Iterable[str], fits: Iterable[dict[str, Any]]) -> tuple[Timing, ...]:
    by_method: dict[str, list[dict[str, Any]]] = {label: [] for label in methods}
    for row in fits:
        if row["status"] == "ok":
            by_method[row["method"]].append(row)
    found = []
    for method, rows in by_method.items():
        seconds = [row["seconds"] for row in rows]
        if seconds:
            peak = max(row["peak_mib"] for row in rows)
            found.append(Timing(method, len(seconds), median(seconds), min(seconds), max(seconds), peak))
    return tuple(found)


def _failures(methods: Iterable[str], rows: list[dict[str, Any]]) -> tuple[Failure, ...]:
    order = {label: place for place, label in enumerate(methods)}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["method"], row["error"]].append(row)
    return tuple(
        Failure(method, error, len(found), _where(found))
        for (method, error), found in sorted(groups.items(), key=lambda entry: (order[entry[0][0]], entry[0][1]))
    )


def _where(rows: list[dict[str, Any]]) -> str:
    """The settings and seeds of some units in words."""
    seeds: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        seeds[row["setting"]].add(row["seed"])
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for setting in sorted(seeds, key=setting_order):
        named = ", ".join(map(str, sorted(seeds[setting])))
        *outer, inner = json.loads(setting).items() or [("", "")]
        before = "".join(f"{key_name(key)} = {setting_value(value)}, " for key, value in outer)
        alike[before, key_name(inner[0]), f"seed{'s' * (len(seeds[setting]) > 1)} {named}"].append(
            setting_value(inner[1])
        )
    places = [
        f"{before}{key} = {', '.join(values)}: {named}" if key else named
        for (before, key, named), values in alike.items()
    ]
    more = f"; and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return "; ".join(places[:_MOST_PLACES]) + more


def _distinct(rows: list[dict[str, Any]], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[key] for row in rows if row[key]))


def _list(text: str | None) -> list[str]:
    return [str(entry) for entry in json.loads(text or "[]")]


def _versions(text: str) -> str:
    found = json.loads(text)
    return ", ".join(f"{name} {version}" for name, version in found.items()) if isinstance(found, dict) else text


def anchor(text: str) -> str:
    """A text as a name for files and anchors: small letters, digits and hyphens.

    >>> anchor("table1-Web10K <b>")
    'table1-web10k-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "results"
