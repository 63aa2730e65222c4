"""Solr: linear rankers and trees for its module `ltr`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.documents.text import Markdown
from cldrank.export.format import Exported, ExportFormat, ExportRequest, written_json
from cldrank.export.forms import TreeForm, affine_form, learned_missing, tree_forms
from cldrank.rankers import LinearRanker, Ranker, TreeRanker
from cldrank.wording import count

_PACKAGE = "org.apache.solr.ltr"
_SLACK = np.float32(1e-6)  # what Solr adds to a threshold, in float32
_ZOOKEEPER = 1_000_000  # bytes: what it takes in one piece, unless told otherwise
_LARGEST = float(np.finfo(np.float32).max)
_DEFAULTS = "delete the defaultValue of features that were 0 in the training data where their queries did not match"
Singles = NDArray[np.float32]


class Solr(ExportFormat):
    """A model and a feature store to complete."""

    name = "solr"
    label = "Solr"
    takes = (LinearRanker, TreeRanker)
    oldest, newest = "6.4", "10.0"

    def write(self, ranker: LinearRanker | TreeRanker, request: ExportRequest, names: Sequence[str]) -> Exported:
        """`features.json` and `model.json`."""
        if isinstance(ranker, TreeRanker):
            return self._trees(ranker, request, names)
        scaling = affine_form(ranker)
        if scaling.logarithm:
            raise self.refuse(ranker, f"its scaling is {ranker.scaling.rule}", "retrain with 'standard:clip=none'")
        losses = ("Solr's linear model cannot clip scaled features",) if scaling.low is not None else ()
        self.accept(ranker, request, losses, "retrain with 'standard:clip=none' or 'minmax:clip=false', or ")
        weights = self._float32(ranker, ranker.coefficients)
        moving = (scaling.factor > 0) & (weights != 0)
        used = np.flatnonzero(moving) if moving.any() else np.array([0])  # a model without features is refused
        weights = np.where(moving, weights, np.float32(0))[used]
        center, spread = scaling.center[used], np.ones(len(used))
        np.divide(1.0, scaling.factor[used], where=moving[used], out=spread)
        average, deviation = self._float32(ranker, center), self._float32(ranker, spread, above=0)
        remainder = (average - center) / spread  # what an average in float32 leaves out, the same for all rows
        features = [_feature(names[at], average[place], deviation[place]) for place, at in enumerate(used)]
        params = {"weights": {names[at]: float(str(weights[place])) for place, at in enumerate(used)}}  # few digits
        shift = ranker.intercept + float(weights @ remainder)
        return _packed(request, "LinearModel", features, params, shift=shift, losses=losses)

    def _trees(self, ranker: TreeRanker, request: ExportRequest, names: Sequence[str]) -> Exported:
        """Trees: thresholds such that every float32 number goes where it went, and missing values too, since 9.2."""
        trees = tree_forms(ranker)
        learned = learned_missing(ranker)  # else nothing was missing in training, and 0 stands for what does not match
        nulls = learned and request.at_least("9.2")
        splits = [tree.splits for tree in trees]
        feature, threshold = (
            np.concatenate([getattr(tree, part)[inside] for tree, inside in zip(trees, splits, strict=True)])
            for part in ("feature", "threshold")
        )
        powers, written, gap = _written_thresholds(feature, threshold)
        losses = ["a missing value counts as 0 before Solr 9.2"] if learned and not nulls else []
        way_out = "write for 9.2 or newer, or " if losses else ""
        if astray := int(np.count_nonzero(gap)):
            losses.append(
                f"Solr adds 1e-6 to thresholds in float32, so that {count(astray, 'split')} of {len(gap):,} would send "
                f"values up to {gap.max():.2g} below the threshold to the right"
            )
        self.accept(ranker, request, losses, way_out)
        used = sorted(powers) or [0]  # a model without features is refused
        features = [_feature(names[at], np.float32(0), np.float32(2.0 ** -powers.get(at, 0))) for at in used]
        parts = np.split(written, np.cumsum([inside.sum() for inside in splits])[:-1])
        roots = [_nested(tree, part, names, nulls) for tree, part in zip(trees, parts, strict=True)]
        same: dict[str, Any] = {"isNullSameAsZero": False} if nulls else {}  # the text "false" is refused
        params = same | {"trees": [{"weight": "1", "root": root} for root in roots]}
        return _packed(request, "MultipleAdditiveTreesModel", features, params, losses=tuple(losses), nulls=nulls)

    def _float32(self, ranker: Ranker, values: NDArray[np.float64], above: float = -np.inf) -> Singles:
        """The values in float32; refused if it cannot hold them all."""
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        bad = values[~np.isfinite(rounded) | (rounded <= above)]
        if len(bad):
            reason = f"one of its numbers is {bad[0]:g}, which float32 cannot hold"
            raise self.refuse(ranker, reason, "retrain with features of a usual size")
        return rounded


def _packed(
    request: ExportRequest,
    kind: str,
    features: list[dict[str, Any]],
    params: dict[str, Any],
    *,
    nulls: bool = False,
    **parts: Any,
) -> Exported:
    about = {"store": request.name, "name": request.name, "class": f"{_PACKAGE}.model.{kind}"}
    model = written_json({**about, "features": features, "params": params}, indent=None)
    used = [feature["name"] for feature in features]
    # an unknown parser makes Solr complain where nobody completed the query
    query = {"q": "{!TODO}${text}", **({"defaultValue": "NaN"} if nulls else {})}
    definition = {"class": f"{_PACKAGE}.feature.SolrFeature", "params": query}
    notes = [_DEFAULTS] if nulls else []
    if len(model) > _ZOOKEEPER:
        notes.append(f"the model has {len(model) / 1e6:.1f} MB: SolrCloud takes it only through DefaultWrapperModel")
    return Exported(
        files={
            "features.json": written_json(
                [{"name": name, **(request.definition(name) or definition), "store": request.name} for name in used]
            ),
            "model.json": model,
        },
        to_fill={"features.json": used},
        unmatched="missing" if nulls else "zero",
        notes=tuple(notes),
        readme={"kind": Markdown(kind)},
        **parts,
    )


def _feature(name: str, average: np.float32, deviation: np.float32) -> dict[str, Any]:
    """A feature of the model; the numbers of a normalizer are texts, because Solr takes nothing else."""
    if average == 0 and deviation == 1:
        return {"name": name}
    params = {"avg": str(average), "std": str(deviation)}
    return {"name": name, "norm": {"class": f"{_PACKAGE}.norm.StandardNormalizer", "params": params}}


def _nested(tree: TreeForm, thresholds: Singles, names: Sequence[str], nulls: bool) -> Any:
    """A tree as nested nodes; numbers are texts, because Solr takes nothing else."""
    place = np.cumsum(tree.splits) - 1

    def split(node: int, left: Any, right: Any) -> dict[str, Any]:
        missing = {"missing": "left" if tree.missing_left[node] else "right"} if nulls else {}
        about = {"feature": names[tree.feature[node]], "threshold": str(thresholds[place[node]])}
        return {**about, **missing, "left": left, "right": right}

    return tree.nested(lambda node: {"value": str(tree.value[node])}, split)


def _written_thresholds(
    feature: NDArray[np.int64], threshold: Singles
) -> tuple[dict[int, int], Singles, NDArray[np.float64]]:
    """The powers of two by which features are to be multiplied, the thresholds to write, and what each misses.

    Solr adds 1e-6 in float32, which near 0 reaches few numbers. Multiplied by a power of two, which loses nothing, a
    feature's values and thresholds lie further from 0. The smallest power that makes all its splits exact is taken.
    """
    powers: dict[int, int] = {}
    written, gap = np.zeros_like(threshold), np.zeros(len(threshold))
    for column in np.unique(feature).tolist():
        own = feature == column
        largest = float(np.abs(threshold[own]).max())
        tried = {}
        for power in range(127):
            tried[power] = _solr_thresholds(threshold[own], power)
            if not tried[power][1].any() or largest * 2.0 ** (power + 2) > _LARGEST:
                break
        best = min(tried, key=lambda power: (np.count_nonzero(tried[power][1]), tried[power][1].max()))
        powers[column] = best
        written[own], gap[own] = tried[best]
    return powers, written, gap


def _solr_thresholds(thresholds: Singles, power: int = 0) -> tuple[Singles, NDArray[np.float64]]:
    """What to write so that Solr splits as XGBoost does, and how far below the threshold values go astray.

    XGBoost goes left where value < threshold, Solr where value <= written + 1e-6, rounded to float32. So the sum must
    be at least the float32 number before the threshold, and less than the threshold.
    """
    last, first = (
        values.astype(np.float64) * 2.0**power for values in (np.nextafter(thresholds, np.float32(-np.inf)), thresholds)
    )
    start = (last - np.float64(_SLACK)).astype(np.float32)
    below, above = np.nextafter(start, np.float32(-np.inf)), np.nextafter(start, np.float32(np.inf))
    near = np.stack([np.nextafter(below, np.float32(-np.inf)), below, start, above])
    sums = near + _SLACK
    best = np.where(sums < first, sums, np.float32(-np.inf)).argmax(axis=0)
    at = best, np.arange(len(thresholds))
    gap = np.where(sums[at] >= last, 0.0, (first - sums[at]) / 2.0**power)
    return near[at], gap
