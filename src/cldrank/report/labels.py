"""What keys, methods and measures are called in a report, and what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cldrank.drawing.numbers import plain_number
from cldrank.experiment.makers import identify
from cldrank.models import models
from cldrank.wording import listed

# the keys of an experiment's settings that have a name in plain words: the name, and what is written below an axis
_KEYS = {
    "simulation.depth": ("depth K", "depth K: how many results are shown"),
    "simulation.eta": ("η", "η: severity of position bias"),
    "simulation.sessions": ("sessions", "click sessions"),
    "simulation.noise": ("click noise", "click noise: chance to click an irrelevant result"),
    "simulation.assumed_eta": ("assumed η", "η assumed by the methods"),
    "loop.rounds": ("rounds", "rounds: deployed, logged, retrained"),
    "production.fraction": (
        "labels of the production ranker",
        "share of labels the production ranker learned from",
    ),
}
_MEASURES = {
    "nDCG": "the grades of {results}, compared with those of the best order; 1 is perfect",
    "AP": "how high the relevant ones are ranked among {results}; 1 if above all others",
    "RR": "1 / the rank of the first relevant one among {results}",
    "P": "the share of relevant ones among {results}",
    "ERR": "how soon somebody who reads {results} from the top is satisfied; more is better",
}


def key_name(key: str) -> str:
    """What a varied key is called.

    >>> key_name("simulation.depth"), key_name("method.CLD.gamma")
    ('depth K', 'method.CLD.gamma')
    """
    return _KEYS.get(key, (key, key))[0]


def axis_name(key: str) -> str:
    """What is written below an axis of that key."""
    return _KEYS.get(key, (key, key))[1]


def method_sentence(label: str, configuration: Mapping[str, Any]) -> str:
    """What a method does, in one line, as its class says, and what was chosen for it; empty where it is not known.

    >>> method_sentence("IPS", {"method": {"class": "ips", "parameters": {"model": "mlp", "seed": 3}}})
    'divides clicks by the propensity of their position (a network)'
    >>> method_sentence("IPS-c", {"method": {"class": "ips", "parameters": {"clip": 0.1}}})
    'IPS with clip = 0.1: divides clicks by the propensity of their position'
    """
    who = identify(label, configuration)
    sentence: str = getattr(who.kind, "sentence", "")
    parameters = configuration.get("method", {}).get("parameters", {})
    chosen = {key: value for key, value in parameters.items() if key != "seed"}
    given = str(chosen.pop("model", ""))
    model = getattr(models().get(given), "label", given)
    words = [*([model] if model else []), *(f"{key} = {setting_value(chosen[key])}" for key in sorted(chosen))]
    name = getattr(who.kind, "label", label)
    if not sentence or label.casefold() == name.casefold():
        return f"{sentence} ({', '.join(words)})" if sentence and words else sentence
    return f"{name} with {listed(words) or 'its defaults'}: {sentence}"


def measure_sentence(name: str) -> str:
    """What a measure means, in one line; empty where it is not known.

    >>> measure_sentence("nDCG@3"), measure_sentence("AP")
    ('the grades of the first 3 results, compared with those of the best order; 1 is perfect',
     'how high the relevant ones are ranked among all results; 1 if above all others')
    """
    form = re.fullmatch(r"(\w+)(?:\([^)]*\))?(?:@(\d+))?", name)
    if form is None or form[1] not in _MEASURES:
        return ""
    cutoff = {None: "all results", "1": "the first result"}.get(form[2], f"the first {form[2]} results")
    return _MEASURES[form[1]].format(results=cutoff)


def setting_value(value: Any) -> str:
    """A value of a setting as people write it.

    >>> setting_value(100000), setting_value(0.1), setting_value("pbm"), setting_value(True)
    ('100,000', '0.1', 'pbm', 'true')
    """
    if isinstance(value, str):
        return value
    return plain_number(value) if type(value) in (int, float) else json.dumps(value, ensure_ascii=False)


def memory_size(mebibytes: float) -> str:
    """An amount of memory.

    >>> memory_size(312.4), memory_size(2048), memory_size(float("nan"))
    ('312 MiB', '2.0 GiB', '–')
    """
    if mebibytes != mebibytes:  # not every system reports it
        return "–"
    return f"{mebibytes / 1024:.1f} GiB" if mebibytes >= 1024 else f"{mebibytes:.0f} MiB"
