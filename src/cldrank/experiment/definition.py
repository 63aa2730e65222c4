"""`Experiment`: what to run, as a small TOML file says it.

title = "How noise harms"
data = "msrd"
seeds = 5
measures = ["nDCG@1", "nDCG@3", "AP"]

[simulation]
cutoff = 5
eta = 1.0

[methods]
Naive = {}
CLD = { gamma = 0.1 }

[vary]
simulation.noise = [0.0, 0.1, 0.2]
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.experiment.changes import change, flat, flat_pairs, merged, nested
from cldrank.experiment.decoding import bounded, check_keys, check_plain, decode, shown
from cldrank.reading import reading

SHIPPED = (
    "table1", "rq1-cutoff", "rq1-position", "rq2-sessions", "rq3-noise", "rq4-misspecified", "rq5-models",
)  # fmt: skip

_SECTIONS = ("title", "data", "seeds", "measures", "device", "production", "simulation", "tuning", "methods", "vary")
_VARIABLE = ("production", "simulation", "methods")
_MOST_UNITS = 100_000  # of one run: each is planned, kept in a file and read again before any is run
_LAST_SEED = (1 << 32) - 1


@dataclass(frozen=True)
class Data:
    """The data: a set of the catalogue, a synthetic kind, or files.

    name           `msrd`, `mq2008`, …, `web10k-like`, …, or a folder with train and test files
    folds          which folds of a set that comes in folds; none named: as is the custom of that set
    train, test    files, folders or patterns, in place of a name
    queries        a synthetic set: how many queries to train on, to test on, and the seed of the set
    test_queries
    seed
    """

    name: str = ""
    folds: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    queries: int = bounded(1000, 1, 1_000_000)
    test_queries: int = bounded(500, 1, 1_000_000)
    seed: int = bounded(0, 0)


@dataclass(frozen=True)
class Production:
    """The ranker whose pages people saw: SVMRank on a fraction of the labels, drawn anew by each seed."""

    fraction: float = bounded(0.01, 0, 1, above=True)
    C: float = bounded(0.01, 0, above=True)
    sample: str = "queries"
    max_pairs: int = bounded(20_000, 1)


@dataclass(frozen=True)
class Simulation:
    """Position-based clicks on the production ranker's top results.

    assumed_eta     what the methods take eta for; the true one if not given
    relevant_from   the lowest label that counts as relevant; 3 where labels reach it, else 1, if not given
    """

    sessions: int = bounded(100_000, 1)
    cutoff: int = bounded(5, 1)
    eta: float = bounded(1.0, 0)
    noise: float = bounded(0.1, 0, 1)
    relevant_from: float | None = None
    assumed_eta: float | None = bounded(None, 0)


@dataclass(frozen=True)
class Tuning:
    """How `tune` tables choose: by the clicks on a held-out share of the training queries, with the first seed."""

    held_out: float = bounded(0.2, 0, 0.9, above=True)


@dataclass(frozen=True)
class Method:
    """A method to take part: a label, a registered name or `module:Class`, parameters, and which to tune."""

    label: str
    use: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """All that an experiment file says. `table` is the file itself with all changes, from which settings are made.

    `device` is given to each method that takes one and has none of its own.

    >>> noise = read("rq3-noise", seeds=2)
    >>> len(noise.settings()), [setting.varied for setting in noise.settings()][1]
    (4, '{"simulation.noise": 0.1}')
    """

    name: str
    title: str
    data: Data
    production: Production
    simulation: Simulation
    tuning: Tuning
    methods: tuple[Method, ...]
    vary: Mapping[str, tuple[Any, ...]]
    seeds: Sequence[int]
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

    def check_size(self, folds: int = 1) -> None:
        """Refuse more units than can be planned, before any is made."""
        counts = {
            "folds": folds,
            "settings": math.prod(map(len, self.vary.values())),
            "methods": len(self.methods),
            "seeds": len(self.seeds),
        }
        total = math.prod(counts.values())
        if total > _MOST_UNITS:
            several = [f"{count:,} {name}" for name, count in counts.items() if count > 1]
            raise UsageError(
                f"{', '.join(several[:-1])}{' and ' if several[1:] else ''}{several[-1]} make {total:,} units, and "
                f"there may be at most {_MOST_UNITS:,} in one run. Take fewer seeds or values, or several runs with a "
                "part of the seeds each (seeds = [0, 1, 2]) and the same --out."
            )

    def _setting(self, chosen: dict[str, Any]) -> Setting:
        table = {key: value for key, value in self.table.items() if key != "vary"}
        for key, value in chosen.items():
            table = merged(table, nested(key, value))
        experiment = _decoded(table, self.name, self.source)
        taken = {key: _looked_up(experiment, key, value) for key, value in chosen.items()}
        return Setting(json.dumps(taken, sort_keys=True), experiment)

    def restricted(self, wanted: Sequence[str]) -> Experiment:
        """Only the methods named, by label or registered name; `module:Class` adds one to those the file has."""
        if not wanted:
            return self
        from cldrank.experiment.methods import check_use

        added = [name for name in wanted if ":" in name]
        named = [name for name in wanted if ":" not in name]
        methods = [_named(self, name) for name in named] if named else list(self.methods)
        for name in dict.fromkeys(added):
            check_use(name, "--method")
            methods.append(Method(name.rpartition(":")[2], name))
        described: dict[str, Any] = {}
        for method in methods:
            entry = {"use": method.use, **method.parameters, **({"tune": method.tune} if method.tune else {})}
            if described.setdefault(method.label, entry) != entry:
                raise UsageError(
                    f"two methods would be called {method.label}; name yours in an experiment file, with a label of "
                    f'its own: Mine = {{ use = "{method.use}" }}.'
                )
        unique = {method.label: method for method in methods}
        return replace(self, methods=tuple(unique.values()), table={**self.table, "methods": described})


@dataclass(frozen=True)
class Setting:
    """An experiment in which nothing varies any more, and the values that were chosen for it, as JSON."""

    varied: str
    experiment: Experiment


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
    name, text, place = _found(source)
    with reading(place, "a TOML file"):
        table = tomllib.loads(text)
    try:
        return _made(_changed(table, data, changes, seeds), name, place, methods)
    except FormatError as error:
        if (data is None and seeds is None and not changes) or not _is_sound(table, name, place):
            raise
        raise UsageError(str(error)) from None  # the file is fine: it is the call that is wrong


def _changed(
    table: Mapping[str, Any], data: str | None, changes: Sequence[str], seeds: int | None
) -> Mapping[str, Any]:
    table = dict(table)
    if data is not None:
        old = table.get("data", {})
        kept = old if isinstance(old, Mapping) else {}
        table["data"] = {key: kept[key] for key in ("queries", "test_queries", "seed") if key in kept} | {"name": data}
    if seeds is not None:
        table["seeds"] = seeds
    check_plain(table)
    varied = flat(table.get("vary", {}))
    for text in changes:
        made = change(text)
        _check_not_varied(made, varied, text)
        if isinstance(table.get("data"), str) and isinstance(made.get("data"), Mapping):
            table["data"] = {"name": table["data"]}
        table = merged(table, made)
    return table


def _made(table: Mapping[str, Any], name: str, place: str, methods: Sequence[str] = ()) -> Experiment:
    experiment = _decoded(table, name, place).restricted(methods)
    try:
        experiment.check_size()
        labels = [method.label for method in experiment.methods]
        for key in experiment.vary:
            if key.startswith("methods.") and not any(key.startswith(f"methods.{label}.") for label in labels):
                raise UsageError(f"vary.{key}: there is no such method here; there are {', '.join(labels)}.")
        settings = [setting.varied for setting in experiment.settings()]  # a wrong value is refused now
        if len(set(settings)) < len(settings):
            twice = next(one for one in settings if settings.count(one) > 1)
            raise UsageError(f"vary gives the same setting twice: {twice}.")
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(str(error), path=place) from None
    return replace(experiment, seeds=tuple(experiment.seeds))


def _is_sound(table: Mapping[str, Any], name: str, place: str) -> bool:
    """Whether a file says what an experiment must say."""
    try:
        _made(_changed(table, None, (), None), name, place)
    except CldrankError:
        return False
    return True


def shipped() -> list[Experiment]:
    """The experiments that come with the package, in the paper's order."""
    return [read(name) for name in SHIPPED]


