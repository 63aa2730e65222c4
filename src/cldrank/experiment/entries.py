"""The sections of an experiment file: data, production, simulation, loop, tuning, methods, vary, seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cldrank.arguments import shortened
from cldrank.decoding import check_plain, decode, dotted
from cldrank.errors import UsageError
from cldrank.parameters import Value, parameter, value
from cldrank.wording import listed

MOST_COMBINATIONS = 100_000  # units of one run, or values to tune over: each is planned, kept in a file and read again
_VARIABLE = ("production", "simulation", "methods")
_LAST_SEED = (1 << 32) - 1


@value
class Data(Value):
    """The data: a set of the catalogue, a synthetic kind, or files in place of a name."""

    name: str = parameter(default="", about="`msrd`, …, `web10k-like`, …, or a folder with train and test files")
    folds: tuple[str, ...] = parameter(default=(), about="some folds; none named: those that are customary for the set")
    train: tuple[str, ...] = parameter(default=(), about="files, folders or patterns to train on")
    test: tuple[str, ...] = parameter(default=(), about="the same to test on")
    queries: int = parameter(default=1000, least=1, most=1_000_000, about="queries to train on, of a synthetic set")
    test_queries: int = parameter(default=500, least=1, most=1_000_000, about="queries to test on, of a synthetic set")
    seed: int = parameter(default=0, least=0, about="the seed of a synthetic set")


@value
class ProductionSettings(Value):
    """The ranker whose pages people saw: SVMRank, trained on a fraction of the labels that each seed draws anew."""

    fraction: float = parameter(default=0.01, above=0, most=1, about="the share of the labels")
    C: float = parameter(default=0.01, above=0, about="as in SVMRank")
    sample: str = parameter(default="queries", about="what the share is drawn from")
    max_pairs: int = parameter(default=20_000, least=1, about="as in SVMRank")


@value
class SimulationSettings(Value):
    """Position-based clicks on the production ranker's top results."""

    sessions: int = parameter(default=100_000, least=1, about="how many pages are shown")
    depth: int = parameter(default=5, least=1, about="results per page, K")
    eta: float = parameter(default=1.0, least=0, about="severity of position bias")
    noise: float = parameter(default=0.1, least=0, most=1, about="probability of a click on an irrelevant result")
    relevant_from: float | None = parameter(default=None, about="lowest relevant label; 3 if labels reach it, else 1")
    assumed_eta: float | None = parameter(default=None, least=0, about="the eta that methods assume; the true one")


@value
class LoopSettings(Value):
    """Deploy, log, retrain: each round simulates sessions with the ranker of the round before, and trains on all."""

    rounds: int = parameter(default=10, least=1, most=100, about="how many; it is measured after each")


@value
class TuningSettings(Value):
    """How `tune` tables choose: by the clicks on a held-out share of the training queries, with the first seed."""

    held_out: float = parameter(default=0.2, above=0, most=0.9, about="the share")


@dataclass(frozen=True)
class MethodEntry:
    """A method that takes part: a label, a registered name or `module:Class`, parameters, and values to tune over."""

    label: str
    use: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def method_entries(table: Any) -> tuple[MethodEntry, ...]:
    """The entries of `[methods]`."""
    if not isinstance(table, Mapping) or not table:
        raise UsageError("methods is missing; name at least one: [methods] and a line such as CLD = { gamma = 0.1 }.")
    return tuple(_entry(label, entry) for label, entry in table.items())


def _entry(label: str, entry: Any) -> MethodEntry:
    from cldrank.experiment.makers import check_use

    if not isinstance(entry, Mapping):
        raise UsageError(
            f'methods.{label} must be a table such as {{ use = "cld", gamma = 0.1 }}, not {shortened(entry)}.'
        )
    use = entry.get("use", label.lower())
    if not isinstance(use, str):
        raise UsageError(f"methods.{label}.use must be a text, not {shortened(use)}.")
    check_use(use, f"methods.{label}")
    parameters = {key: value for key, value in entry.items() if key not in ("use", "tune")}
    tune = entry.get("tune", {})
    if not isinstance(tune, Mapping):
        raise UsageError(f"methods.{label}.tune must be a table of parameters and their values, not {shortened(tune)}.")
    grids = {key: _grid(values, f"methods.{label}.tune.{key}") for key, values in tune.items()}
    tries = math.prod(map(len, grids.values()))
    if tries > MOST_COMBINATIONS:
        raise UsageError(
            f"methods.{label}.tune makes {tries:,} combinations; at most {MOST_COMBINATIONS:,} can be tried."
        )
    return MethodEntry(label, use, parameters, grids)


@value
class _Spaced(Value):
    """Evenly spaced values to try."""

    low: float | None = parameter(default=None, about="the first")
    high: float | None = parameter(default=None, about="the last")
    log: bool = parameter(default=False, about="spaced by ratio")
    points: int = parameter(default=4, least=2, most=100, about="how many")


def _grid(values: Any, place: str) -> tuple[Any, ...]:
    """The values to try: a list of them, or points between a low and a high one."""
    if isinstance(values, list | tuple) and values:
        return tuple(values)
    if not isinstance(values, Mapping):
        raise UsageError(
            f"{place} must be a list of values, or {{ low = 0.05, high = 0.3, points = 4 }}, not {shortened(values)}."
        )
    import numpy as np

    from cldrank.tuning.space import Range

    chosen = decode(_Spaced, values, place)
    if chosen.low is None or chosen.high is None:
        raise UsageError(f"{place}.{'low' if chosen.low is None else 'high'} is missing.")
    with np.errstate(over="ignore", invalid="ignore"):
        found = Range(chosen.low, chosen.high, chosen.log).spaced(chosen.points)
    check_plain(found, place)
    return found


def varied_values(table: Any) -> dict[str, tuple[Any, ...]]:
    """The values of `[vary]`, by dotted key."""
    if not isinstance(table, Mapping):
        raise UsageError(f"vary must be a table of keys and their values, not {shortened(table)}.")
    found: dict[str, tuple[Any, ...]] = {}
    for key, values in dotted(table):
        if key in found:
            raise UsageError(f"vary.{key} is given twice.")
        if key.partition(".")[0] not in _VARIABLE:
            raise UsageError(f"vary.{key}: only keys of {listed(_VARIABLE)} can vary, such as simulation.noise.")
        if not isinstance(values, list) or not values:
            raise UsageError(f"vary.{key} must be a list of values, not {shortened(values)}.")
        found[key] = tuple(values)
    return found


def seeds_of(given: Any) -> Sequence[int]:
    """The seeds; a number of them is a range, not yet written out, as `check_size` may refuse it."""
    if _is_whole(given) and 1 <= given <= _LAST_SEED + 1:
        return range(given)
    if isinstance(given, list) and given and all(_is_whole(one) and 0 <= one <= _LAST_SEED for one in given):
        return tuple(dict.fromkeys(given))
    raise UsageError(
        f"seeds must be a number of seeds (at least 1), or a list of seeds from 0 to {_LAST_SEED}, not "
        f"{shortened(given)}."
    )


def _is_whole(given: Any) -> bool:
    return type(given) is int  # true and false are not numbers
