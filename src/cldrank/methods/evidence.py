"""What a method learns from, checked: the dataset, and the clicks, labels and propensities that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, cast

import numpy as np

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import Hashes, hashes_of
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.methods.needs import Needs, uses_clicks, uses_curve
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.curve_checks import EnvelopeUse, check_own_pages, held_to_clicks
from cldrank.propensity.segment_propensities import Curve
from cldrank.spark import SparkDataset
from cldrank.wording import kind_of, some


@dataclass(frozen=True, eq=False)
class Evidence:
    """A dataset, and beside it what the method needs; anything else is None.

    clicks         a `ClickTable`
    propensities   of the positions, perhaps of each segment, or slopes and bases; clipped and raised as the method says
    """

    data: RankingDataset
    clicks: Any = None
    propensities: Any = None

    @property
    def learned_queries(self) -> Hashes:
        """Sorted hashes of the queries that there is something to learn from: those with impressions, or labels."""
        ids = self.data.query_ids
        if self.clicks is not None:
            ids = ids[np.bincount(self.data.row_queries[self.clicks.row], minlength=len(ids)) > 0]
        return np.unique(hashes_of(ids))

    @property
    def affine(self) -> AffineClicks:
        """Slope and base of the positions; propensities are slopes without a base."""
        if isinstance(self.propensities, Propensities):
            return AffineClicks.from_propensities(self.propensities)
        return cast("AffineClicks", self.propensities)


def collect(
    user: str,
    needs: Needs,
    dataset: RankingDataset | SparkDataset,
    clicks: ClickTable | None,
    propensities: Curve | None,
    *,
    clip: float | None = None,
    envelope: EnvelopeUse = "off",
) -> Evidence:
    """Check everything that a method was given; propensities that it does not use are left out, with a warning.

    clip       the least propensity
    envelope   what is done where the clicks give a lower bound above the propensities, see `held_to_clicks`
    """
    if isinstance(dataset, SparkDataset):
        dataset, clicks = _on_spark(user, needs, dataset, clicks)
    check_dataset(dataset, user)
    if needs == "labels":
        for name, given in {"clicks": clicks, "propensities": propensities}.items():
            if given is not None:
                raise UsageError(f"{user} learns from labels; leave `{name}` out.")
        labels = dataset.labels
        if labels is None:
            raise DataError(f"{dataset.name or 'the data'} has no labels, and {user} learns from labels.")
        if labels.min() == labels.max():
            raise DataError(f"all {len(labels):,} labels are {labels[0]:g}; {user} needs labels that differ.")
        return Evidence(dataset)
    table = check_clicks(clicks, dataset, user)
    if needs == "clicks":
        if propensities is not None:
            warn(CldrankWarning(f"{user} does not use propensities; those given are left out."))
        return Evidence(dataset, table)
    if needs == "propensities":
        return Evidence(dataset, table, check_propensities(propensities, table, user, clip, envelope))
    return Evidence(dataset, table, check_affine(propensities, table, user, clip))


def _on_spark(user: str, needs: Needs, dataset: SparkDataset, clicks: Any) -> tuple[RankingDataset, ClickTable]:
    """The candidates that the clicks name, and the clicks on those that are there."""
    if needs == "labels":
        raise UsageError(f"{user} learns from labels, which are not read on Spark; load the data here: cldrank.load.")
    if not isinstance(clicks, ClickTable):
        raise _no_clicks(clicks, user)
    return dataset.shown(clicks)


def needed(needs: Needs, clicks: Any, propensities: Any) -> tuple[Any, Any]:
    """Of clicks and propensities, those that a method needs; None for the others."""
    return clicks if uses_clicks(needs) else None, propensities if uses_curve(needs) else None


def check_dataset(dataset: Any, user: str) -> RankingDataset:
    """Refuse what is not a dataset with rows and features."""
    if not isinstance(dataset, RankingDataset):
        from cldrank.tables import is_frame

        raise UsageError(
            f"{user} learns from a RankingDataset, not from {kind_of(dataset)}; convert it with "
            f"{'cldrank.load(frame)' if is_frame(dataset) else 'RankingDataset.from_arrays(features, qid, labels)'}."
        )
    if not np.prod(dataset.features.shape):
        raise DataError(f"{dataset!r} has nothing for {user} to learn from: it needs rows and features.")
    return dataset


def check_clicks(clicks: Any, dataset: RankingDataset, user: str) -> ClickTable:
    """Refuse anything but a click table of this dataset that has impressions and clicks."""
    if not isinstance(clicks, ClickTable):
        raise _no_clicks(clicks, user)
    clicks.check_same(dataset)
    if not clicks.n_cells:
        raise DataError(f"{clicks!r} has no impressions; {user} needs candidates that were shown.")
    if not clicks.clicks.any():
        raise DataError(f"{clicks!r} has no clicks; {user} cannot learn what is relevant.")
    if (clicks.impressions < 1).any():
        raise DataError("a cell has clicks but no impressions; aggregate the log with its impressions.")
    return clicks


def _no_clicks(given: Any, user: str) -> UsageError:
    return UsageError(f"{user} needs `clicks`, a table such as ClickTable.read(path, dataset), not {kind_of(given)}.")


def check_propensities(
    propensities: Any, clicks: ClickTable, user: str, clip: float | None, envelope: EnvelopeUse = "off"
) -> Propensities | SegmentPropensities:
    """The propensities, clipped if asked to and held to the clicks, that cover all positions of the table.

    Segment propensities must have a curve for each segment of the table; a single curve serves all segments.
    """
    if not isinstance(propensities, Propensities | SegmentPropensities):
        is_path = isinstance(propensities, str | PathLike)
        known = f"Propensities.load({str(propensities)!r})" if is_path else "Propensities.power(1, k)"
        raise UsageError(f"{user} needs `propensities` of positions, such as {known}, not {kind_of(propensities)}.")
    if propensities.bound:
        raise UsageError(
            f"{user} needs the curve itself, and these propensities are a lower bound; assume a curve, such as "
            "power:1.0: it is raised to the bound where it lies below."
        )
    if isinstance(propensities, SegmentPropensities):
        propensities.per_cell(clicks)
    else:
        propensities.at(np.array([clicks.depth]))
        _warn_of_one_curve(clicks, user)
    check_own_pages(propensities, clicks)
    used = propensities if clip is None else propensities.clip(float(clip))
    return held_to_clicks(used, clicks, envelope)


def _warn_of_one_curve(clicks: ClickTable, user: str) -> None:
    """Warn where several segments share a curve: that may be meant, or forgotten."""
    if clicks.n_segments > 1:
        warn(
            CldrankWarning(
                f"{user} is given one curve for all segments ({some(clicks.segment_names)}), but surfaces are "
                "seldom examined alike; estimate a curve for each (BySegment, or `cldrank propensity estimate`)."
            )
        )


def check_affine(given: Any, clicks: ClickTable, user: str, clip: float | None) -> AffineClicks:
    """Slope and base of each position, clipped if asked to; propensities are slopes without a base."""
    if isinstance(given, SegmentPropensities):
        raise UsageError(
            f"{user} needs the slope and base of each position, the same in all segments, not a curve for each "
            "segment; give a common slope and base, or train a method that takes segments, such as ips or cld."
        )
    if isinstance(given, Propensities):
        check_own_pages(given, clicks)
        given = AffineClicks.from_propensities(held_to_clicks(given, clicks, "off"))
    if not isinstance(given, AffineClicks):
        raise UsageError(
            f"{user} needs AffineClicks, slope and base of each position: estimate them by trust-bias "
            "(propensity.TrustBias); or give Propensities, if there is no trust bias."
        )
    given.at(np.array([clicks.depth]))
    _warn_of_one_curve(clicks, user)
    return given if clip is None else given.clip(float(clip))
