"""Per-query sums, sorts and ranks over rows grouped by query, in O(n) or a single sort, never a loop over queries.

Everywhere, `offsets` has an entry more than there are queries: rows offsets[i] … offsets[i+1]-1 belong to query i.
A query may be empty. Arrays may be numpy's or torch's: the result is of the same kind, on the same device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_namespace
from numpy.typing import NDArray

from cldrank.errors import DataError

ArrayT = TypeVar("ArrayT", bound=Any)
Array = Any  # a numpy array or a torch tensor

_LOW_63_BITS = (1 << 63) - 1


def from_lengths(lengths: ArrayT) -> ArrayT:
    """Offsets of segments with the given lengths."""
    xp = array_namespace(lengths)
    start = xp.zeros(1, dtype=xp.int64, device=device(lengths))
    offsets: ArrayT = xp.concat([start, xp.cumulative_sum(lengths, axis=0, dtype=xp.int64)])
    return offsets


def segment_of_rows(offsets: ArrayT) -> ArrayT:
    """The segment that each row belongs to."""
    xp = array_namespace(offsets)
    segments: ArrayT = xp.repeat(_counting(len(offsets) - 1, offsets), offsets[1:] - offsets[:-1])
    return segments


def rows_of_segments(offsets: ArrayT, segments: ArrayT) -> ArrayT:
    """All rows of the chosen segments, segment after segment, in the order chosen.

    >>> rows_of_segments(np.array([0, 2, 5]), np.array([1, 0]))
    array([2, 3, 4, 0, 1])
    """
    lengths: ArrayT = (offsets[1:] - offsets[:-1])[segments]
    starts: ArrayT = offsets[:-1][segments]
    return _runs(starts, lengths, from_lengths(lengths))


def split_segments(count: int, fractions: float | Sequence[float], seed: int) -> list[NDArray[np.int64]]:
    """A random partition of `count` segments in the given fractions; a single fraction gives two parts."""
    shares = [fractions, 1 - fractions] if isinstance(fractions, int | float) else list(fractions)
    if min(shares, default=-1) < 0 or not np.isclose(sum(shares), 1):
        raise DataError(f"fractions of a split must be at least 0 and sum to 1, not {shares}.")
    bounds = np.rint(np.cumsum([0.0, *shares]) * count).astype(np.int64)
    shuffled = np.random.default_rng(seed).permutation(count)
    return [np.sort(shuffled[start:stop]) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]


def first_rows_of_segments(offsets: ArrayT, count: int) -> tuple[ArrayT, ArrayT]:
    """The first `count` rows of each segment, or all of a shorter segment, and the offsets of these rows."""
    xp = array_namespace(offsets)
    lengths = xp.clip(offsets[1:] - offsets[:-1], 0, count)
    shorter = from_lengths(lengths)
    return _runs(offsets[:-1], lengths, shorter), shorter


def places_in_segments(offsets: ArrayT) -> ArrayT:
    """The place of each row in its segment, counted from 1."""
    xp = array_namespace(offsets)
    before = xp.repeat(offsets[:-1], offsets[1:] - offsets[:-1])
    places: ArrayT = _counting(len(before), offsets) - before + 1
    return places


def sums_of_segments(values: Array, offsets: Array) -> Array:
    """The sum of each segment, in float64; 0 for an empty segment."""
    return _reduced(values, offsets, "sum")


def maxima_of_segments(values: Array, offsets: Array) -> Array:
    """The largest value of each segment, in float64; 0 for a segment that is empty or has nothing above 0."""
    return _reduced(values, offsets, "max")


def running_sums(values: Array, offsets: Array) -> Array:
    """The sum of each row and the rows before it in its segment, in float64; exact for whole numbers."""
    xp = array_namespace(values, offsets)
    values = xp.asarray(values, dtype=xp.float64)
    lengths = offsets[1:] - offsets[:-1]
    full = lengths > 0
    starts = offsets[:-1][full]
    steps = xp.asarray(values, copy=True)
    # Taking the last total back at each start keeps the long sum, and its rounding, as small as a single segment's.
    steps[starts[1:]] -= sums_of_segments(values, offsets)[full][:-1]
    running = xp.cumulative_sum(steps, axis=0)
    return running - xp.repeat(running[starts] - values[starts], lengths[full])


def descending_order(values: Array, offsets: Array, first: int = 0) -> Array:
    """The rows of each segment, largest value first, ties by `tie_breakers`; segments are numbered from `first`.

    >>> descending_order(np.array([0.3, 0.7, 5.0, 6.0, 4.0]), np.array([0, 2, 5]))
    array([1, 0, 3, 2, 4])
    """
    xp = array_namespace(values, offsets)
    values = xp.asarray(values, dtype=xp.float64)
    keys, _ = _packed(values, offsets)
    order = xp.argsort(keys, stable=False)
    keys = keys[order]
    same = keys[1:] == keys[:-1]
    if not bool(xp.any(same)):
        return order
    alike = xp.zeros(len(keys), dtype=xp.bool, device=device(values))
    alike[1:] |= same
    alike[:-1] |= same
    (places,) = xp.nonzero(alike)
    rows = order[places]
    order[places] = rows[_lexsort([tie_breakers(rows, offsets, first), -values[rows], keys[places]])]
    return order


def descending_ranks(values: Array, offsets: Array, first: int = 0) -> Array:
    """The rank of each row in its segment by descending value, counted from 1, ties as in `descending_order`."""
    xp = array_namespace(values, offsets)
    order = descending_order(values, offsets, first)
    ranks = xp.empty_like(order)
    ranks[order] = places_in_segments(offsets)
    return ranks


def descending_values(values: Array, offsets: Array) -> Array:
    """The values of each segment, largest first, in float64."""
    xp = array_namespace(values, offsets)
    values = xp.asarray(values, dtype=xp.float64)
    keys, lossless = _packed(values, offsets)
    order = xp.argsort(keys, stable=False) if lossless else _lexsort([-values, segment_of_rows(offsets)])
    return values[order] + 0.0  # minus zero is zero


def tie_breakers(rows: Array, offsets: Array, first: int = 0) -> Array:
    """A fixed pseudo-random number for each row, which depends only on its segment and its place there.

    It is the splitmix64 of both, so it differs between any two rows, and it does not depend on labels or scores:
    sorting by it breaks ties without favour.
    """
    segment = segment_of_rows(offsets)[rows]
    mixed = ((segment + first << 32) + (rows - offsets[segment]) + 1) * _signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ _shifted(mixed, shift)) * _signed(factor)
    return mixed ^ _shifted(mixed, 31)


def _counting(count: int, like: Array) -> Array:
    return array_namespace(like).arange(count, device=device(like), dtype=like.dtype)


def _runs(starts: ArrayT, lengths: ArrayT, offsets: ArrayT) -> ArrayT:
    """Runs of consecutive numbers from each start, laid end to end at the offsets."""
    shift = array_namespace(starts).repeat(starts - offsets[:-1], lengths)
    runs: ArrayT = _counting(len(shift), starts) + shift
    return runs


def _reduced(values: Array, offsets: Array, how: str) -> Array:
    xp = array_namespace(values, offsets)
    values = xp.asarray(values, dtype=xp.float64)
    lengths = offsets[1:] - offsets[:-1]
    if not len(lengths):
        return values  # empty
    if not is_numpy_namespace(xp):
        return xp.segment_reduce(values, how, lengths=lengths, initial=0)
    full = lengths > 0
    result = np.zeros(len(lengths))
    if full.any():  # reduceat would read an empty segment as its next row
        result[full] = (np.add if how == "sum" else np.maximum).reduceat(values, offsets[:-1][full])
    return result if how == "sum" else np.maximum(result, 0)


def _lexsort(keys: list[Array]) -> Array:
    """The order by the last key, ties by the key before it, and so on."""
    xp = array_namespace(*keys)
    if is_numpy_namespace(xp):
        return np.lexsort(keys)
    order = xp.argsort(keys[0], stable=True)
    for key in keys[1:]:
        order = order[xp.argsort(key[order], stable=True)]
    return order


def _packed(values: Array, offsets: Array) -> tuple[Array, bool]:
    """A whole number for each row that sorts by segment, then by descending value; and whether it loses no digits.

    The segment takes the high bits, as many as it needs; the value, as a whole number of the same order, the rest.
    Sorting by an int64 is several times faster than sorting by two keys.
    """
    bits = max(len(offsets) - 2, 0).bit_length()
    pattern = (-values).view(array_namespace(values).int64)
    sign = pattern >> 63  # 0, or -1 for a negative number
    image = ((pattern & _LOW_63_BITS) ^ sign) - sign  # the magnitude's bits with the sign: minus zero is zero
    high = image >> (bits + 1)
    lossless = bool(((high << (bits + 1)) == image).all())
    return (segment_of_rows(offsets) << (63 - bits)) + (high + (1 << (62 - bits))), lossless


def _shifted(number: Array, by: int) -> Array:
    """A shift to the right that brings in zeros, which >> of a negative number does not."""
    return (number >> by) & ((1 << (64 - by)) - 1)


def _signed(unsigned: int) -> int:
    """The int64 that has the bits of this uint64."""
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
