"""Propensities as JSON files."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.errors import CldrankError, DataError, FormatError, Spelling, UsageError
from cldrank.files import save_json
from cldrank.propensity.affine_clicks import FORMAT as AFFINE_FORMAT
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.confounding import Confounding
from cldrank.propensity.checks.goodness import Goodness
from cldrank.propensity.parsing import as_number, as_text, as_whole, numbers, symmetric, table, texts
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import Curve, SegmentPropensities
from cldrank.reading import read_json

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable

FORMAT = "cldrank-propensities"
SEGMENTS_FORMAT = "cldrank-segment-propensities"
_CHECKS: dict[str, type[Goodness] | type[Confounding]] = {"goodness": Goodness, "confounding": Confounding}
_RAISED = ("clipped", "raised")
_ARRAYS = ("low", "high", "comparisons", "covariance")


def save_propensities(propensities: Propensities, path: str | PathLike[str]) -> None:
    """Write them whole or not at all; parts that are not known are left out."""
    save_json(path, _content(propensities), indent=1)


def save_segments(curves: SegmentPropensities, path: str | PathLike[str]) -> None:
    """Write the curves of all segments into one file, whole or not at all."""
    segments = {name: _content(rho) for name, rho in curves.items()}
    save_json(path, {"format": SEGMENTS_FORMAT, "segments": segments}, indent=1)


def _content(propensities: Propensities) -> dict[str, Any]:
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
    return content


def load_propensities(path: str | PathLike[str]) -> Propensities:
    """Read what `save_propensities` wrote, the truth beside a simulated log, or a plain list of numbers."""
    content, file = _read(path)
    if _is_of(content, SEGMENTS_FORMAT):
        raise FormatError(
            "holds the curves of several segments; they are for {}.",
            Spelling("SegmentPropensities.load", "clicks that were counted with --segment"),
            path=file,
        )
    origin = f"from {file.name}"
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    if not isinstance(values, list) or not values:
        raise FormatError(
            "holds no list of propensities; {} writes one.",
            Spelling("Propensities.save", "`cldrank propensity estimate`"),
            path=file,
        )
    try:
        return _parsed(content, origin) if _is_of(content, FORMAT) else Propensities(numbers(values, "values"), origin)
    except DataError as error:
        raise FormatError(f"holds damaged propensities: {error}", path=file) from None


def load_segments(path: str | PathLike[str]) -> SegmentPropensities:
    """Read what `save_segments` wrote."""
    content, file = _read(path)
    if not _is_of(content, SEGMENTS_FORMAT):
        raise FormatError(
            "does not hold the curves of segments; {} writes them.",
            Spelling("SegmentPropensities.save", "`cldrank propensity estimate --segment`"),
            path=file,
        )
    try:
        segments = content.get("segments")
        if not isinstance(segments, dict):
            raise DataError("segments is not an object with a curve for each segment.")
        return SegmentPropensities({as_text(name, "a segment"): _segment(segments, name) for name in segments})
    except DataError as error:
        raise FormatError(f"holds damaged propensities: {error}", path=file) from None


def _segment(segments: dict[str, Any], name: str) -> Propensities:
    if not _is_of(segments[name], FORMAT):
        raise DataError(f"segment {name!r} does not hold propensities.")
    try:
        return _parsed(segments[name], f"segment {name}")
    except DataError as error:
        raise DataError(f"segment {name!r}: {error}") from None


def _read(path: str | PathLike[str]) -> tuple[Any, Path]:
    file = Path(path)
    if not file.is_file():
        what = "a folder, not a file" if file.is_dir() else "no such file"
        raise UsageError(
            "{}: {} of propensities; for a power law, {}.",
            file,
            what,
            Spelling("use Propensities.power", "write power:1.0"),
        )
    return read_json(file, "JSON"), file


def _is_of(content: Any, form: str) -> bool:
    return isinstance(content, dict) and content.get("format") == form


def _parsed(content: dict[str, Any], origin: str) -> Propensities:
    rho = numbers(content.get("values"), "values")
    return Propensities(rho, **_parts(content, origin, len(rho)))


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


def load_estimate(path: str | PathLike[str]) -> Curve:
    """Read what an estimator found: propensities, those of several segments, or slopes and bases."""
    try:
        content = read_json(Path(path), "JSON")
    except CldrankError:
        content = None  # which load_propensities explains
    if _is_of(content, SEGMENTS_FORMAT):
        return load_segments(path)
    return AffineClicks.load(path) if _is_of(content, AFFINE_FORMAT) else load_propensities(path)


def parse_curve(text: str, clicks: ClickTable) -> Curve:
    """The curve that a text names, for the clicks of a table: `power:1.0`, `none`, or a file.

    One curve for each segment is written `phone=power:1.2,desktop=rho.json`; power laws go down as far as the clicks.
    """
    if Path(text).is_file() or "=" not in text:
        return load_estimate(text) if Path(text).is_file() else Propensities.parse(text, max(clicks.depth, 1))
    parts, curves = clicks.by_segment(), {}
    for one in text.split(","):
        name, _, curve = (word.strip() for word in one.partition("="))
        if not name or not curve or name in curves:
            raise UsageError(f"{text!r} is not one curve for each segment; write phone=power:1.2,desktop=power:0.8.")
        curves[name] = Propensities.parse(curve, max(parts[name].depth if name in parts else clicks.depth, 1))
    return SegmentPropensities.of(curves)
