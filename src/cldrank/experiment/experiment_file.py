"""`Experiment`: what to run, read from a small TOML file; `docs/how-to/experiments.md` shows all keys."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cldrank.arguments import shortened
from cldrank.decoding import change, check_keys, check_plain, decode, decode_text, dotted, merged, nested
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.experiment.makers import check_use
from cldrank.parameters import Value, parameter, value
from cldrank.reading import reading
from cldrank.wording import listed

SHIPPED = (
    "table1", "rq1-cutoff", "rq1-position", "rq2-sessions", "rq3-noise", "rq4-misspecified", "rq5-models", "rq6-robust",
)  # fmt: skip
_VARIABLE = ("production", "simulation", "methods")
_LAST_SEED = (1 << 32) - 1
_MOST_SEEDS = 1_000


# -- sections ------------------------------------------------------------------------------------------------------


@value
class Data(Value):
    """The data: a set of the catalogue, a synthetic kind, or a folder of files."""

    name: str = parameter(default="", about="`msrd`, …, `web10k-like`, …, or a folder with train and test files")
    queries: int = parameter(default=1000, least=1, most=1_000_000, about="queries to train on, of a synthetic set")
    test_queries: int = parameter(default=500, least=1, most=1_000_000, about="queries to test on, of a synthetic set")
    seed: int = parameter(default=0, least=0, about="the seed of a synthetic set")


@value
class ProductionSettings(Value):
    """The ranker whose pages people saw: SVMRank, trained on a fraction of the labels that each seed draws anew."""

    fraction: float = parameter(default=0.01, above=0, most=1, about="the share of the labels")


@value
class SimulationSettings(Value):
    """Position-based clicks on the production ranker's top results."""

    sessions: int = parameter(default=100_000, least=1, about="how many pages are shown")
    depth: int = parameter(default=5, least=1, about="results per page, K")
    eta: float = parameter(default=1.0, least=0, about="severity of position bias")
    noise: float = parameter(default=0.1, least=0, most=1, about="probability of a click on an irrelevant result")
    relevant_from: float | None = parameter(default=None, about="lowest relevant label; 3 if labels reach it, else 1")
    assumed_eta: float | None = parameter(default=None, least=0, about="the eta that methods assume, if not eta")


_SECTIONS: dict[str, type[Value]] = {"data": Data, "production": ProductionSettings, "simulation": SimulationSettings}


@dataclass(frozen=True)
class MethodEntry:
    """A method that takes part: a label, a registered name or `module:Class`, and parameters."""

    label: str
    use: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


# -- the whole -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """All that an experiment file says. `table` is the file itself with all changes; settings are made from it.

    `device` goes to each method that can use it and has none in the file.

    >>> noise = read("rq3-noise", seeds=2)
    >>> len(noise.settings()), [setting.varied for setting in noise.settings()][1]
    (4, '{"simulation.noise": 0.1}')
    """

    name: str
    title: str
    data: Data
    production: ProductionSettings
    simulation: SimulationSettings
    methods: tuple[MethodEntry, ...]
    vary: Mapping[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    measures: tuple[str, ...]
    device: str | None
    table: Mapping[str, Any]
    source: str

    def settings(self) -> list[Setting]:
        """Every combination of what varies."""
        return [
            self._setting(dict(zip(self.vary, values, strict=True)))
            for values in itertools.product(*self.vary.values())
        ]

    def _setting(self, chosen: dict[str, Any]) -> Setting:
        table = {key: value for key, value in self.table.items() if key != "vary"}
        for key in chosen:
            table = merged(table, nested(key, chosen[key]))
        experiment = _experiment(table, self.name, self.source)
        decoded = {}
        for key, given in chosen.items():  # as it is after decoding: 1 for eta is 1.0
            section, _, name = key.partition(".")
            decoded[key] = given if section == "methods" else getattr(getattr(experiment, section), name)
        return Setting(json.dumps(decoded, sort_keys=True), experiment)

    def restricted(self, wanted: Sequence[str]) -> Experiment:
        """Only the methods named, by label or else by registered name; `module:Class` adds your own class."""
        entries = self.table["methods"]
        own = {name.rpartition(":")[2]: {"use": name} for name in wanted if ":" in name}
        named = [name for name in wanted if ":" not in name]
        labels = {method.use.casefold(): method.label for method in reversed(self.methods)}
        labels |= {method.label.casefold(): method.label for method in self.methods}
        for name in named:
            if name.casefold() not in labels:
                raise UsageError(
                    f"{self.name} has no method {name!r}; it has {listed(entries)}. A class of your own is named "
                    "module:Class; an experiment file may name others."
                )
        if not own.keys().isdisjoint(entries):
            raise UsageError(
                f"there is a method {listed(own)} already; give yours another label in an experiment file."
            )
        chosen = {labels[name.casefold()]: entries[labels[name.casefold()]] for name in named} if named else entries
        described = {**chosen, **own}
        return replace(self, methods=_methods(described), table={**self.table, "methods": described})


@dataclass(frozen=True)
class Setting:
    """An experiment in which nothing varies, and the values that were chosen for what did, as JSON."""

    varied: str
    experiment: Experiment


def shipped() -> list[Experiment]:
    """The experiments that come with the package, in the paper's order."""
    return [read(name) for name in SHIPPED]


