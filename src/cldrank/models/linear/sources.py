"""Which source the rows of a fit come from: this machine, its GPU, or a cluster."""

from __future__ import annotations

from typing import Any

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.feature_blocks import RemoteFeatures
from cldrank.models.fit import Context
from cldrank.models.linear.rows import LocalRows, Rows, View
from cldrank.scaling import ScalingRule


def rows_of(
    context: Context,
    scaling: str | ScalingRule | None,
    observed: Any,
    *,
    rows: IntArray,
    columns: IntArray | None = None,
    device: str | None = None,
) -> Rows:
    """The rows of a dataset that a fit learns from, wherever its features live; the scaling is learned from all rows.

    rows       (rows,) of the dataset, rising
    observed   what was observed of them
    columns    the features that the model sees; all by default
    device     a GPU to hold them, named as torch does
    """
    features: Any = context.data.features
    if columns is not None and len(columns) == features.shape[1]:
        columns = None
    if device is not None:
        if isinstance(features, RemoteFeatures):
            raise UsageError("features on Spark are not copied to a GPU; leave `device` out.")
        from cldrank.models.linear.device_rows import DeviceRows

        size = context.run.block_rows
        return DeviceRows(features, observed, scaling, rows=rows, columns=columns, device=device, block_rows=size)
    view = View(scalings.fit(scaling, features), columns)
    if isinstance(features, RemoteFeatures):
        there: Rows = features.fit_rows(observed, view, rows)
        return there
    return LocalRows(features, observed, view, rows=rows, block_rows=context.run.block_rows)
