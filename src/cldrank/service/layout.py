"""`FeatureLayout`: the features of a ranker, and how rows of numbers become its table."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.service.request_error import RequestError
from cldrank.wording import count, some

FloatTable = NDArray[np.float32]


@dataclass(frozen=True)
class RankRequest:
    """What to rank: one id and one row of features per candidate."""

    ids: Sequence[str | int]
    table: FloatTable
    query_id: str | int | None = None
    top: int | None = None


@dataclass(frozen=True)
class FeatureLayout:
    """The features that a ranker expects, in its order, and whether they may be missing.

    >>> FeatureLayout(("bm25", "age")).of_mappings([{"age": 2, "bm25": 0.5}])
    array([[0.5, 2. ]], dtype=float32)
    """

    names: tuple[str, ...]
    takes_missing: bool = False
    pick: Callable[[Any], tuple[Any, ...]] = field(init=False, repr=False, compare=False)
    in_order: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        getter: Callable[[Any], Any] = itemgetter(*self.names)
        picked = getter if len(self.names) > 1 else lambda features: (getter(features),)
        object.__setattr__(self, "pick", picked)
        object.__setattr__(self, "in_order", tuple(range(len(self.names))))

    def of_mappings(self, features: Iterable[dict[str, Any]]) -> FloatTable:
        """The table of features by name; KeyError, TypeError or struct.error where one is missing or not a number."""
        return packed(map(self.pick, features), len(self.names))

    def places(self, given: tuple[str, ...]) -> tuple[int, ...]:
        """Where the features of these names stand in the table; refused unless each is known and given once."""
        if given == self.names:
            return self.in_order
        known = {name: place for place, name in enumerate(self.names)}
        if unknown := [name for name in given if name not in known]:
            raise RequestError(
                f"the ranker does not know {_features(unknown)}; GET /ranker lists the features it knows."
            )
        there = set(given)
        if len(there) < len(given):
            raise RequestError(f"the feature {shortened(repeated_value(given))} is given twice.")
        absent = [name for name in self.names if name not in there]
        if absent and not self.takes_missing:
            raise RequestError(f"{_features(absent)} {'is' if len(absent) == 1 else 'are'} missing.")
        return tuple(known[name] for name in given)

    def spread(self, values: NDArray[Any], places: tuple[int, ...]) -> FloatTable:
        """Columns put into the ranker's order; a feature that has none is missing in all rows."""
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            narrow = values.astype(np.float32, copy=False)
        if places == self.in_order:
            return narrow
        table = np.full((len(values), len(self.names)), np.nan, dtype=np.float32)
        table[:, places] = narrow
        return table

    def check(self, table: FloatTable, ids: Sequence[str | int]) -> FloatTable:
        """The table; refused where a value is infinite in float32, or missing where none may be."""
        bad = np.isinf(table) if self.takes_missing else ~np.isfinite(table)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            what = "NaN" if np.isnan(table[row, column]) else "infinite, or larger than float32 can hold (3.4e38)"
            raise RequestError(
                f"the feature {shortened(self.names[column])} of candidate {shortened(ids[row])} is {what}."
            )
        return table


def packed(rows: Iterable[Sequence[Any]], width: int) -> FloatTable:
    """A table of rows of numbers; struct.error where a row has another length, or holds what is not a number.

    A struct checks the length, converts and rounds to float32 in one go: three times as fast as `np.array`, which would
    read texts as numbers besides. True and False pass for 1 and 0; the caller has to look for them.

    >>> packed([[1, 2.5], [3, 4]], 2)
    array([[1. , 2.5], [3. , 4. ]], dtype=float32)
    """
    content = b"".join(starmap(struct.Struct(f"{width}f").pack, rows))
    return np.frombuffer(content, dtype=np.float32).reshape(-1, width)


def check_candidate_ids(ids: Sequence[Any], rows: int) -> None:
    """Refuse ids that are not texts or not whole numbers throughout, that are repeated, or too many or too few."""
    if len(ids) != rows:
        raise RequestError(f"there are {count(len(ids), 'id')} for {count(rows, 'row')} of features.")
    kinds = set(map(type, ids))
    if not (kinds <= {str} or kinds <= {int}):
        wrong = [(place, one) for place, one in enumerate(ids, 1) if type(one) not in (str, int)]
        found = f"candidate {wrong[0][0]} has the id {_in_json(wrong[0][1])}" if wrong else "some are texts, others not"
        raise RequestError(f"ids must be texts, or whole numbers, all of one kind; {found}.")
    if kinds == {int} and not -(2**63) <= min(ids) <= max(ids) < 2**63:
        raise RequestError("ids that are whole numbers must fit into 64 bits.")
    if len(set(ids)) < len(ids):
        raise RequestError(f"the id {shortened(repeated_value(ids))} appears twice; each candidate needs its own.")


def check_count(rows: int, most: int) -> None:
    """Refuse more candidates than the service takes."""
    if rows > most:
        raise RequestError(f"there are {rows:,} candidates; the service takes at most {most:,} (--max-candidates).")


def repeated_value(values: Iterable[Any]) -> Any:
    """The first value that was there before, in one pass.

    >>> repeated_value(["a", "b", "a"])
    'a'
    """
    seen: set[Any] = set()
    return next(one for one in values if one in seen or seen.add(one))  # type: ignore[func-returns-value]


def _in_json(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _features(names: Sequence[str]) -> str:
    return f"the feature{'s' if len(names) > 1 else ''} {some(map(shortened, names), most=5)}"