def read(
    source: str | Path,
    *,
    data: str | None = None,
    changes: Sequence[str] = (),
    seeds: int | None = None,
    methods: Sequence[str] = (),
) -> Experiment:
    """The experiment of a shipped name or of a file, with changes.

    data      another data set
    changes   `key=value`, as in the file: `simulation.noise=0.2`, `methods.CLD.gamma=0.3`, `vary.simulation.eta=[0, 1]`
    seeds     how many seeds
    methods   see `Experiment.restricted`
    """
    name, text, place = _located(source)
    with reading(place, "a TOML file"):
        table = tomllib.loads(text)
    try:
        return _checked(_experiment(_changed(table, data, changes, seeds), name, place).restricted(methods))
    except CldrankError as error:
        if data is not None or changes or seeds is not None or methods:
            raise UsageError(f"{place}: {error}") from None
        raise FormatError(str(error), path=place) from None


def _located(source: str | Path) -> tuple[str, str, str]:
    """Name, text and place of an experiment."""
    path = Path(source)
    if str(source) in SHIPPED:
        file = resources.files("cldrank.experiment").joinpath("shipped", f"{source}.toml")
        return str(source), file.read_text(encoding="utf-8"), f"{source}.toml"
    if path.is_file():
        with reading(path, "a text file in UTF-8"):
            return path.stem, path.read_text(encoding="utf-8"), str(path)
    raise UsageError(f"{shortened(str(source))}: there is no such experiment or file; shipped are {listed(SHIPPED)}.")


def _changed(
    table: Mapping[str, Any], data: str | None, changes: Sequence[str], seeds: int | None
) -> Mapping[str, Any]:
    table = dict(table)
    if isinstance(table.get("data"), str):
        table["data"] = {"name": table["data"]}
    if data is not None:
        old = table.get("data", {})
        kept = {key: old[key] for key in ("queries", "test_queries", "seed") if key in old}
        table["data"] = {**kept, "name": data}
    if seeds is not None:
        table["seeds"] = seeds
    check_plain(table)
    varied = {key for key, _ in dotted(table.get("vary", {}))}
    for text in changes:
        made = change(text)
        for key, _ in dotted(made):
            if key in varied:
                raise UsageError(f"{shortened(text)}: {key} varies here; write vary.{key}=[…] for other values.")
        table = merged(table, made)
    return table


def _checked(experiment: Experiment) -> Experiment:
    """The experiment, with every setting made once, so that wrong values are refused now."""
    labels = [method.label for method in experiment.methods]
    for key in experiment.vary:
        if key.startswith("methods.") and not any(key.startswith(f"methods.{label}.") for label in labels):
            raise UsageError(f"vary.{key}: there is no such method here; there are {listed(labels)}.")
    experiment.settings()
    return experiment


def _experiment(table: Mapping[str, Any], name: str, place: str) -> Experiment:
    from cldrank.measures import parse_all

    check_keys(table, ("title", "seeds", "measures", "device", "methods", "vary", *_SECTIONS), "")
    if "data" not in table:
        raise UsageError('data is missing; name a data set: data = "msrd".')
    content = {**table, "data": {"name": table["data"]} if isinstance(table["data"], str) else table["data"]}
    sections: dict[str, Any] = {key: decode(kind, content.get(key, {}), key) for key, kind in _SECTIONS.items()}
    measures = table.get("measures", ["nDCG@1", "nDCG@3", "AP"])
    texts = [measures] if isinstance(measures, str) else measures
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise UsageError(f'measures must be a list such as ["nDCG@3", "AP"], not {shortened(measures)}.')
    return Experiment(
        name=name,
        title=decode_text(table.get("title", name), "title"),
        **sections,
        methods=_methods(table.get("methods", {})),
        vary=_vary(table.get("vary", {})),
        seeds=_seeds(table.get("seeds", 5)),
        measures=tuple(str(measure) for measure in parse_all(texts)),
        device=decode_text(table["device"], "device") if "device" in table else None,
        table=table,
        source=place,
    )


def _methods(table: Any) -> tuple[MethodEntry, ...]:
    if not isinstance(table, Mapping) or not table:
        raise UsageError("methods is missing; name at least one: [methods] and a line such as CLD = { gamma = 0.1 }.")
    return tuple(_method(label, entry) for label, entry in table.items())


def _method(label: str, entry: Any) -> MethodEntry:
    place = f"methods.{label}"
    if not isinstance(entry, Mapping):
        raise UsageError(f'{place} must be a table such as {{ use = "cld", gamma = 0.1 }}, not {shortened(entry)}.')
    use = decode_text(entry.get("use", label.lower()), f"{place}.use")
    check_use(use, place)
    return MethodEntry(label, use, {key: entry[key] for key in entry if key != "use"})


def _vary(table: Any) -> dict[str, tuple[Any, ...]]:
    """The values of `[vary]`, by dotted key."""
    if not isinstance(table, Mapping):
        raise UsageError(f"vary must be a table of keys and their values, not {shortened(table)}.")
    for key, values in dotted(table):
        if key.partition(".")[0] not in _VARIABLE:
            raise UsageError(f"vary.{key}: only keys of {listed(_VARIABLE)} can vary, such as simulation.noise.")
        if not isinstance(values, list) or not values:
            raise UsageError(f"vary.{key} must be a list of values, not {shortened(values)}.")
    return {key: tuple(values) for key, values in dotted(table)}


def _seeds(given: Any) -> tuple[int, ...]:
    if type(given) is int and 1 <= given <= _MOST_SEEDS:  # true and false are not numbers
        return tuple(range(given))
    if isinstance(given, list) and given and all(type(seed) is int and 0 <= seed <= _LAST_SEED for seed in given):
        return tuple(dict.fromkeys(given))
    raise UsageError(
        f"seeds must be a number of seeds from 1 to {_MOST_SEEDS}, or a list of seeds from 0 to {_LAST_SEED}, not "
        f"{shortened(given)}."
    )
