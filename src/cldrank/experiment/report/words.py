"""The words of a report: names of keys, experiments and data sets, numbers, lists."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# the keys of an experiment's settings that have a name in plain words
_KEYS = {
    "simulation.depth": "cutoff K",
    "simulation.eta": "η",
    "simulation.sessions": "sessions",
    "simulation.noise": "click noise",
    "simulation.assumed_eta": "assumed η",
    "production.fraction": "labels of the production ranker",
}
_AXES = {
    "simulation.depth": "cutoff K: how many results are shown",
    "simulation.eta": "η: severity of position bias",
    "simulation.sessions": "click sessions",
    "simulation.noise": "click noise: chance to click an irrelevant result",
    "simulation.assumed_eta": "η assumed by the methods",
    "production.fraction": "share of labels the production ranker learned from",
}

_METHODS = {
    "naive": "takes clicks for relevance",
    "ips": "divides clicks by how likely their position is looked at; mends position bias",
    "heckman^rank": "models which results are shown at all; mends selection bias",
    "rankagg": "joins the rankings of IPS and Heckman^rank by votes",
    "pijd": "mends both biases from where candidates were shown, without propensities",
    "cld": "mends both biases with one likelihood; linear",
    "cld-n": "CLD with a neural network",
    "cld-pair": "mends both biases with pairs of results and a neural network",
    "cld-pair-l": "CLD-pair, linear",
    "oracle": "learns from the labels themselves: the ceiling, not a method for clicks",
}
_MEASURES = {
    "nDCG": "the grades of {results}, against those of the best order; 1 is perfect",
    "AP": "how far up the relevant ones stand among {results}; 1 if above all others",
    "RR": "1 / the rank of the first relevant one among {results}",
    "P": "the share of relevant ones among {results}",
    "ERR": "how soon somebody who reads {results} from the top is content; more is better",
}


def key_name(key: str) -> str:
    """What a varied key is called.

    >>> key_name("simulation.depth"), key_name("method.CLD.gamma")
    ('cutoff K', 'method.CLD.gamma')
    """
    return _KEYS.get(key, key)


def axis_name(key: str) -> str:
    """What stands below an axis of that key."""
    return _AXES.get(key, key)


def method_told(label: str) -> str:
    """What a method of the paper does, in a line; nothing of any other."""
    return _METHODS.get(label.casefold(), "")


def measure_told(name: str) -> str:
    """What a measure says, in a line.

    >>> measure_told("nDCG@3"), measure_told("AP")
    ('the grades of the first 3 results, against those of the best order; 1 is perfect',
     'how far up the relevant ones stand among all results; 1 if above all others')
    """
    form = re.fullmatch(r"(\w+)(?:\([^)]*\))?(?:@(\d+))?", name)
    if form is None or form[1] not in _MEASURES:
        return ""
    cutoff = {None: "all results", "1": "the first result"}.get(form[2], f"the first {form[2]} results")
    return _MEASURES[form[1]].format(results=cutoff)


def number(value: Any) -> str:
    """A value of a setting as people write it.

    >>> number(100000), number(1e3), number(0.1), number(1.0), number("pbm"), number(True)
    ('100,000', '1,000', '0.1', '1', 'pbm', 'true')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, ensure_ascii=False)
    whole = isinstance(value, int) or (abs(value) >= 1000 and value.is_integer())
    return f"{int(value):,}" if whole else f"{value:g}"


def count(number_of: int, one: str, many: str = "") -> str:
    """So many of something.

    >>> count(1, "seed"), count(5, "seed"), count(2, "query", "queries")
    ('1 seed', '5 seeds', '2 queries')
    """
    return f"{number_of:,} {one if number_of == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a row.

    >>> listed(["CLD", "IPS", "Naive"])
    'CLD, IPS and Naive'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def duration(seconds: float) -> str:
    """A length of time.

    >>> duration(0.034), duration(12.34), duration(100), duration(7260)
    ('0.03 s', '12.3 s', '1 min 40 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def memory(mebibytes: float) -> str:
    """An amount of memory.

    >>> memory(312.4), memory(2048), memory(float("nan"))
    ('312 MiB', '2.0 GiB', '–')
    """
    if mebibytes != mebibytes:  # not every system tells it
        return "–"
    return f"{mebibytes / 1024:.1f} GiB" if mebibytes >= 1024 else f"{mebibytes:.0f} MiB"


def plain(text: str) -> str:
    """A text as a name for files and anchors: small letters, digits and hyphens.

    >>> plain("table1-Web10K <b>")
    'table1-web10k-b'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "results"


def flat(configuration: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A nested configuration with dotted keys.

    >>> flat({"simulation": {"eta": 0.1, "depth": 5}, "seed": 3})
    {'simulation.eta': 0.1, 'simulation.depth': 5, 'seed': 3}
    """
    found: dict[str, Any] = {}
    for key, value in configuration.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = value
    return found