def _found(source: str | Path) -> tuple[str, str, str]:
    """Name, text and place of an experiment."""
    path = Path(source)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # no name of a file at all
        is_file = False
    if str(source) in SHIPPED:
        file = resources.files("cldrank.experiment").joinpath("shipped", f"{source}.toml")
        return str(source), file.read_text(encoding="utf-8"), f"{source}.toml"
    if is_file:
        with reading(path, "a text file in UTF-8"):
            return path.stem, path.read_text(encoding="utf-8"), str(path)
    told = str(source) if len(str(source)) < 200 else shown(str(source))
    raise UsageError(f"{told}: there is no such experiment or file; shipped are {', '.join(SHIPPED)}, and all.")


def _decoded(table: Mapping[str, Any], name: str, place: str) -> Experiment:
    try:
        return _experiment(table, name, place)
    except FormatError:
        raise
    except CldrankError as error:
        raise FormatError(str(error), path=place) from None


def _experiment(table: Mapping[str, Any], name: str, place: str) -> Experiment:
    from cldrank.measures import parse_all

    check_keys(table, _SECTIONS, "")
    if "data" not in table:
        raise UsageError('data is missing; name a data set: data = "msrd".')
    data = {"name": table["data"]} if isinstance(table["data"], str) else table["data"]
    measures = table.get("measures", ["nDCG@1", "nDCG@3", "AP"])
    if not (isinstance(measures, str) or _is_list_of_texts(measures)) or not measures:
        raise UsageError(f'measures must be a list such as ["nDCG@3", "AP"], not {shown(measures)}.')
    return Experiment(
        name=name,
        title=decode(_Title, {"title": table.get("title", name)}, "").title,
        data=decode(Data, data, "data"),
        production=decode(Production, table.get("production", {}), "production"),
        simulation=decode(Simulation, table.get("simulation", {}), "simulation"),
        tuning=decode(Tuning, table.get("tuning", {}), "tuning"),
        methods=_methods(table.get("methods", {})),
        vary=_varied(table.get("vary", {})),
        seeds=_seeds(table.get("seeds", 5)),
        measures=tuple(str(measure) for measure in parse_all(measures)),
        device=decode(_Device, {"device": table["device"]}, "").device if "device" in table else None,
        table=table,
        source=place,
    )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


