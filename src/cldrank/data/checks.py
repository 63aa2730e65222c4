"""What must be true of ranking data, and the errors where it is not. Each check returns its input in canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import FloatArray, IntArray
from cldrank.arguments import check_number, shortened
from cldrank.errors import DataError, FormatError, OutOfRangeError, UsageError
from cldrank.reading import reason
from cldrank.wording import some

MOST_TIMES = 512  # the memory that a file may claim, over its own size
LARGEST_WHOLE = 1 << 62  # of whole numbers, and of all impressions or clicks together: sums stay clear of overflow
Missing = float | Literal["keep"] | None  # what to do with missing values: fill in, keep, refuse
KEEP: Literal["keep"] = "keep"
BLOCK_VALUES = 1 << 21  # of a block of rows: 8 MiB of float32
_CHECKED_ROWS = 1 << 20  # whose document ids are compared at a time


@contextmanager
def about(*paths: Path | str) -> Iterator[None]:
    """Data that is refused inside the block, or does not fit into memory, becomes an error that names its files."""
    path = some(paths, most=3)
    try:
        yield
    except FormatError:
        raise  # names its file already
    except DataError as error:
        raise FormatError(str(error), path=path) from None
    except MemoryError as error:
        raise FormatError("there is not enough memory to load it; read it in parts.", path=path) from error


# -- numbers -------------------------------------------------------------------------------------------------------


def matrix(features: Any) -> NDArray[np.float32]:
    """Features as a row-major float32 table."""
    table = np.ascontiguousarray(_float32(features, "features must be a table of numbers"))
    if np.ndim(features) != 2:
        raise DataError(f"features must be a table (rows × features), not an array of shape {np.shape(features)}.")
    return table


def row_labels(labels: ArrayLike, rows: int, first_row: int = 0) -> NDArray[np.float32]:
    """A finite label per row; rows count from `first_row`."""
    values = _float32(labels, "labels must be numbers")
    if values.shape != (rows,):
        raise DataError(f"labels have shape {values.shape} for {rows:,} rows; they need one entry per row.")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f"the label of row {first_row + bad[0]} is {values[bad[0]]}; labels must be finite numbers.")
    return values


def _float32(values: Any, requirement: str) -> NDArray[np.float32]:
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmMV":  # numpy would drop the imaginary part, or count days
            raise TypeError(f"{array.dtype} values are not")
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            return np.asarray(array, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{requirement}: {reason(error)}.") from None


def whole_numbers(values: ArrayLike, what: str, least: int, most: int = LARGEST_WHOLE) -> IntArray:
    """Whole numbers from `least` to `most`, as int64."""
    array = _flat(values, what)
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be whole numbers, not {array.dtype}.")
    if array.dtype.kind in "bf":
        array = array.astype(np.float64)
    good = (array >= least) & (array <= most) & (array == np.rint(array))  # before the cast, which wraps around
    if not good.all():
        place, limit = int(np.flatnonzero(~good)[0]), "2^62" if most == LARGEST_WHOLE else f"{most:,}"
        raise DataError(
            f"entry {place} of {what} is {array[place]}; it must be a whole number from {least} to {limit}."
        )
    return array.astype(np.int64)


def chosen_queries(queries: int | slice | ArrayLike, n_queries: int) -> IntArray:
    """The places of queries, each once, chosen by a place, a slice, places, or a mask.

    >>> chosen_queries([True, False, True], 3), chosen_queries([-1, 0], 3)
    (array([0, 2]), array([2, 0]))
    """
    if isinstance(queries, slice):
        return np.arange(n_queries)[queries]
    chosen = np.atleast_1d(np.asarray(queries))
    if chosen.dtype == bool:
        if chosen.shape != (n_queries,):
            needed = f"True or False for each of {n_queries:,} queries"
            raise UsageError(f"the mask has shape {chosen.shape}; it needs {needed}.")
        return np.flatnonzero(chosen)
    if chosen.size and chosen.dtype.kind not in "iu":
        raise UsageError(f"queries are chosen by whole numbers, slices or a mask, not by {chosen.dtype} values.")
    beyond = (chosen < -n_queries) | (chosen >= n_queries)
    if beyond.any():
        raise OutOfRangeError(f"query {chosen[beyond][0]} is out of range: there are {n_queries:,} queries.")
    places = chosen.astype(np.int64) % max(n_queries, 1)
    once, times = np.unique(places, return_counts=True)
    if (times > 1).any():
        raise UsageError(f"query {once[times > 1][0]} is chosen twice; choose each at most once.")
    return places


def _flat(values: ArrayLike, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):  # lists of different lengths
        raise DataError(f"{what} must be a flat array.") from None
    if array.ndim != 1:
        raise DataError(f"{what} must be a flat array, not of shape {array.shape}.")
    return array


def query_offsets(offsets: ArrayLike, rows: int) -> IntArray:
    """Offsets that cover all rows and leave no query empty."""
    offsets = whole_numbers(offsets, "offsets", 0)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != rows:
        raise DataError(f"offsets must run from 0 to the number of rows ({rows:,}).")
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise DataError(f"query {empty[0]} (counted from 0) has no rows; leave empty queries out.")
    return offsets


# -- names ---------------------------------------------------------------------------------------------------------


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of a table's columns: of a pandas or Polars frame, an Arrow table, or the like; None without names.

    Columns that are only numbered from 0, as in a pandas frame made without names, have none.
    """
    columns = getattr(table, "column_names", None)  # Arrow, whose `columns` are the columns themselves
    columns = getattr(table, "columns", None) if columns is None else columns
    if columns is None or callable(columns) or isinstance(table, np.ndarray):
        return None
    names = list(columns)
    return None if names == list(range(len(names))) else tuple(str(name) for name in names)


