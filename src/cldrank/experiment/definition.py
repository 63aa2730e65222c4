"""`Experiment`: what to run, as a small TOML file says it.

title = "How noise harms"
data = "msrd"
seeds = 5
measures = ["nDCG@1", "nDCG@3", "AP"]

[simulation]
depth = 5
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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cldrank.arguments import shortened
from cldrank.decoding import (
    change,
    check_keys,
    check_plain,
    decode,
    decode_text,
    dotted,
    merged,
    nested,
)
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.experiment.entries import (
    MOST_COMBINATIONS,
    Data,
    LoopSettings,
    MethodEntry,
    ProductionSettings,
    SimulationSettings,
    TuningSettings,
    method_entries,
    seeds_of,
    varied_values,
)
from cldrank.reading import reading
from cldrank.wording import listed

SHIPPED = (
    "table1", "rq1-cutoff", "rq1-position", "rq2-sessions", "rq3-noise", "rq4-misspecified", "rq5-models", "rq6-robust",
    "loop",
)  # fmt: skip

_SECTIONS = (
    "title", "data", "seeds", "measures", "device", "production", "simulation", "loop", "tuning", "methods",
    "vary",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """All that an experiment file says. `table` is the file itself with all changes; settings are made from it.

    `device` goes to each method that takes one and has none in the file. In a loop, the number of rounds varies from 1
    to what the file says: a setting is what there is after some rounds.

    >>> noise = read("rq3-noise", seeds=2)
    >>> len(noise.settings()), [setting.varied for setting in noise.settings()][1]
    (4, '{"simulation.noise": 0.1}')
    """

    name: str
    title: str
    data: Data
    production: ProductionSettings
    simulation: SimulationSettings
    loop: LoopSettings | None
    tuning: TuningSettings
    methods: tuple[MethodEntry, ...]
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
        if total > MOST_COMBINATIONS:
            several = listed(f"{count:,} {name}" for name, count in counts.items() if count > 1)
            raise UsageError(
                f"{several} make {total:,} units; one run has at most {MOST_COMBINATIONS:,}. Take fewer seeds or "
                "values, or split the seeds over several runs (seeds = [0, 1, 2]) with the same --out."
            )

    def _setting(self, chosen: dict[str, Any]) -> Setting:
        table = {key: value for key, value in self.table.items() if key != "vary"}
        for key, value in chosen.items():
            table = merged(table, nested(key, value))
        experiment = _decoded(table, self.name, self.source)
        decoded = {key: _looked_up(experiment, key, value) for key, value in chosen.items()}
        return Setting(json.dumps(decoded, sort_keys=True), experiment)

    def restricted(self, wanted: Sequence[str]) -> Experiment:
        """Only the methods named, by label or registered name; `module:Class` adds one to those the file has."""
        if not wanted:
            return self
        from cldrank.experiment.makers import check_use

        added = [name for name in wanted if ":" in name]
        named = [name for name in wanted if ":" not in name]
        methods = [_named(self, name) for name in named] if named else list(self.methods)
        for name in dict.fromkeys(added):
            check_use(name, "--method")
            methods.append(MethodEntry(name.rpartition(":")[2], name))
        described: dict[str, Any] = {}
        for method in methods:
            entry = {"use": method.use, **method.parameters, **({"tune": method.tune} if method.tune else {})}
            if described.setdefault(method.label, entry) != entry:
                raise UsageError(
                    f"two methods would be called {method.label}; give yours another label in an experiment file: "
                    f'Mine = {{ use = "{method.use}" }}.'
                )
        unique = {method.label: method for method in methods}
        return replace(self, methods=tuple(unique.values()), table={**self.table, "methods": described})


@dataclass(frozen=True)
class Setting:
    """An experiment in which nothing varies, and the values that were chosen for what did, as JSON."""

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
    varied = {key for key, _ in dotted(table.get("vary", {}))}
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
                raise UsageError(f"vary.{key}: there is no such method here; there are {listed(labels)}.")
        settings = [setting.varied for setting in experiment.settings()]  # wrong values are refused now
        if len(set(settings)) < len(settings):
            twice = next(one for one in settings if settings.count(one) > 1)
            raise UsageError(f"vary gives the same setting twice: {twice}.")
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(str(error), path=place) from None
    return replace(experiment, seeds=tuple(experiment.seeds))


def _is_sound(table: Mapping[str, Any], name: str, place: str) -> bool:
    """Whether a file is a valid experiment by itself."""
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
    except (OSError, ValueError):  # it cannot be the name of a file
        is_file = False
    if str(source) in SHIPPED:
        file = resources.files("cldrank.experiment").joinpath("shipped", f"{source}.toml")
        return str(source), file.read_text(encoding="utf-8"), f"{source}.toml"
    if is_file:
        with reading(path, "a text file in UTF-8"):
            return path.stem, path.read_text(encoding="utf-8"), str(path)
    named = str(source) if len(str(source)) < 200 else shortened(str(source))
    raise UsageError(f"{named}: there is no such experiment or file; shipped are {', '.join(SHIPPED)}, and all.")


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
        raise UsageError(f'measures must be a list such as ["nDCG@3", "AP"], not {shortened(measures)}.')
    loop = decode(LoopSettings, table["loop"], "loop") if "loop" in table else None
    rounds = {} if loop is None else {"loop.rounds": tuple(range(1, loop.rounds + 1))}
    return Experiment(
        name=name,
        title=decode_text(table.get("title", name), "title"),
        data=decode(Data, data, "data"),
        production=decode(ProductionSettings, table.get("production", {}), "production"),
        simulation=decode(SimulationSettings, table.get("simulation", {}), "simulation"),
        loop=loop,
        tuning=decode(TuningSettings, table.get("tuning", {}), "tuning"),
        methods=method_entries(table.get("methods", {})),
        vary=varied_values(table.get("vary", {})) | rounds,
        seeds=seeds_of(table.get("seeds", 5)),
        measures=tuple(str(measure) for measure in parse_all(measures)),
        device=decode_text(table["device"], "device") if "device" in table else None,
        table=table,
        source=place,
    )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _named(experiment: Experiment, name: str) -> MethodEntry:
    from cldrank.experiment.makers import find, named

    by_label = {method.label.casefold(): method for method in experiment.methods}
    by_use = {method.use.casefold(): method for method in reversed(experiment.methods)}  # the first of each
    known = {**by_use, **by_label}.get(name.casefold())
    if known is not None:
        return known
    kind = find(name)
    if kind is not None:
        return MethodEntry(kind.label, kind.name)
    labels = ", ".join(method.label for method in experiment.methods)
    raise UsageError(
        f"{experiment.name} has no method {name!r}; it has {labels}. There are also {', '.join(named())}; a class "
        "of your own is named module:Class."
    )


def _check_not_varied(made: Mapping[str, Any], varied: Collection[str], text: str) -> None:
    for key, _ in dotted(made):
        if key in varied:
            raise UsageError(f"{shortened(text)}: {key} varies here; write vary.{key}=[…] for other values.")


def _looked_up(experiment: Experiment, key: str, value: Any) -> Any:
    """The value that a key has after decoding: 1 for eta is 1.0."""
    section, _, name = key.partition(".")
    return value if section == "methods" else getattr(getattr(experiment, section), name)
