"""What a ranker remembers of the fit that it comes from: method, clicks and propensities, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cldrank.clicks.table import ClickTable
from cldrank.data.fingerprint import fingerprint_of
from cldrank.methods.needs import uses_curve
from cldrank.parameters import parameters
from cldrank.propensity import AffineClicks, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers.provenance import (
    ClicksRecord,
    CurveRecord,
    MethodRecord,
    plain_parameters,
    without_address,
)

if TYPE_CHECKING:
    from cldrank.methods.method import Method


def method_record(method: Method, given: dict[str, Any]) -> MethodRecord:
    """The method with those of its parameters that are not at their defaults; `given` are all, by their long names."""
    plain, defaults = plain_parameters(given), plain_parameters(_defaults(method))
    curve = ("position",) if uses_curve(method.required) and "position" not in method.corrects else ()
    return MethodRecord(
        label=method.label,
        sentence=method.sentence,
        corrects=(*curve, *method.corrects),
        learns=method.learns,
        call=without_address(repr(method)),
        defaults={name: defaults[name] for name in plain if plain[name] != defaults[name]},
    )


def _defaults(method: Method) -> dict[str, Any]:
    """The defaults of all parameters by their long names; of a model that is not the usual one, its own."""
    usual = parameters(type(method))["model"].default
    model = usual if type(usual) is type(method.model) else None
    defaults = {name: own.default for name, own in parameters(type(method)).items()}
    defaults |= {f"run__{name}": own.default for name, own in parameters(type(method.run)).items()}
    for name, own in parameters(type(method.model)).items():
        defaults[f"model__{name}"] = own.default if model is None else getattr(model, name)
    return {**defaults, "model": type(usual).__name__}


def clicks_record(clicks: ClickTable) -> ClicksRecord:
    """The cells in numbers, and their fingerprint."""
    names = ("row", "position", "impressions", "clicks", "display", *(["segment"] if clicks.has_segments else []))
    return ClicksRecord(
        impressions=int(clicks.impressions.sum()),
        clicks=int(clicks.clicks.sum()),
        cells=clicks.n_cells,
        shown=int(clicks.shown.sum()),
        depth=clicks.depth,
        every_click=clicks.every_click,
        fingerprint=fingerprint_of({name: getattr(clicks, name) for name in names}),
    )


def curve_record(used: Curve) -> CurveRecord:
    """The curve that clicks were corrected by, with its intervals; of several segments, that of each."""
    if isinstance(used, SegmentPropensities):
        segments = {name: curve_record(rho) for name, rho in used.items()}
        return CurveRecord(values=(), origin=used.origin, segments=segments)
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
    return None if values is None else tuple(values.tolist())