def agreed_names(table: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The caller's names for a table's columns, or else its own; refused where they contradict each other."""
    chosen, own = tuple(str(name) for name in names), column_names(table)
    if own is None or not chosen:
        return own or chosen
    for place, (name, other) in enumerate(zip(chosen, own, strict=False), start=1):
        if name != other:
            raise DataError(
                f"feature_names says {name!r} for column {place}, which the table itself calls {other!r}; leave "
                "feature_names out, or pass the numbers alone (to_numpy())."
            )
    return chosen


def unique_names(names: Sequence[str], width: int) -> tuple[str, ...]:
    """A name per feature, none twice; f1, f2, … by default."""
    if not names:
        return tuple(f"f{index}" for index in range(1, width + 1))
    names = tuple(str(name) for name in names)
    if len(names) != width:
        raise DataError(f"there are {len(names)} feature names for {width} features.")
    if len(set(names)) < width:
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"feature name {repeated!r} appears more than once; names must be unique.")
    return names


# -- ids -----------------------------------------------------------------------------------------------------------


def flat_ids(values: ArrayLike, what: str) -> NDArray[Any]:
    """Ids as int64 or text; what is neither, or would not stay as it is, is refused.

    >>> flat_ids([7.0, 8.0], "qid"), flat_ids(np.array(["a", "b"], dtype=object), "qid")
    (array([7, 8]), array(['a', 'b'], dtype='<U1'))
    """
    ids = _flat(values, what)
    if not ids.size:
        return ids.astype(np.int64)
    kept: Any = np.True_
    is_text = isinstance(ids[0], str)
    match ids.dtype.kind:
        case "i" | "U":
            pass
        case "u":
            kept = ids < 2**63
        case "f":  # beyond some number, fractions are rounded away
            kept = (ids == np.rint(ids)) & (np.abs(ids) < 2.0 ** (np.finfo(ids.dtype).nmant + 1))
        case "O":
            kept = np.array([_is_kept(value, is_text) for value in ids])
        case _:
            raise DataError(f"{what} must be whole numbers or text, not {ids.dtype} values.")
    if not kept.all():
        place = int(np.argmin(kept))
        value = shortened(ids[place:].tolist()[0])
        raise DataError(
            f"{what} has {value} at {place}; ids are all text, or all whole numbers that 64 bits hold exactly; text "
            "does not end in a NUL character."
        )
    return ids.astype(np.str_ if is_text else np.int64)


def _is_kept(value: Any, is_text: bool) -> bool:
    """Whether numpy would keep an id as it is, beside others that are text, or whole numbers."""
    if is_text:
        return isinstance(value, str) and not value.endswith("\0")
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(-(2**63) <= value < 2**63)


def unique_query_ids(values: ArrayLike, queries: int) -> NDArray[Any]:
    """An id per query, none twice."""
    ids = flat_ids(values, "query_ids")
    if len(ids) != queries:
        raise DataError(f"query_ids has {len(ids):,} entries for {queries:,} queries; it needs one entry per query.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise DataError(f"query id {unique[counts > 1][0].item()!r} appears more than once; ids must be unique.")
    return ids


def weights_by_query(values: Any, query_ids: NDArray[Any]) -> NDArray[np.float64]:
    """A finite weight above 0 per query."""
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"query_weights must be numbers, not {shortened(values)}.") from None
    if weights.shape != (len(query_ids),):
        raise DataError(f"query_weights have shape {weights.shape} for {len(query_ids):,} queries; one each is needed.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(bad):
        query = query_ids[bad[0]].item()
        raise DataError(
            f"the weight of query {query!r} is {weights[bad[0]]:g}; weights are finite and above 0. Leave out the "
            "features of queries that must not count."
        )
    return weights


def unique_doc_ids(values: ArrayLike, offsets: IntArray) -> NDArray[Any]:
    """An id per row, none twice within a query."""
    ids = flat_ids(values, "doc_ids")
    if len(ids) != offsets[-1]:
        raise DataError(f"doc_ids has {len(ids):,} entries for {offsets[-1]:,} rows; it needs one entry per row.")
    check_unique(ids, offsets)
    return ids


def check_unique(ids: NDArray[Any], offsets: IntArray, order: IntArray | None = None) -> None:
    """Refuse a document that a query has twice; `order` gives the rows of a file that messages name."""
    rows = first_repeated(ids, offsets)
    if rows is not None:
        first, second = rows if order is None else order[list(rows)]
        document = ids[rows[0]].item()
        raise DataError(f"document {document!r} appears more than once in one query (rows {first} and {second}).")


def first_repeated(ids: NDArray[Any], offsets: IntArray) -> tuple[int, int] | None:
    """The first two rows of a query with the same id; None where no query repeats an id. Some queries at a time."""
    query, queries = 0, len(offsets) - 1
    while query < queries:
        stop = max(query + 1, int(np.searchsorted(offsets, offsets[query] + _CHECKED_ROWS, side="right")) - 1)
        start = int(offsets[query])
        codes = _codes(ids[start : offsets[stop]])
        keys = segments.segment_of_rows(offsets[query : stop + 1] - start) * (codes.max(initial=0) + 1) + codes
        unique, first, counts = np.unique(keys, return_index=True, return_counts=True)
        if len(unique) < len(keys):
            rows = start + np.flatnonzero(keys == keys[first[counts > 1].min()])
            return int(rows[0]), int(rows[1])
        query = stop
    return None


def _codes(ids: NDArray[Any]) -> IntArray:
    """Small whole numbers for ids, the same for equal ones."""
    import pyarrow as pa

    return np.asarray(pa.array(ids).dictionary_encode().indices, dtype=np.int64)


# -- values that are not numbers ---------------------------------------------------------------------------------


def check_missing(missing: Any) -> None:
    """Refuse a `missing` that is neither None, "keep" nor a number."""
    if missing is None or missing == KEEP:
        return
    if isinstance(missing, str):
        raise UsageError(f"`missing` must be a number to fill in, or {KEEP!r}, not {shortened(missing)}.")
    check_number("missing", missing)


def filled(features: NDArray[np.float32], missing: Missing) -> NDArray[np.float32]:
    """Features with missing values filled in, if `missing` is a number."""
    if missing is None or missing == KEEP or not has_missing(features):
        return features
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        return np.where(np.isnan(features), np.float32(missing), features)


def has_missing(features: FloatArray) -> bool:
    """Whether a value is NaN; infinite ones are refused before or after."""
    return any(bool(np.isnan(block).any()) for _, block in _odd_blocks(features))


def n_incomplete(features: FloatArray) -> int:
    """How many columns have a missing value."""
    missing = np.zeros(features.shape[1], dtype=bool)
    for _, block in _odd_blocks(features):
        missing |= np.isnan(block).any(axis=0)
    return int(missing.sum())


def first_bad_value(features: FloatArray, *, keep: bool = False) -> tuple[int, int] | None:
    """Row and column of the first value that is infinite or, unless missing values are kept, NaN."""
    for start, block in _odd_blocks(features):
        rows, columns = np.nonzero(np.isinf(block) if keep else ~np.isfinite(block))
        if len(rows):
            return start + int(rows[0]), int(columns[0])
    return None


def _odd_blocks(features: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Blocks of rows that may have a value that is not finite, as their sum is not, each with its first row."""
    rows = max(1, BLOCK_VALUES // max(1, features[:1].size))  # a mapped array is never looked at as a whole
    for start in range(0, len(features), rows):
        block = features[start : start + rows]
        if not np.isfinite(block.sum(dtype=np.float64)):
            yield start, block


def bad_value_message(feature: str, row: int, where: str, value: float, user: str = "", instead: str = "") -> str:
    """What is wrong with a value that is not finite, and what to do; `user` cannot use missing values."""
    what = f"feature {feature!r} of row {row} ({where}) is"
    if user and np.isnan(value):
        how = f"fill in missing values on loading with `missing=0`{instead}"
        return f"{what} missing, and {user} cannot use that; {how}."
    what = f"{what} {value}; features must be finite"
    if np.isinf(value):
        return f"{what}, and infinity is not a missing value: put a number in its place, or drop the row."
    remedies = "fill in missing values with `missing=0.0`, keep them for trees with `missing=keep`, or drop those rows"
    return f"{what}: {remedies}."
