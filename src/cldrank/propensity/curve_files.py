"""Propensities, those of segments, slopes and bases as JSON files; the types of their fields are the schema."""

from __future__ import annotations

from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.propensities import Goodness, Propensities
from cldrank.propensity.segment_propensities import Curve, SegmentPropensities
from cldrank.reading import reading, reason

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


def curve_content(curve: Any) -> dict[str, Any]:
    """A curve as plain values, without parts that are not known; replicates are rounded to six digits."""
    if isinstance(curve, SegmentPropensities):
        segments = {name: curve_content(rho) for name, rho in curve.items()}
        return {"format": "cldrank-segment-propensities", "segments": segments}
    content: dict[str, Any] = {"format": next(form for form, kind in _FORMATS.items() if isinstance(curve, kind))}
    for field in fields(curve):
        part = getattr(curve, field.name)
        if part is None or part is False or field.name == "is_trusted":
            continue
        if field.name == "replicates":
            part = [[float(f"{value:.6g}") for value in row] for row in part.tolist()]
        elif isinstance(part, Goodness):
            part = asdict(part)
        content[field.name] = part.tolist() if isinstance(part, np.ndarray) else part
    return content


def load_curve(path: str | PathLike[str], kind: type[Any] | None = None) -> Any:
    """Read an estimate, the truth beside a simulated log, or a plain list of numbers.

    kind   the class it must have
    """
    file = Path(path)
    if not file.is_file():
        what = "a folder, not a file" if file.is_dir() else "no such file"
        raise UsageError(f"{file}: {what} of propensities; a power law is written power:1.0.")
    with reading(file, "JSON"), file.open("rb") as opened:
        if opened.peek(4).startswith(b"PAR1"):
            raise FormatError("is a Parquet file (cells, say, or a log), not a file of propensities.", path=file)
        content = msgspec.json.decode(opened.read())
    named = content.get("format") if isinstance(content, dict) else None
    form = _FORMATS.get(named) if isinstance(named, str) else None
    if form is None:
        values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
        if not isinstance(values, list) or not values:
            raise FormatError("holds no list of propensities; `cldrank propensity estimate` writes one.", path=file)
        content = {"values": values, "origin": f"from {file.name}"}
    try:
        curve = _decoded(form or Propensities, content)
    except (CldrankError, ValueError) as error:
        raise FormatError(f"holds damaged {_NAMES[form or Propensities]}: {_why(error)}.", path=file) from None
    if kind is not None and not isinstance(curve, kind):
        raise FormatError(f"holds {_NAMES[type(curve)]}, not {_NAMES[kind]}.", path=path)
    return curve


def _decoded(form: type[Any], content: dict[str, Any]) -> Any:
    """A curve from the content of a file."""
    if form is not SegmentPropensities:
        known = {key: part for key, part in content.items() if key != "is_trusted"}
        curve = msgspec.convert(known, form, dec_hook=_array)
        _check_parts(curve)
        return curve
    curves = {}
    for name, part in msgspec.convert(content.get("segments"), dict[str, dict[str, Any]]).items():
        try:
            curves[name] = _decoded(Propensities, {"origin": f"segment {name}", **part})
        except (CldrankError, ValueError) as error:
            raise DataError(f"segment {name!r}: {_why(error)}.") from None
    return SegmentPropensities(curves)


def _why(error: Exception) -> str:
    """The reason that msgspec gives, without its markup."""
    return reason(error).replace("`", "").replace("$.", "")


def _array(kind: Any, content: Any) -> Any:
    """An array from a list of numbers, or of such lists."""
    del kind
    nested = isinstance(content, list) and bool(content) and isinstance(content[0], list)
    try:
        rows = msgspec.convert(content if nested else [content], list[list[float]])
        return np.array(rows if nested else rows[0], dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a list of finite numbers, nor a table of them ({reason(error)})") from None


def _check_parts(curve: Propensities | AffineClicks) -> None:
    """Refuse positions beyond the curve, and a covariance that is not symmetric."""
    if curve.covariance is not None and not np.allclose(curve.covariance, curve.covariance.T, rtol=1e-6, atol=1e-9):
        raise DataError("covariance is not symmetric.")
    if isinstance(curve, AffineClicks):
        return
    named = [*curve.clipped, *curve.raised, *(curve.goodness.worst if curve.goodness else ())]
    if not all(1 <= at <= len(curve) for at in named):
        raise DataError(f"it names positions outside 1 to {len(curve)}.")


def parse_curve(text: str, clicks: ClickTable) -> Curve:
    """The curve that a text names, for the clicks of a table: `power:1.0`, `none`, or a file.

    Curves of segments are written `phone=power:1.2,desktop=rho.json`; power laws go down as far as the clicks.
    """
    if Path(text).is_file():
        curve: Curve = load_curve(text)
        return curve
    if "=" not in text:
        return Propensities.parse(text, max(clicks.depth, 1))
    parts, curves = clicks.by_segment(), {}
    for entry in text.split(","):
        name, _, named = (word.strip() for word in entry.partition("="))
        if not name or not named or name in curves:
            raise UsageError(f"{text!r} is not one curve for each segment; write phone=power:1.2,desktop=power:0.8.")
        curves[name] = Propensities.parse(named, max(parts[name].depth if name in parts else clicks.depth, 1))
    return SegmentPropensities.of(curves)
