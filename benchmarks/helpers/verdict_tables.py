"""What judged logs show, as tables in Markdown: a line for each setting and pair, and sums of these."""

from __future__ import annotations

import csv
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from judged_logs import FIELDS
from scipy.special import betaincinv

Key = tuple[str, str, str, str, int, str]  # world, behaviour, logging, propensities, sessions, ratings
_AT = {name: place for place, name in enumerate(FIELDS)}
_FIRST = "DCG@5"
_UNLUCKY = "unlucky"  # a pair that is made by labels: in no sum
_LEVEL = 1e-3  # a smaller difference is none
_SETTING = ("world", "behaviour", "logging", "propensities", "sessions", "ratings")


class JudgedLogs:
    """The lines of a run.

    truths    by world, behaviour and logging: by pair, of the first measure
    records   by setting: those of the logs that could be judged
    refused   by setting: the number of logs whose curve could not be estimated
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.truths: dict[tuple[str, str, str], dict[str, float]] = {}
        self.records: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        self.refused: dict[Key, int] = defaultdict(int)
        for line in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
            if "truth" in line:
                truth = {pair: values[_FIRST] for pair, values in line["truth"].items()}
                self.truths[line["world"], line["behaviour"], line["logging"]] = truth
                continue
            key: Key = tuple(line.get(name, "none") for name in _SETTING)
            if "refused" in line:
                self.refused[key] += 1
            else:
                self.records[key].append(line)

    def pairs(self) -> Iterator[tuple[Key, str, list[dict[str, Any]], float]]:
        """Each setting and pair, with what was said about it, and the truth."""
        for key, lines in sorted(self.records.items()):
            for pair in lines[0]["pairs"]:
                yield key, pair, [line["pairs"][pair] for line in lines], self.truths[key[:3]][pair]


def tables(paths: Iterable[Path]) -> str:
    """All tables."""
    logs = JudgedLogs(paths)
    parts = [by_pair(logs), summary(logs, ("behaviour", "sessions", "ratings")), summary(logs, ("pair",)),
            summary(logs, ("world", "logging"))]  # fmt: skip
    return "\n\n".join(parts)


def by_pair(logs: JudgedLogs) -> str:
    """Of each pair: the error of the estimate, the half-width of its interval, how often that holds the truth."""
    rows = []
    for key, pair, said, truth in logs.pairs():
        estimate, low, high = (_column(said, name) for name in ("estimate", "low", "high"))
        shares = [_share([each["decision"] == word for each in said]) for word in _WORDS]
        shown = np.mean([each["shown"] for each in said])
        numbers = f"{truth:+.3f}", f"{shown:.2f}", f"{estimate.mean() - truth:+.3f}", f"{estimate.std():.3f}"
        width = f"{(high - low).mean() / 2:.3f}"
        rows.append([*_shown(key), pair, len(said), *numbers, width, _share(_held(said, truth)), *shares])
    heads = ["pair", "logs", "truth", "top shown", "bias", "sd", "half-width", "coverage", *_WORDS]
    return _table("pairs", [*_SETTING, *heads], rows)


@dataclass(frozen=True)
class Sums:
    """Cells that are alike in some respects; a cell is a setting and a pair.

    verdicts   how many
    coverage   how often 90% intervals hold the truth
    few        in how many cells that is less than .85, of how many
    decided    how often a verdict decides, where rankers differ
    false      how often it calls better what is level or worse, or the other way round
    """

    verdicts: int
    coverage: str
    few: str
    decided: str
    false: str


def sums(logs: JudgedLogs, by: Sequence[str]) -> dict[tuple[Any, ...], Sums]:
    """The sums of all cells that have the same `by`."""
    groups: dict[tuple[Any, ...], list[tuple[list[dict[str, Any]], float]]] = defaultdict(list)
    for key, pair, said, truth in logs.pairs():
        facts = dict(zip((*_SETTING, "pair"), (*_shown(key), pair), strict=True))
        if pair != _UNLUCKY:
            groups[tuple(facts[name] for name in by)].append((said, truth))
    return {names: _summed(cells) for names, cells in sorted(groups.items())}


def _summed(cells: list[tuple[list[dict[str, Any]], float]]) -> Sums:
    held = [float(np.mean(_held(said, truth))) for said, truth in cells]
    every = [(each["decision"], truth) for said, truth in cells for each in said]
    unequal = [decision in ("better", "worse") for decision, truth in every if abs(truth) >= _LEVEL]
    false = [
        (decision == "better" and truth < _LEVEL) or (decision == "worse" and truth > -_LEVEL)
        for decision, truth in every
    ]
    few = f"{sum(share < _NOMINAL for share in held)} of {len(cells)}"
    return Sums(len(every), f"{np.mean(held):.2f}", few, _share(unequal), _counted(false))


def summary(logs: JudgedLogs, by: Sequence[str]) -> str:
    """The sums as a table."""
    heads = ["verdicts", "coverage", "cells below .85", "decided, of unequal", "false better or worse"]
    rows = [[*names, *astuple(each)] for names, each in sums(logs, by).items()]
    return _table(" × ".join(by), [*by, *heads], rows)


def save_tables(paths: Iterable[Path], before: Iterable[Path], folder: Path) -> None:
    """The tables of the documentation, as CSV: today's verdicts, and those of an earlier version."""
    now, then = JudgedLogs(paths), JudgedLogs(before)
    heads = ["verdicts", "before", "coverage", "before", "decided", "before", "false", "before"]
    for name, by in _SAVED.items():
        earlier = sums(then, by)
        with (folder / f"calibration-{name}.csv").open("w", newline="") as file:
            write = csv.writer(file, lineterminator="\n").writerow
            write([*by, *heads])
            for names, each in sums(now, by).items():
                old = earlier.get(names)
                pairs = [
                    (getattr(each, part), "" if old is None else getattr(old, part))
                    for part in ("verdicts", "coverage", "decided", "false")
                ]
                write([*names, *itertools.chain.from_iterable(pairs)])


_SAVED = {"behaviour": ("behaviour", "sessions"), "pairs": ("pair",), "worlds": ("world", "logging")}
_NOMINAL = 0.85  # coverage of 90% intervals that a cell should reach
_WORDS = ("better", "worse", "no difference", "cannot tell")


def _shown(key: Key) -> list[str]:
    world, behaviour, logging, propensities, sessions, ratings = key
    return [Path(world).stem, behaviour, logging, propensities, f"{sessions:,}", ratings]


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.2f}" if len(values) else ""


def _counted(values: Sequence[bool]) -> str:
    """A share with its exact 95% interval."""
    times, n = sum(values), len(values)
    low = betaincinv(times, n - times + 1, 0.025) if times else 0.0
    high = betaincinv(times + 1, n - times, 0.975) if times < n else 1.0
    return f"{times} of {n}: {times / max(n, 1):.1%} ({low:.1%} to {high:.1%})"


def _column(said: list[dict[str, Any]], name: str) -> Any:
    return np.array([each["measures"][_FIRST][_AT[name]] for each in said])


def _held(said: list[dict[str, Any]], truth: float) -> list[bool]:
    held: list[bool] = ((_column(said, "low") <= truth) & (truth <= _column(said, "high"))).tolist()
    return held


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])
