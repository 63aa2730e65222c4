"""All estimators on a log: which of them suits it, and its curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.curve_checks import held_to_clicks
from cldrank.propensity.estimator import PropensityEstimator, comparing_estimators, estimators
from cldrank.propensity.identifiability import Requirement, way_out
from cldrank.propensity.segment_propensities import BySegment, Curve


def all_requirements(
    clicks: ClickTable, dataset: RankingDataset | None = None, probability: Floats | None = None
) -> tuple[Requirement, ...]:
    """The requirement of every estimator, the best founded first; `probability` is that of display, of each cell."""
    every = (kind().given_log(probability) for kind in estimators().values())
    return tuple(estimator.requirements(clicks, dataset) for estimator in every)


def best_requirement(requirements: Sequence[Requirement]) -> Requirement | None:
    """The requirement of the estimator to choose; None where the log supports none.

    It is the first that is met by comparing positions; requirements met exactly come before those met nearly.
    """
    comparing = {kind.name for kind in comparing_estimators()}
    met = [requirement for requirement in requirements if requirement.met and requirement.estimator in comparing]
    return min(met, key=lambda requirement: requirement.approximate, default=None)


def choose_method(table: ClickTable, depth: int | None) -> Requirement:
    """The requirement of the best founded estimator that a log supports; UnidentifiableError where none does."""
    asked: list[Requirement] = []
    for kind in comparing_estimators():
        if any(requirement.met and not requirement.approximate for requirement in asked):
            break
        asked.append(kind(depth=depth).requirements(table))
    best = best_requirement(asked)
    if best is not None:
        return best
    reasons: dict[str, list[str]] = {}
    for requirement in asked:
        reasons.setdefault(requirement.reason, []).append(requirement.estimator)
    why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    reached = max(requirement.depth for requirement in asked)
    raise UnidentifiableError(
        f"propensities cannot be estimated from this log by comparing positions. {why}. {way_out(reached)}",
        positions=tuple(range(max(reached, 0) + 1, table.depth + 1)),
        depth=reached,
        reason=why,
    )


def fitted_curve(
    estimator: PropensityEstimator[Any] | BySegment,
    table: ClickTable,
    dataset: RankingDataset | None = None,
    *,
    clip: float | None = None,
) -> Curve:
    """The estimate from a log, clipped as asked, with a warning where the log refutes it."""
    curve: Curve = estimator.fit(table, dataset)
    curve = curve if clip is None else curve.clip(clip)
    return curve if isinstance(curve, AffineClicks) else held_to_clicks(curve, table, "off")
