"""The numbers of the paper (SIGIR-AP 2023): its tables of ranking accuracy and of variants of CLD, as published."""

from __future__ import annotations

import json

from cldrank.errors import UsageError
from cldrank.measures import parse
from cldrank.report.sections import Section

CONDITIONS = "top 5, η = 0.1, 100,000 sessions, click noise 0.1"

_CONDITIONS = {"depth": 5, "eta": 0.1, "sessions": 100_000, "noise": 0.1}
_MEASURES = ("nDCG@1", "nDCG@3", "AP")
_DATA = (("yahoo", "set1"), ("web10k", "fold1"))
_TABLE = """
naive         0.606 0.593 0.592    0.383 0.350 0.294
ips           0.650 0.619 0.609    0.413 0.368 0.282
heckman^rank  0.608 0.590 0.587    0.350 0.331 0.287
rankagg       0.649 0.623 0.608    0.413 0.375 0.299
cld           0.661 0.631 0.616    0.434 0.391 0.312
cld-pair      0.662 0.630 0.615    0.439 0.397 0.312
cld-n         0.652 0.619 0.610    0.340 0.321 0.284
cld-pair-l    0.660 0.634 0.618    0.431 0.389 0.309
oracle        0.666 0.636 0.622    0.455 0.416 0.332
"""  # by method: the measures on the first data set, then on the second
_VALUES = {name: list(map(float, numbers)) for name, *numbers in map(str.split, _TABLE.strip().splitlines())}


def published(section: Section, setting: str) -> dict[tuple[str, str], float]:
    """What the paper reports for a setting of a section, by method and measure.

    Nothing, unless the data set, the fold and the simulation are the paper's, and the methods knew the true η.
    """
    key = (section.data.lower(), section.folds[0].lower() if len(section.folds) == 1 else "")
    if key not in _DATA or not _as_published(section, setting):
        return {}
    first = len(_MEASURES) * _DATA.index(key)
    columns = {measure: _column(measure) for measure in section.measures}
    return {
        (method, measure): _VALUES[method.lower()][first + column]
        for method in section.methods
        if method.lower() in _VALUES
        for measure, column in columns.items()
        if column is not None
    }


def _as_published(section: Section, setting: str) -> bool:
    chosen = {**section.fixed, **json.loads(setting)}
    assumed = chosen.get("simulation.assumed_eta", chosen.get("propensities.eta"))
    if assumed not in (None, _CONDITIONS["eta"]):
        return False
    return all(chosen.get(f"simulation.{key}") == value for key, value in _CONDITIONS.items())


def _column(measure: str) -> int | None:
    """Where the paper has the measure; its MAP is the mean of AP, whatever label counts as relevant."""
    try:
        known = parse(measure)
    except UsageError:
        return None
    text = "AP" if known.name == "AP" and known.cutoff is None else str(known)
    return _MEASURES.index(text) if text in _MEASURES else None
