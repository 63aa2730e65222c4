"""Propensities, those of segments, slopes and bases as JSON files; the types of their fields are the schema."""

from __future__ import annotations

import math
import sys
from dataclasses import MISSING, asdict, fields
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from cldrank.arguments import shortened
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.goodness import Goodness
from cldrank.propensity.modelled_relevance import Confounding
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import Curve, SegmentPropensities
from cldrank.reading import read_json

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable

_FORMATS: dict[str, type[Any]] = {
    "cldrank-propensities": Propensities,
    "cldrank-segment-propensities": SegmentPropensities,
    "cldrank-affine-clicks": AffineClicks,
}
_NAMES = {
    Propensities: "propensities",
    SegmentPropensities: "propensities of segments",
    AffineClicks: "slopes and bases",
}
_WORDS = {float: "a finite number", int: "a whole number", bool: "true or false", str: "a text"}
_LARGEST = sys.float_info.max
_LEFT_OUT = ("ranker", "is_trusted")
_BOUNDS = {  # of numbers whose class does not check them; a log propensity beyond 700 has no number
    "moved": (-700.0, 700.0),
    "p_value": (0.0, 1.0),
    "explained": (0.0, 1.0),
    **dict.fromkeys(("statistic", "error", "sensitivity"), (0.0, math.inf)),
}


def curve_content(curve: Any) -> dict[str, Any]:
    """A curve as plain values, without parts that are not known; replicates are rounded to six digits."""
    if isinstance(curve, SegmentPropensities):
        segments = {name: curve_content(rho) for name, rho in curve.items()}
        return {"format": "cldrank-segment-propensities", "segments": segments}
    content: dict[str, Any] = {"format": next(form for form, kind in _FORMATS.items() if isinstance(curve, kind))}
    for field in fields(curve):
        part = getattr(curve, field.name)
        if part is None or part is False or field.name in _LEFT_OUT:
            continue
        if field.name == "replicates":
            part = [[float(f"{value:.6g}") for value in row] for row in part.tolist()]
        content[field.name] = (
            part.tolist()
            if isinstance(part, np.ndarray)
            else asdict(part)
            if isinstance(part, Goodness | Confounding)
            else part
        )
    return content


def load_curve(path: str | PathLike[str], kind: type[Any] | None = None) -> Any:
    """Read what an estimator found, the truth beside a simulated log, or a plain list of numbers.

    kind   the class that it must be
    """
    file = Path(path)
    if not file.is_file():
        what = "a folder, not a file" if file.is_dir() else "no such file"
        raise UsageError(f"{file}: {what} of propensities; a power law is written power:1.0.")
    with file.open("rb") as opened:
        if opened.read(4) == b"PAR1":
            raise FormatError("is a Parquet file (cells, say, or a log), not a file of propensities.", path=file)
    content = read_json(file, "JSON")
    form = (
        _FORMATS.get(content["format"])
        if isinstance(content, dict) and isinstance(content.get("format"), str)
        else None
    )
    try:
        curve = _of_list(content, file) if form is None else _decoded(form, content, "it")
    except FormatError:
        raise
    except CldrankError as error:
        raise FormatError(f"holds damaged {_NAMES.get(form or Propensities)}: {error}", path=file) from None
    if kind is not None and not isinstance(curve, kind):
        raise FormatError(f"holds {_NAMES[type(curve)]}, not {_NAMES[kind]}.", path=path)
    return curve


def _of_list(content: Any, file: Path) -> Propensities:
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    if not isinstance(values, list) or not values:
        raise FormatError("holds no list of propensities; `cldrank propensity estimate` writes one.", path=file)
    return Propensities(_value(np.ndarray, values, "values"), f"from {file.name}")


def _decoded(kind: type[Any], content: Any, name: str) -> Any:
    """A dataclass from a JSON object, each field by its type; shapes and ranges of arrays the class checks."""
    if not isinstance(content, dict):
        raise DataError(f"{name} is {shortened(content)}, not an object.")
    if kind is SegmentPropensities:
        return SegmentPropensities(_segments(content.get("segments")))
    hints = get_type_hints(kind, localns={"Goodness": Goodness, "Confounding": Confounding, "Ranker": object})
    known = {field.name: field for field in fields(kind) if field.name not in _LEFT_OUT}
    missing = next((key for key, field in known.items() if key not in content and field.default is MISSING), None)
    if missing is not None:
        raise DataError(f"{name} lacks {missing!r}.")
    curve = kind(**{key: _value(hints[key], value, key) for key, value in content.items() if key in known})
    if kind in _NAMES:
        _check_parts(curve)
    return curve


