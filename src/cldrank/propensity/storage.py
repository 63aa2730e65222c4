"""Propensities as JSON files."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, DataError, FormatError, Spelling, UsageError
from cldrank.files import save_json
from cldrank.propensity.affine_clicks import FORMAT as AFFINE_FORMAT
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.confounding import Confounding
from cldrank.propensity.checks.goodness import Goodness
from cldrank.propensity.parsing import as_number, as_text, as_whole, numbers, symmetric, table, texts
from cldrank.propensity.propensities import Propensities
from cldrank.reading import read_json

FORMAT = "cldrank-propensities"
_CHECKS: dict[str, type[Goodness] | type[Confounding]] = {"goodness": Goodness, "confounding": Confounding}
_RAISED = ("clipped", "raised")
_ARRAYS = ("low", "high", "comparisons", "covariance")


def save_propensities(propensities: Propensities, path: str | PathLike[str]) -> None:
    """Write them whole or not at all; parts that are not known are left out."""
    content: dict[str, Any] = {"format": FORMAT, "values": propensities.values.tolist(), "origin": propensities.origin}
    content |= {name: list(getattr(propensities, name)) for name in _RAISED}
    if propensities.bound:
        content["bound"] = True
    for name in _ARRAYS:
        array = getattr(propensities, name)
        if array is not None:
            content[name] = array.tolist()
    if propensities.replicates is not None:
        content["replicates"] = [[float(f"{value:.6g}") for value in row] for row in propensities.replicates.tolist()]
    if propensities.method is not None:
        content |= {"method": propensities.method, "notes": list(propensities.notes)}
    if propensities.confidence is not None:
        content["confidence"] = propensities.confidence
    for name in _CHECKS:
        found = getattr(propensities, name)
        if found is not None:
            content[name] = asdict(found)
    save_json(path, content, indent=1)


def load_propensities(path: str | PathLike[str]) -> Propensities:
    """Read what `save_propensities` wrote, the truth beside a simulated log, or a plain list of numbers."""
    file = Path(path)
    if not file.is_file():
        what = "a folder, not a file" if file.is_dir() else "no such file"
        raise UsageError(
            "{}: {} of propensities; for a power law, {}.",
            file,
            what,
            Spelling("use Propensities.power", "write power:1.0"),
        )
    content: Any = read_json(file, "JSON")
    origin = f"from {file.name}"
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    if not isinstance(values, list) or not values:
        raise FormatError(
            "holds no list of propensities; {} writes one.",
            Spelling("Propensities.save", "`cldrank propensity estimate`"),
            path=file,
        )
    try:
        rho = numbers(values, "values")
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Propensities(rho, **_parts(content, origin, len(rho)))
        return Propensities(rho, origin)
    except DataError as error:
        raise FormatError(f"holds damaged propensities: {error}", path=file) from None


def _parts(content: dict[str, Any], origin: str, size: int) -> dict[str, Any]:
    """All but the values, each of the kind that it must be."""
    parts: dict[str, Any] = {"origin": as_text(content.get("origin", origin), "origin")}
    parts["notes"] = texts(content.get("notes", []), "notes")
    for name in _RAISED:
        raised = content.get(name, [])
        if not isinstance(raised, list):
            raise DataError(f"{name} is not a list of positions.")
        parts[name] = tuple(as_whole(entry, f"an entry of {name}", 1, size) for entry in raised)
    if not isinstance(content.get("bound", False), bool):
        raise DataError(f"bound is {content['bound']!r}; it must be true or false.")
    parts["bound"] = content.get("bound", False)
    for name in ("low", "high", "comparisons"):
        if content.get(name) is not None:
            parts[name] = numbers(content[name], name)
    if content.get("covariance") is not None:
        parts["covariance"] = symmetric(content["covariance"], "covariance", size)
    if content.get("replicates") is not None:
        parts["replicates"] = table(content["replicates"], "replicates", size)
    if content.get("method") is not None:
        parts["method"] = as_text(content["method"], "method")
    if content.get("confidence") is not None:
        parts["confidence"] = as_number(content["confidence"], "confidence", 0, 1)
    for name, kind in _CHECKS.items():
        if content.get(name) is not None:
            parts[name] = kind.parsed(content[name], size)
    return parts


def load_estimate(path: str | PathLike[str]) -> Propensities | AffineClicks:
    """Read what an estimator found: propensities, or slopes and bases."""
    try:
        content = read_json(Path(path), "JSON")
    except CldrankError:
        content = None  # which load_propensities explains
    affine = isinstance(content, dict) and content.get("format") == AFFINE_FORMAT
    return AffineClicks.load(path) if affine else load_propensities(path)
