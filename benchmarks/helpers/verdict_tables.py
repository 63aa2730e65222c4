"""What many judged logs show, as tables in Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judged_logs import FIELDS
from scipy.special import betaincinv

Key = tuple[str, str, str, str, int]  # world, queries, logging, propensities, sessions
_AT = {name: place for place, name in enumerate(FIELDS)}
_FIRST = "DCG@5"
_UNLUCKY = "unlucky"  # a pair that is made by labels: shown by itself
_PAIRS = ("better", "others", "level", "level with production", _UNLUCKY)
_LEVEL = 1e-3  # a smaller difference is none
_NORMAL = 1.648  # standard errors to either end of an interval of 90%, with 600 queries


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

    def by_setting(self) -> dict[Key, list[tuple[str, list[dict[str, Any]], dict[str, float]]]]:
        """The same, the pairs of each setting together."""
        found: dict[Key, list[tuple[str, list[dict[str, Any]], dict[str, float]]]] = defaultdict(list)
        for key, pair, records, truth in self.pairs():
            found[key].append((pair, records, truth))
        return found

    def pairs(self) -> Iterator[tuple[Key, str, list[dict[str, Any]], dict[str, float]]]:
        """Each setting and pair, with what was found about it, and the truth by measure."""
        for key, lines in sorted(self.records.items()):
            for pair in lines[0]["pairs"]:
                yield key, pair, [line["pairs"][pair] for line in lines], self.truths[key[:3]][pair]


def tables(paths: Iterable[Path]) -> str:
    """All tables."""
    logs = JudgedLogs(paths)
    every = (covered, false_verdicts, verdicts, agreement, estimators, error_parts, allowances)
    return "\n\n".join(table(logs) for table in every)


def covered(logs: JudgedLogs) -> str:
    """The share of intervals that hold the truth: by measure, over all pairs; and of the first, by pair."""
    rows = []
    for key, group in logs.by_setting().items():
        shares = {
            (pair, one): _coverage(found, one, true) for pair, found, truth in group for one, true in truth.items()
        }
        fair = [pair for pair, _, _ in group if pair != _UNLUCKY]
        means = [float(np.mean([shares[pair, one] for pair in fair])) for one in _measures(logs)]
        own = [shares.get((pair, _FIRST)) for pair in _PAIRS]
        rows.append([*_shown(key), len(group[0][1]), *map(_share, (*means, *own))])
    return _table("coverage", [*_SETTING, "logs", *_measures(logs), *(f"{_FIRST}: {pair}" for pair in _PAIRS)], rows)


def false_verdicts(logs: JudgedLogs) -> str:
    """How often a verdict says better where new is not, and worse where it is not; with 95% intervals."""
    rows = []
    for key, group in logs.by_setting().items():
        cells = []
        for word, sign in (("better", 1), ("worse", -1)):
            wrong = [
                one["decision"] == word
                for pair, found, truth in group
                for one in found
                if pair != _UNLUCKY and sign * truth[_FIRST] < _LEVEL
            ]
            cells.append(_counted(wrong))
        unlucky = [one["decision"] == "better" for pair, found, _ in group for one in found if pair == _UNLUCKY]
        rows.append([*_shown(key), *cells, _counted(unlucky) if unlucky else ""])
    return _table("false verdicts", [*_SETTING, "false better", "false worse", "better: unlucky"], rows)


def verdicts(logs: JudgedLogs) -> str:
    """The share of each decision, and how often labels decide and agree."""
    kinds = ("better", "worse", "no difference", "cannot tell")
    rows = []
    for key, pair, found, truth in logs.pairs():
        shares = [np.mean([one["decision"] == kind for one in found]) for kind in kinds]
        vetoed = np.mean([not one["placebo"] for one in found])
        counts = (len(found), logs.refused[key])
        shown = (f"{truth[_FIRST]:+.3f}", *counts, *map(_share, (*shares, vetoed)))
        rows.append([*_shown(key), pair, *shown])
    return _table("verdicts", [*_SETTING, "pair", "truth", "logs", "refused", *kinds, "placebo failed"], rows)


def agreement(logs: JudgedLogs) -> str:
    """How often each way to choose agrees with the verdict of the labels of the log's queries, where that decides."""
    rows = []
    for key, pair, found, _ in logs.pairs():
        decided = [one for one in found if one["labels"] in ("better", "worse")]
        if pair == _UNLUCKY or len(decided) < len(found) / 4:
            continue
        right = [{"better": 1, "worse": -1}[one["labels"]] for one in decided]
        said = [one["decision"] == one["labels"] for one in decided if one["decision"] in ("better", "worse")]
        signs = (
            [one["measures"][_FIRST][_AT["estimate"]] for one in decided],
            [one["naive"] for one in decided],
            [one["concordance"] or 0.0 for one in decided],
        )
        agrees = [_share(float(np.mean(np.sign(values) == right))) for values in signs]
        rows.append([*_shown(key), pair, len(decided), f"{sum(said)} of {len(said)}", *agrees])
    names = ["labels decide", "verdict agrees", "sign of estimate", "click-through", "concordance"]
    return _table("agreement with the labels", [*_SETTING, "pair", *names], rows)


