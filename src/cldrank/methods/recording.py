"""What a ranker remembers of the fit that it comes from: method, clicks and propensities, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cldrank.clicks.table import ClickTable
from cldrank.fingerprints import fingerprint_of
from cldrank.methods.needs import uses_curve
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers.provenance import ClicksRecord, CurveRecord, MethodRecord

if TYPE_CHECKING:
    from cldrank.methods.method import Method


def method_record(method: Method) -> MethodRecord:
    """The method: what it does, what it corrects, and how Python writes it."""
    curve = ("position",) if uses_curve(method.required) and "position" not in method.corrects else ()
    return MethodRecord(
        label=method.label, sentence=method.sentence, corrects=(*curve, *method.corrects), call=repr(method)
    )


def clicks_record(clicks: ClickTable) -> ClicksRecord:
    """The cells in numbers, and their fingerprint."""
    names = ("row", "position", "impressions", "clicks", "display", *(["segment"] if clicks.has_segments else []))
    ratings = clicks.ratings
    rated: dict[str, Any] = {} if ratings is None else {"people": ratings.people, "machine": ratings.machine}
    valued = {"value": clicks.value} if clicks.event_weights else {}
    return ClicksRecord(
        impressions=int(clicks.impressions.sum()),
        clicks=int(clicks.clicks.sum()),
        cells=clicks.n_cells,
        shown=int(clicks.shown.sum()),
        depth=clicks.depth,
        fingerprint=fingerprint_of({name: getattr(clicks, name) for name in names} | rated | valued),
        events=clicks.events_in_words,
    )


def curve_records(used: Curve) -> dict[str, CurveRecord]:
    """The curves that corrected the clicks, by segment; the key is empty for a log without segments."""
    curves = dict(used.items()) if isinstance(used, SegmentPropensities) else {"": used}
    return {name: _curve_record(curve) for name, curve in curves.items()}


def _curve_record(used: Propensities | AffineClicks) -> CurveRecord:
    if isinstance(used, AffineClicks):
        low, high = used.interval("slope") if used.confidence is not None else (None, None)
        return CurveRecord(
            values=tuple(used.slope.tolist()),
            base=tuple(used.base.tolist()),
            origin=used.origin,
            estimator=None if used.confidence is None else "TrustBias",
            low=_numbers(low),
            high=_numbers(high),
            confidence=used.confidence,
            notes=used.notes,
        )
    return CurveRecord(
        values=tuple(used.values.tolist()),
        origin=used.origin,
        estimator=used.method,
        low=_numbers(used.low),
        high=_numbers(used.high),
        confidence=None if used.low is None else used.confidence,
        clipped=used.clipped,
        raised=used.raised,
        notes=(*used.notes, *([] if used.goodness is None else [str(used.goodness)])),
    )


def _numbers(values: Any) -> Any:
    return () if values is None else tuple(values.tolist())