def _segments(segments: Any) -> dict[str, Propensities]:
    if not isinstance(segments, dict):
        raise DataError("segments is not an object with a curve for each segment.")
    curves = {}
    for name, part in segments.items():
        if not isinstance(part, dict) or part.get("format") != "cldrank-propensities":
            raise DataError(f"segment {name!r} does not hold propensities.")
        try:
            curves[_value(str, name, "a segment")] = _decoded(Propensities, {"origin": f"segment {name}", **part}, "it")
        except DataError as error:
            raise DataError(f"segment {name!r}: {error}") from None
    return curves


def _value(kind: Any, value: Any, name: str) -> Any:
    """A JSON value as the type of its field asks for; an array is a list of numbers, or of such lists."""
    kinds = [one for one in (get_args(kind) if get_origin(kind) is UnionType else (kind,)) if one is not type(None)]
    if value is None and len(kinds) < len(get_args(kind)):
        return None
    wanted, inner = get_origin(kinds[0]) or kinds[0], get_args(kinds[0])
    if wanted in (np.ndarray, tuple):
        if not isinstance(value, list):
            raise DataError(f"{name} is {shortened(value)}, not a list.")
        nested = wanted is np.ndarray and value and isinstance(value[0], list)
        entry = np.ndarray if nested else float if wanted is np.ndarray else inner[0]
        entries = [_value(entry, one, f"entry {at} of {name}") for at, one in enumerate(value, 1)]
        if nested and len({len(row) for row in entries}) > 1:
            raise DataError(f"the rows of {name} differ in length.")
        if wanted is tuple and Ellipsis not in inner and len(entries) != len(inner):
            raise DataError(f"{name} has {len(entries)} entries, not {len(inner)}.")
        return tuple(entries) if wanted is tuple else np.array(entries, dtype=np.float64)
    if wanted in (Goodness, Confounding):
        return _decoded(wanted, value, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is float and number and abs(value) <= _LARGEST:  # neither NaN nor infinite
        low, high = _BOUNDS.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            raise DataError(f"{name} is {shortened(value)}, not from {low:g} to {high:g}.")
        return float(value)
    if wanted in (int, bool, str) and type(value) is wanted:
        if wanted is str and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise DataError(f"{name} holds half of a character (a lone surrogate).")
        return value
    raise DataError(f"{name} is {shortened(value)}, not {_WORDS[wanted]}.")


def _check_parts(curve: Propensities | AffineClicks) -> None:
    """Refuse positions beyond the curve, and a covariance that is not symmetric."""
    if curve.covariance is not None and not np.allclose(curve.covariance, curve.covariance.T, rtol=1e-6, atol=1e-9):
        raise DataError("covariance is not symmetric.")
    if isinstance(curve, AffineClicks):
        return
    goodness, confounding = curve.goodness, curve.confounding
    named = [*curve.clipped, *curve.raised, *(goodness.worst if goodness else ())]
    named += [confounding.position] if confounding else []
    beyond = next((at for at in named if not 1 <= at <= len(curve)), None)
    if beyond is not None:
        raise DataError(f"there is no position {shortened(beyond)}; these go from 1 to {len(curve)}.")
    if goodness is not None and not 1 <= goodness.pairs <= len(curve) * (len(curve) - 1) // 2:
        raise DataError(f"pairs is {shortened(goodness.pairs)}, for {len(curve)} positions.")


# -- named on the command line -------------------------------------------------------------------------------------


def parse_curve(text: str, clicks: ClickTable) -> Curve:
    """The curve that a text names, for the clicks of a table: `power:1.0`, `none`, or a file.

    One curve for each segment is written `phone=power:1.2,desktop=rho.json`; power laws go down as far as the clicks.
    """
    if Path(text).is_file():
        curve: Curve = load_curve(text)
        return curve
    if "=" not in text:
        return Propensities.parse(text, max(clicks.depth, 1))
    parts, curves = clicks.by_segment(), {}
    for one in text.split(","):
        name, _, named = (word.strip() for word in one.partition("="))
        if not name or not named or name in curves:
            raise UsageError(f"{text!r} is not one curve for each segment; write phone=power:1.2,desktop=power:0.8.")
        curves[name] = Propensities.parse(named, max(parts[name].depth if name in parts else clicks.depth, 1))
    return SegmentPropensities.of(curves)


def is_curve_file(path: Path) -> bool:
    """Whether a file holds propensities, or slopes and bases, for messages about files given in the wrong place."""
    try:
        content = read_json(path, "JSON")
    except CldrankError:
        return False
    return isinstance(content, dict) and content.get("format") in _FORMATS
