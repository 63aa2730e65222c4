"""What a report is about: results sorted into one section for each experiment on each data set."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cldrank.decoding import dotted
from cldrank.documents.numbers import plain_number
from cldrank.experiment.definition import SHIPPED, read
from cldrank.experiment.makers import Identity, identify
from cldrank.experiment.results import Summary, setting_order, summary

# the keys of an experiment's settings that have a name in plain words: the name, and what is written below an axis
_KEYS = {
    "simulation.depth": ("depth K", "depth K: how many results are shown"),
    "simulation.eta": ("η", "η: severity of position bias"),
    "simulation.sessions": ("sessions", "click sessions"),
    "simulation.noise": ("click noise", "click noise: chance to click an irrelevant result"),
    "simulation.assumed_eta": ("assumed η", "η assumed by the methods"),
    "loop.rounds": ("rounds", "rounds: deployed, logged, retrained"),
    "production.fraction": ("labels of the production ranker", "share of labels the production ranker learned from"),
}
_SHARED = ("data", "production", "simulation", "propensities")  # of a configuration: the same for all methods
_SHOWN_ELSEWHERE = ("data.name", "data.fold", "data.fingerprint")


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
class Section:
    """One experiment on one data set.

    name        for links and files; no two sections share one
    units       a row of the results for each fold, setting, method and seed, its configuration decoded
    methods     who took part, by label, in the order that all lists have
    cells       the summary, by setting, method and measure
    across      the key on the horizontal axis; None where nothing numeric varies
    """

    name: str
    title: str
    data: str
    synthetic: bool
    units: tuple[Mapping[str, Any], ...]
    methods: Mapping[str, Identity]
    measures: tuple[str, ...]
    cells: Mapping[tuple[str, str, str], Summary]
    across: str | None
    panels: tuple[Panel, ...]

    def known(self, setting: str, method: str, measure: str) -> Summary | None:
        """The summary of a method there; None where no seed of it finished."""
        cell = self.cells.get((setting, method, measure))
        return None if cell is None or math.isnan(cell.mean) else cell

    def leading(self, setting: str, measure: str) -> list[Summary]:
        """The best of those that see no labels and those tied with it; none with one seed."""
        cells = (self.known(setting, method, measure) for method in self.rivals)
        return [cell for cell in cells if cell is not None and (cell.best or cell.tied)]

    @property
    def settings(self) -> tuple[str, ...]:
        """All settings as JSON, panel by panel."""
        return tuple(setting for panel in self.panels for setting in panel.settings)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The methods that see no labels."""
        return tuple(label for label, method in self.methods.items() if not method.sees_labels)

    @property
    def seeds(self) -> list[int]:
        """All seeds, in order."""
        return sorted({unit["seed"] for unit in self.units})

    @property
    def fits(self) -> list[Mapping[str, Any]]:
        """The units, each once even if it counts for several settings."""
        return list({unit["unit"]: unit for unit in self.units}.values())

    def distinct(self, key: str) -> list[str]:
        """The different values that units have for a key."""
        return list(dict.fromkeys(unit[key] for unit in self.units if unit[key]))

    @cached_property
    def fixed(self) -> dict[str, Any]:
        """What was simulated on which data, as far as all units that say it agree, with dotted keys."""
        parts = [unit["configuration"] for unit in self.units]  # Oracle's has nothing about clicks
        flat = [dict(dotted({name: part[name] for name in _SHARED if name in part})) for part in parts]
        known = {key: value for entry in flat for key, value in entry.items() if key not in _SHOWN_ELSEWHERE}
        return {key: value for key, value in known.items() if all(entry.get(key, value) == value for entry in flat)}

    @cached_property
    def has_intervals(self) -> bool:
        """Whether anything was repeated with a second seed."""
        return any(cell.interval is not None for cell in self.cells.values())

    @cached_property
    def has_gaps(self) -> bool:
        """Whether Naive and Oracle were run, and Oracle is better."""
        return any(not math.isnan(cell.gap) for cell in self.cells.values())


