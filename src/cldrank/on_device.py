"""Feature tables on a device: brought there through pinned buffers, and scaled there as `cldrank.scaling` scales here.

All arithmetic is in float64, over blocks of rows, as on the CPU. What is learned agrees with the CPU's to the rounding
of float64, what is scaled to that of float32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.feature_blocks import as_float32
from cldrank.scaling import MinMax, Parameters, Quantile, Scaling, ScalingRule, SignedLog, Standard, Unscaled
from cldrank.workers import ahead, available_cores, fair_threads

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STAGED_BYTES = 4 << 20  # of a pinned buffer; each thread has one
_THREADS = 4
_BLOCK_VALUES = 1 << 25  # 256 MiB of float64 on the device at a time
_LARGEST = float(np.finfo(np.float32).max)


def uploaded(table: NDArray[Any], device: torch.device | str) -> Tensor:
    """A table of features as float32 on a device; a value that is not finite is refused as elsewhere.

    On a GPU, several threads copy parts of the table into pinned buffers, from which the GPU fetches them meanwhile. On
    the CPU, what is float32 already, and may be written to, is shared, not copied.

    >>> uploaded(np.array([[1.0, 2.0]]), "cpu")
    tensor([[1., 2.]])
    """
    import torch

    place = torch.device(device)
    if place.type == "cpu":
        here = np.ascontiguousarray(_float32(table[:]))
        found = torch.from_numpy(here if here.flags.writeable else here.copy())
    else:
        found = torch.empty(table.shape, dtype=torch.float32, device=place)
        _staged(table, found)
    for start, block in _blocks(found):
        if not bool(block.isfinite().all()):
            as_float32(table[start : start + len(block)], row=start)  # raises, and says which
    return found


def learned_on_device(rule: ScalingRule, table: Tensor) -> Scaling:
    """The scaling that a rule learns from a table on a device, as `scaling.fit` does from an array.

    >>> learned_on_device(Standard(), uploaded(np.array([[1.0], [3.0]]), "cpu")).parameters
    {'center': array([2.]), 'factor': array([1.])}
    """
    rows, width = table.shape
    if not table.numel():
        raise DataError(f"a scaling cannot be learned from a table of {rows} rows × {width} features.")
    learn: dict[type[ScalingRule], Callable[[Any, Tensor], Parameters]] = {
        Standard: _moments, SignedLog: _moments, MinMax: _extremes, Quantile: _knots, Unscaled: lambda *_: {}
    }  # fmt: skip
    return Scaling(rule, width, learn[type(rule)](rule, table))


def applied_on_device(scaling: Scaling, table: Tensor, out: Tensor | None = None) -> Tensor:
    """The scaled table, in a new tensor or in `out`, which may be the table itself.

    >>> table = uploaded(np.array([[1.0], [3.0]]), "cpu")
    >>> applied_on_device(learned_on_device(Standard(), table), table).ravel()
    tensor([-1., 1.])
    """
    import torch

    if table.shape[1] != scaling.n_features:
        raise DataError(f"the scaling was learned from {scaling.n_features} features, not {table.shape[1]}.")
    found = torch.empty_like(table) if out is None else out
    parameters = {name: torch.tensor(values, device=table.device) for name, values in scaling.parameters.items()}
    for start, block in _blocks(table):
        found[start : start + len(block)] = _scaled(scaling.rule, block.double(), parameters)
    return found


def _float32(part: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        return part.astype(np.float32, copy=False)


def _blocks(table: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows, each with its first row."""
    step = max(1, _BLOCK_VALUES // max(table.shape[1], 1))
    return ((start, table[start : start + step]) for start in range(0, len(table), step))


def _staged(table: NDArray[Any], found: Tensor) -> None:
    """Copy a table to a GPU; each thread fills a pinned buffer of its own as soon as the GPU is done with it."""
    import torch

    rows, width = table.shape
    step = max(1, _STAGED_BYTES // (4 * max(width, 1)))
    own, current = threading.local(), torch.cuda.current_stream(found.device)

    def copy(start: int) -> None:
        part = table[start : start + step]
        if not hasattr(own, "buffer"):
            own.buffer = torch.empty((min(step, rows), width), dtype=torch.float32, pin_memory=True)
            own.stream, own.done = torch.cuda.Stream(found.device), torch.cuda.Event()
            own.stream.wait_stream(current)
        own.done.synchronize()
        np.copyto(own.buffer[: len(part)].numpy(), _float32(part))
        with torch.cuda.stream(own.stream):
            found[start : start + len(part)].copy_(own.buffer[: len(part)], non_blocking=True)
            own.done.record()

    threads = fair_threads(min(_THREADS, available_cores()))
    for _ in ahead(copy, range(0, rows, step), threads, most=2 * threads):
        pass
    torch.cuda.synchronize(found.device)


# -- rules -------------------------------------------------------------------------------------------------------


def _before(rule: ScalingRule, block: Tensor) -> Tensor:
    """What comes before center and factor."""
    return block.abs().log1p().copysign(block) if isinstance(rule, SignedLog) else block


def _moments(rule: Standard, table: Tensor) -> Parameters:
    """Mean, and one over the standard deviation; blocks are joined as `feature_blocks.Moments` joins them."""
    import torch

    low, high = (bound.cpu().numpy() for bound in table.aminmax(dim=0))
    total = 0
    mean = squares = torch.zeros((), dtype=torch.float64, device=table.device)
    for _, part in _blocks(table):
        block = _before(rule, part.double())
        own = block.mean(dim=0)
        spread = (block - own).square().sum(dim=0)
        step, rows = own - mean, total + len(part)
        mean = mean + step * (len(part) / rows)
        squares = squares + spread + step.square() * (total * len(part) / rows)
        total = rows
    deviation = np.sqrt(squares.cpu().numpy() / total, where=low < high, out=np.ones(len(low)))
    return {"center": mean.cpu().numpy(), "factor": np.where(low < high, 1 / deviation, 0.0)}


def _extremes(_: MinMax, table: Tensor) -> Parameters:
    """The smallest value, and one over the range."""
    low, high = (bound.double().cpu().numpy() for bound in table.aminmax(dim=0))
    span = high - low
    return {"center": low, "factor": np.divide(1.0, span, where=span > 0, out=np.zeros_like(span))}


def _knots(rule: Quantile, table: Tensor) -> Parameters:
    """Knots and their levels, as `Quantile.learn` finds them."""
    import torch

    rows, width = table.shape
    ranks = torch.from_numpy(np.unique(np.rint(np.linspace(0, rows - 1, rule.knots)).astype(np.int64)))
    group = max(1, _BLOCK_VALUES // rows)
    knots, levels = [], []
    for first in range(0, width, group):
        columns = table[:, first : first + group].T.contiguous().sort(dim=1).values
        picked = columns[:, ranks.to(table.device)]
        ties = torch.searchsorted(columns, picked) + torch.searchsorted(columns, picked, right=True) - 1
        for values, tied in zip(picked.cpu().numpy(), ties.cpu().numpy(), strict=True):
            own, at = np.unique(values, return_index=True)
            knots.append(own)
            levels.append(tied[at] / max(2 * (rows - 1), 1) if len(own) > 1 else np.zeros(1))
    return {
        "knots": np.concatenate(knots).astype(np.float64),
        "levels": np.concatenate(levels).astype(np.float32).astype(np.float64),
        "offsets": np.cumsum([0, *map(len, knots)], dtype=np.int64),
    }


def _scaled(rule: ScalingRule, block: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    """A block in float64, scaled; it may be written over."""
    if isinstance(rule, Unscaled):
        return block
    if isinstance(rule, Quantile):
        return _interpolated(block, parameters)
    low, high = rule.bounds  # type: ignore[attr-defined]
    block = _before(rule, block).sub_(parameters["center"]).mul_(parameters["factor"])
    return block.clamp_(max(low, -_LARGEST), min(high, _LARGEST))


def _interpolated(block: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    """Linear between the knots, one feature at a time, by the formula of `np.interp`."""
    import torch

    found = torch.empty_like(block)
    offsets = parameters["offsets"].tolist()
    for index, (start, stop) in enumerate(zip(offsets, offsets[1:], strict=False)):
        knots, levels = parameters["knots"][start:stop], parameters["levels"][start:stop]
        if len(knots) == 1:
            found[:, index] = levels
            continue
        values = block[:, index].clamp(knots[0], knots[-1])
        at = (torch.searchsorted(knots, values, right=True) - 1).clamp_(max=len(knots) - 2)
        slope = levels.diff() / knots.diff()
        found[:, index] = torch.where(values == knots[-1], levels[-1], slope[at] * (values - knots[at]) + levels[at])
    return found
