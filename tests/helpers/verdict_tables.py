"""What many judged logs show, as tables in Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judged_logs import FIELDS

Key = tuple[str, str, str, str, int]  # world, queries, logging, propensities, sessions
_AT = {name: place for place, name in enumerate(FIELDS)}
_FIRST = "DCG@5"


class JudgedLogs:
    """The lines of a run, by setting.

    truths    by (world, queries, logging): by pair, by measure
    records   by setting: those of the logs that could be judged
    refused   by setting: the number of logs whose curve could not be estimated
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.truths: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
        self.records: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        self.refused: dict[Key, int] = defaultdict(int)
        for line in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
            if "truth" in line:
                self.truths[line["world"], line["queries"], line["logging"]] = line["truth"]
                continue
            key: Key = tuple(line[name] for name in ("world", "queries", "logging", "propensities", "sessions"))
            if "refused" in line:
                self.refused[key] += 1
            else:
                self.records[key].append(line)

    def pairs(self) -> Iterator[tuple[Key, str, list[dict[str, Any]], dict[str, float]]]:
        """Each setting and pair, with what was found about it, and the truth by measure."""
        for key, lines in sorted(self.records.items()):
            for pair in lines[0]["pairs"]:
                yield key, pair, [line["pairs"][pair] for line in lines], self.truths[key[:3]][pair]


def tables(paths: Iterable[Path]) -> str:
    """All tables."""
    logs = JudgedLogs(paths)
    return "\n\n".join([covered(logs), error_parts(logs), verdicts(logs), agreement(logs), estimators(logs)])


def covered(logs: JudgedLogs) -> str:
    """The share of intervals that hold the truth, by measure."""
    rows = []
    for key, pair, found, truth in logs.pairs():
        rows.append([*key, pair, *(f"{_coverage(found, measure, true):.2f}" for measure, true in truth.items())])
    return _table("coverage", [*_SETTING, "pair", *_measures(logs)], rows)


def error_parts(logs: JudgedLogs) -> str:
    """The bias and spread of estimates, beside the errors that they state; of the first measure.

    `own` is the truth of the log's own queries and pages: the error beyond it is that of clicks and of the unseen.
    """
    rows = []
    for key, pair, found, truth in logs.pairs():
        part = {name: _column(found, _FIRST, name) for name in FIELDS}
        beyond = part["estimate"] - part["own"]
        stated = [part[name].mean() for name in ("queries", "propensities", "model", "extrapolation")]
        numbers = [truth[_FIRST], beyond.mean(), beyond.std(), part["own"].std(), part["estimate"].std(), *stated]
        rows.append([*key, pair, *(f"{value:+.4f}" for value in numbers)])
    names = [
        "truth",
        "bias beyond own",
        "sd beyond own",
        "sd of own",
        "sd",
        "queries",
        "curve",
        "model",
        "extrapolation",
    ]
    return _table(f"errors of {_FIRST}", [*_SETTING, "pair", *names], rows)


def verdicts(logs: JudgedLogs) -> str:
    """The share of each decision."""
    kinds = ("better", "worse", "no difference", "cannot tell")
    rows = []
    for key, pair, found, truth in logs.pairs():
        shares = [np.mean([one["decision"] == kind for one in found]) for kind in kinds]
        vetoed = np.mean([not one["placebo"] for one in found])
        counts = (len(found), logs.refused[key])
        rows.append([*key, pair, f"{truth[_FIRST]:+.4f}", *counts, *(f"{value:.2f}" for value in (*shares, vetoed))])
    return _table("verdicts", [*_SETTING, "pair", "truth", "logs", "refused", *kinds, "placebo failed"], rows)


def agreement(logs: JudgedLogs) -> str:
    """How often each way to choose agrees with the truth, of pairs that differ; a verdict may leave it open."""
    rows = []
    for key, pair, found, truth in logs.pairs():
        true = np.sign(truth[_FIRST])
        if abs(truth[_FIRST]) < 1e-3:
            continue
        word, other = ("better", "worse") if true > 0 else ("worse", "better")
        ways = [
            [one["decision"] == word for one in found],
            [one["decision"] == other for one in found],
            [np.sign(one["measures"][_FIRST][_AT["estimate"]]) == true for one in found],
            [np.sign(one["naive"]) == true for one in found],
            [np.sign(one["concordance"] or 0.0) == true for one in found],
            [one["labels"] == word for one in found],
        ]
        rows.append([*key, pair, *(f"{np.mean(way):.2f}" for way in ways)])
    names = ["verdict right", "verdict wrong", "sign of estimate", "click-through", "concordance", "labels decide"]
    return _table("agreement with the truth", [*_SETTING, "pair", *names], rows)


def estimators(logs: JudgedLogs) -> str:
    """The root mean square error of each estimator, against the truth of the log's own queries."""
    rows, names = [], []
    for key, pair, found, _ in logs.pairs():
        names = list(found[0]["estimators"])
        own = _column(found, _FIRST, "own")
        errors = (np.array([one["estimators"].get(name, np.nan) for one in found]) - own for name in names)
        rows.append([*key, pair, *(f"{np.sqrt(np.mean(error**2)):.4f}" for error in errors)])
    return _table(f"RMSE of {_FIRST}", [*_SETTING, "pair", *names], rows)


_SETTING = ("world", "queries", "logging", "propensities", "sessions")


def _measures(logs: JudgedLogs) -> list[str]:
    return list(next(iter(next(iter(logs.truths.values())).values())))


def _column(found: list[dict[str, Any]], measure: str, name: str) -> Any:
    return np.array([one["measures"][measure][_AT[name]] for one in found])


def _coverage(found: list[dict[str, Any]], measure: str, truth: float) -> float:
    low, high = (_column(found, measure, name) for name in ("low", "high"))
    return float(((low <= truth) & (truth <= high)).mean())


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])