def sections(table: pa.Table) -> tuple[Section, ...]:
    """The sections of a table of results, the paper's experiments first, in the paper's order."""
    pairs = {(row["experiment"], row["data"]) for row in table.select(["experiment", "data"]).to_pylist()}
    names: list[str] = []
    listed = []
    for experiment, data in sorted(pairs, key=lambda pair: ([*SHIPPED, pair[0]].index(pair[0]), *pair)):
        title = f"{read(experiment).title if experiment in SHIPPED else experiment} ({data})"
        slug = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.lower())) or "results"  # as GitHub and Sphinx name it
        names.append(f"{slug}-{names.count(slug)}" if slug in names else slug)
        own = table.filter((pc.field("experiment") == experiment) & (pc.field("data") == data))
        listed.append(_section(own, names[-1], title))
    return tuple(listed)


def _section(table: pa.Table, name: str, title: str) -> Section:
    units = {(row["fold"], row["setting"], row["method"], row["seed"]): row for row in table.to_pylist()}
    for unit in units.values():
        unit["configuration"] = json.loads(unit["configuration"])
    configurations = {unit["method"]: unit["configuration"] for unit in units.values()}
    methods = sorted((identify(*entry) for entry in configurations.items()), key=lambda method: method.order)
    cells = summary(table)
    across, panels = _panels(sorted({cell.setting for cell in cells}, key=setting_order))
    return Section(
        name=name,
        title=title,
        data=cells[0].data,
        synthetic=cells[0].synthetic,
        units=tuple(units.values()),
        methods={method.label: method for method in methods},
        measures=tuple(dict.fromkeys(cell.measure for cell in cells)),
        cells={(cell.setting, cell.method, cell.measure): cell for cell in cells},
        across=across,
        panels=panels,
    )


def _panels(settings: Sequence[str]) -> tuple[str | None, tuple[Panel, ...]]:
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
    across = max(numeric, key=lambda key: len(values[key]), default=None)
    groups: dict[str, list[str]] = defaultdict(list)
    for setting, varied in chosen.items():
        others = {key: value for key, value in varied.items() if key != across and len(values[key]) > 1}
        groups[setting_words(others)].append(setting)
    if across is None:
        return None, tuple(Panel(label, (setting,)) for label, group in groups.items() for setting in group)
    panels = []
    for label, group in groups.items():
        places = {setting: float(chosen[setting][across]) for setting in group}
        ordered = sorted(group, key=lambda setting: places[setting])
        panels.append(Panel(label, tuple(ordered), tuple(places[setting] for setting in ordered)))
    return across, tuple(panels)


# -- what keys and values are called -----------------------------------------------------------------------------------


def key_name(key: str) -> str:
    """What a varied key is called.

    >>> key_name("simulation.depth"), key_name("method.CLD.gamma")
    ('depth K', 'method.CLD.gamma')
    """
    return _KEYS.get(key, (key, key))[0]


def axis_name(key: str) -> str:
    """What is written below an axis of that key."""
    return _KEYS.get(key, (key, key))[1]


def setting_value(value: Any) -> str:
    """A value of a setting as people write it.

    >>> setting_value(100000), setting_value(0.1), setting_value("pbm"), setting_value(True)
    ('100,000', '0.1', 'pbm', 'true')
    """
    if isinstance(value, str):
        return value
    return plain_number(value) if type(value) in (int, float) else json.dumps(value, ensure_ascii=False)


def setting_words(varied: Mapping[str, Any]) -> str:
    """Varied keys and their values in words.

    >>> setting_words({"simulation.depth": 5, "simulation.sessions": 1000})
    'depth K = 5, sessions = 1,000'
    """
    return ", ".join(f"{key_name(key)} = {setting_value(value)}" for key, value in varied.items())
