"""Which source the rows of a fit come from: this machine, its GPU, or a cluster."""

from __future__ import annotations

from typing import Any

from cldrank._typing import IntArray
from cldrank.errors import UsageError, setting
from cldrank.feature_blocks import RemoteFeatures
from cldrank.models.fit import Context
from cldrank.models.linear.rows import LocalRows, Rows, View
from cldrank.scaling import Scaling


def rows_of(
    context: Context,
    scaling: Scaling,
    observed: Any,
    *,
    rows: IntArray,
    columns: IntArray | None = None,
    device: str | None = None,
) -> Rows:
    """The rows of a dataset that a fit learns from, wherever its features live.

    rows       (rows,) of the dataset, rising
    observed   what was observed of them
    columns    the features that the model sees; all by default
    device     a GPU to hold them, named as torch does
    """
    features: Any = context.data.features
    view = View(scaling, None if columns is None or len(columns) == scaling.n_features else columns)
    if isinstance(features, RemoteFeatures):
        if device is not None:
            raise UsageError("features on Spark are not copied to a GPU; leave {} out.", setting("device"))
        there: Rows = features.fit_rows(observed, view, rows)
        return there
    if device is not None:
        from cldrank.models.linear.device_rows import DeviceRows

        return DeviceRows(features, observed, view, rows=rows, device=device, block_rows=context.run.block_rows)
    return LocalRows(features, observed, view, rows=rows, block_rows=context.run.block_rows)
