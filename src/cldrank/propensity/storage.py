"""Propensities as JSON files."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cldrank.errors import DataError, FormatError
from cldrank.files import replacing
from cldrank.propensity.confounding import Confounding
from cldrank.propensity.goodness import Goodness
from cldrank.propensity.propensities import Propensities

FORMAT = "cldrank-propensities"
_CHECKS: dict[str, type[Goodness] | type[Confounding]] = {"goodness": Goodness, "confounding": Confounding}
_ARRAYS = ("low", "high", "comparisons", "covariance")


def write(propensities: Propensities, path: str | PathLike[str]) -> None:
    """Write them whole or not at all; parts that are not known are left out."""
    content: dict[str, Any] = {"format": FORMAT, "values": propensities.values.tolist(), "origin": propensities.origin}
    content["clipped"] = list(propensities.clipped)
    for name in _ARRAYS:
        array = getattr(propensities, name)
        if array is not None:
            content[name] = array.tolist()
    if propensities.method is not None:
        content |= {"method": propensities.method, "notes": list(propensities.notes)}
    if propensities.confidence is not None:
        content["confidence"] = propensities.confidence
    for name in _CHECKS:
        found = getattr(propensities, name)
        if found is not None:
            content[name] = asdict(found)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read(path: str | PathLike[str]) -> Propensities:
    """Read what `write` wrote, the truth beside a simulated log, or a plain list of numbers."""
    file = Path(path)
    if not file.is_file():
        what = "a folder, not a file" if file.is_dir() else "no such file"
        raise DataError(f"{file}: {what} of propensities; write power:1.0 for a power law.")
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"not JSON ({error}).", path=file) from None
    origin = f"from {file.name}"
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    if not isinstance(values, list) or not all(_is_number(value) for value in values):
        raise FormatError("holds no list of propensities; `cldrank propensity estimate` writes one.", path=file)
    try:
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Propensities(np.array(values, dtype=np.float64), **_parts(content, origin))
        return Propensities(np.array(values, dtype=np.float64), origin)
    except (DataError, TypeError, ValueError) as error:
        raise FormatError(f"holds damaged propensities: {error}", path=file) from None


def _parts(content: dict[str, Any], origin: str) -> dict[str, Any]:
    """All but the values, each of the kind that it must be."""
    parts: dict[str, Any] = {"origin": str(content.get("origin", origin))}
    clipped, notes = content.get("clipped", []), content.get("notes", [])
    if not isinstance(clipped, list) or not all(isinstance(entry, int) for entry in clipped):
        raise DataError(f"clipped is {clipped!r}, not a list of positions.")
    if not isinstance(notes, list) or not all(isinstance(entry, str) for entry in notes):
        raise DataError("notes is not a list of texts.")
    parts |= {"clipped": tuple(clipped), "notes": tuple(notes)}
    for name in _ARRAYS:
        if content.get(name) is not None:
            parts[name] = np.array(content[name], dtype=np.float64)
    method, confidence = (content.get(name) for name in ("method", "confidence"))
    if method is not None and not isinstance(method, str):
        raise DataError(f"method is {method!r}, not a name.")
    if confidence is not None and not _is_number(confidence):
        raise DataError(f"confidence is {confidence!r}, not a number.")
    parts |= {"method": method, "confidence": confidence}
    for name, kind in _CHECKS.items():
        found = content.get(name)
        if found is not None and not isinstance(found, dict):
            raise DataError(f"{name} is {found!r}, not a table.")
        parts[name] = None if found is None else kind.parsed(found)
    return parts


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