@dataclass(frozen=True)
class _Title:
    title: str


@dataclass(frozen=True)
class _Device:
    device: str


def _methods(table: Any) -> tuple[Method, ...]:
    if not isinstance(table, Mapping) or not table:
        raise UsageError("methods is missing; name at least one: [methods] and a line such as CLD = { gamma = 0.1 }.")
    return tuple(_method(label, entry) for label, entry in table.items())


def _method(label: str, entry: Any) -> Method:
    from cldrank.experiment.methods import check_use

    if not isinstance(entry, Mapping):
        raise UsageError(f'methods.{label} must be a table such as {{ use = "cld", gamma = 0.1 }}, not {shown(entry)}.')
    use = entry.get("use", label.lower())
    if not isinstance(use, str):
        raise UsageError(f"methods.{label}.use must be a text, not {shown(use)}.")
    check_use(use, f"methods.{label}")
    parameters = {key: value for key, value in entry.items() if key not in ("use", "tune")}
    tune = entry.get("tune", {})
    if not isinstance(tune, Mapping):
        raise UsageError(f"methods.{label}.tune must be a table of parameters and their values, not {shown(tune)}.")
    grids = {key: _grid(values, f"methods.{label}.tune.{key}") for key, values in tune.items()}
    tries = math.prod(map(len, grids.values()))
    if tries > _MOST_UNITS:
        raise UsageError(f"methods.{label}.tune makes {tries:,} combinations; at most {_MOST_UNITS:,} can be tried.")
    return Method(label, use, parameters, grids)


def _grid(values: Any, place: str) -> tuple[Any, ...]:
    """The values to try: a list of them, or so many between a low and a high one."""
    from cldrank.experiment.tuning import Range

    if isinstance(values, list | tuple) and values:
        return tuple(values)
    if isinstance(values, Mapping):
        found = decode(Range, values, place).values()
        check_plain(found, place)
        return found
    raise UsageError(
        f"{place} must be a list of values, or {{ low = 0.05, high = 0.3, points = 4 }}, not {shown(values)}."
    )


def _varied(table: Any) -> dict[str, tuple[Any, ...]]:
    if not isinstance(table, Mapping):
        raise UsageError(f"vary must be a table of keys and their values, not {shown(table)}.")
    found: dict[str, tuple[Any, ...]] = {}
    for key, values in flat_pairs(table):
        if key in found:
            raise UsageError(f"vary.{key} is given twice.")
        if key.partition(".")[0] not in _VARIABLE:
            raise UsageError(f"vary.{key}: what may vary lies in {', '.join(_VARIABLE)}: simulation.noise, say.")
        if not isinstance(values, list) or not values:
            raise UsageError(f"vary.{key} must be a list of values, not {shown(values)}.")
        found[key] = tuple(values)
    return found


def _seeds(value: Any) -> Sequence[int]:
    """The seeds; so many of them are not yet written out, as `check_size` may refuse them."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LAST_SEED + 1:
        return range(value)
    whole = isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
    if whole and value and min(value) >= 0 and max(value) <= _LAST_SEED:
        return tuple(dict.fromkeys(value))
    raise UsageError(
        f"seeds must be how many (at least 1), or a list of seeds from 0 to {_LAST_SEED}, not {shown(value)}."
    )


def _named(experiment: Experiment, name: str) -> Method:
    from cldrank.experiment.methods import find, named

    for method in experiment.methods:
        if name.casefold() in (method.label.casefold(), method.use.casefold()):
            return method
    kind = find(name)
    if kind is not None:
        return Method(kind.label, kind.name)
    labels = ", ".join(method.label for method in experiment.methods)
    raise UsageError(
        f"{experiment.name} has no method {name!r}; it has {labels}. There are also {', '.join(named())}; "
        "a class of your own is named module:Class."
    )


def _check_not_varied(made: Mapping[str, Any], varied: Mapping[str, Any], text: str) -> None:
    for key in flat(made):
        if key in varied:
            raise UsageError(f"{shown(text)}: {key} varies here; say vary.{key}=[…] for other values.")


def _looked_up(experiment: Experiment, key: str, value: Any) -> Any:
    """The value that a key has after checking: 1 for eta is 1.0."""
    section, _, name = key.partition(".")
    return value if section == "methods" else getattr(getattr(experiment, section), name)
