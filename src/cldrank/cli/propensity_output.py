"""How `cldrank propensity` shows what it found: to people, and to programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cldrank.cli.option_names import as_options

if TYPE_CHECKING:
    from cldrank.propensity import AffineClicks, Propensities
    from cldrank.propensity.comparing import EstimatorComparison


def as_dict(curve: Propensities | AffineClicks) -> dict[str, Any]:
    """Positions with all that is known of them, the fit and the notes."""
    from cldrank.propensity import AffineClicks

    checks: dict[str, Any] = {}
    columns: dict[str, Any]
    if isinstance(curve, AffineClicks):
        columns = {"slope": curve.slope, "base": curve.base}
        for name in ("slope", "base") if curve.confidence is not None else ():
            columns[f"{name}_low"], columns[f"{name}_high"] = curve.interval(name)
    else:
        columns = {"examined": curve.values, **{name: getattr(curve, name) for name in ("low", "high", "comparisons")}}
        checks = {name: (one := getattr(curve, name)) and asdict(one) for name in ("goodness", "confounding")}
    known = {name: column for name, column in columns.items() if column is not None}
    positions = [
        {"position": at + 1, **{name: float(column[at]) for name, column in known.items()}} for at in range(len(curve))
    ]
    described = {"origin": curve.origin, "confidence": curve.confidence, "positions": positions}
    return {**described, **checks, "notes": list(curve.notes)}


def segments_as_dict(curves: Any) -> dict[str, Any]:
    """The curve of each segment, the mean, and why segments have no estimate of their own."""
    refusals = {name: str(refusal) for name, refusal in curves.refusals.items()}
    segments = {name: as_dict(rho) for name, rho in curves.items()}
    return {"segments": segments, "refusals": refusals, "mean": as_dict(curves.pooled)}


def comparison_as_dict(comparison: EstimatorComparison) -> dict[str, Any]:
    """Estimates, refusals and agreements."""
    return {
        "estimates": {name: as_dict(rho) for name, rho in comparison.estimates.items()},
        "refusals": {name: as_options(reason) for name, reason in comparison.refusals.items()},
        "agreements": [
            {
                "methods": [pair.first, pair.second],
                "verdict": pair.verdict,
                "position": pair.position,
                "standard_errors": abs(pair.score),
                "log_difference": pair.difference,
            }
            for pair in comparison.agreements
            if not pair.bound
        ],
        "bounds": [
            {"method": pair.first, "bound": pair.second, "below_at": list(pair.below)}
            for pair in comparison.agreements
            if pair.bound
        ],
    }