def estimators(logs: JudgedLogs) -> str:
    """The root mean square error of each estimator, against the truth of the log's own queries."""
    rows, names = [], []
    for key, pair, found, _ in logs.pairs():
        names = list(found[0]["estimators"])
        own = _column(found, _FIRST, "own")
        errors = (np.array([one["estimators"].get(name, np.nan) for one in found]) - own for name in names)
        rows.append([*_shown(key), pair, *(f"{np.sqrt(np.mean(error**2)):.3f}" for error in errors)])
    return _table(f"RMSE of {_FIRST}", [*_SETTING, "pair", *names], rows)


def error_parts(logs: JudgedLogs) -> str:
    """The bias and spread of estimates, beside the errors that they state; of the first measure.

    `own` is the truth of the log's own queries and pages: the error beyond it is that of clicks and of the unseen.
    """
    rows = []
    for key, pair, found, truth in logs.pairs():
        part = {name: _column(found, _FIRST, name) for name in FIELDS}
        beyond = part["estimate"] - part["own"]
        stated = [part[name].mean() for name in ("queries", "propensities", "model", "extrapolation")]
        numbers = [truth[_FIRST], beyond.mean(), beyond.std(), part["own"].std(), part["estimate"].std()]
        rows.append([*_shown(key), pair, *(f"{value:+.3f}" for value in numbers), *(f"{one:.3f}" for one in stated)])
    names = ["truth", "bias", "sd beyond own", "sd of own", "sd", "queries", "curve", "model", "allowance"]
    return _table(f"errors of {_FIRST}", [*_SETTING, "pair", *names], rows)


def allowances(logs: JudgedLogs, factors: Sequence[float] = (0.0, 1.0, 1.5, 2.0)) -> str:
    """Coverage of the first measure, false better and true better, with the allowance times some factors."""
    rows = []
    for key, group in logs.by_setting().items():
        if key[3] not in ("true", "estimated"):  # else other curves decide, too
            continue
        for factor in factors:
            held: list[bool] = []
            false: list[bool] = []
            true: list[bool] = []
            unlucky: list[bool] = []
            for pair, found, truth in group:
                low, high = _widened(found, factor)
                better = [bool(one > 0 and word["placebo"]) for one, word in zip(low, found, strict=True)]
                if pair == _UNLUCKY:
                    unlucky += better
                    continue
                held += list((low <= truth[_FIRST]) & (truth[_FIRST] <= high))
                (false if truth[_FIRST] < _LEVEL else true).extend(better)
            shares = (_share(float(np.mean(some))) if some else "" for some in (held, false, true, unlucky))
            rows.append([*_shown(key), f"{factor:g}", *shares])
    names = ["allowance times", "coverage", "false better", "true better", "better: unlucky"]
    return _table(f"other allowances, {_FIRST}", [*_SETTING, *names], rows)


_SETTING = ("world", "logging", "propensities", "sessions")


def _shown(key: Key) -> list[str]:
    world, _, logging, propensities, sessions = key
    return [Path(world).stem, logging, propensities, f"{sessions:,}"]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _counted(found: Sequence[bool]) -> str:
    """A share with its exact 95% interval."""
    count, n = sum(found), len(found)
    low = betaincinv(count, n - count + 1, 0.025) if count else 0.0
    high = betaincinv(count + 1, n - count, 0.975) if count < n else 1.0
    return f"{count} of {n}: {count / max(n, 1):.1%} ({low:.1%} to {high:.1%})"


def _widened(found: list[dict[str, Any]], factor: float) -> tuple[Any, Any]:
    """Low and high ends with another allowance, never beyond the bounds."""
    part = {name: _column(found, _FIRST, name) for name in FIELDS}
    errors = np.sqrt(part["queries"] ** 2 + part["propensities"] ** 2 + part["model"] ** 2)
    half = _NORMAL * errors + factor * part["extrapolation"]
    return np.maximum(part["estimate"] - half, part["lowest"]), np.minimum(part["estimate"] + half, part["highest"])


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
