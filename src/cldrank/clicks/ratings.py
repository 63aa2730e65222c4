"""`Ratings`: what people or machines think of candidates, read from the files of rating tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats, IntArray
from cldrank.arguments import shortened
from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates
from cldrank.data.dataset import RankingDataset
from cldrank.data.lines import read_blocks
from cldrank.data.table_rows import NotANumberError, TablePart, part_of
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.tables import Role, resolve_columns
from cldrank.tables.sources import csv_line
from cldrank.wording import count, listed

_ROLES = (Role("query_id", required=True), Role("doc_id", required=True), Role("rating", required=True), Role("rater"))
_QUEPID = {"query_id": "query", "doc_id": "docid", "rating": "rating"}


@dataclass(frozen=True)
class RatingAccount:
    """What became of every rating that was read.

    rows        how many were read
    set_aside   how many are not used, by reason
    raters      their names; empty where they have none

    >>> print(RatingAccount(10, {"of unknown queries": 3}))
    10 ratings were read, 7 of them of candidates; set aside: 3 of unknown queries
    """

    rows: int
    set_aside: Mapping[str, int] = field(default_factory=dict)
    raters: tuple[str, ...] = ()

    def __str__(self) -> str:
        matched = self.rows - sum(self.set_aside.values())
        others = listed([f"{number:,} {reason}" for reason, number in self.set_aside.items()])
        read = f"{count(self.rows, 'rating')} {'was' if self.rows == 1 else 'were'} read, {matched:,} of them"
        return f"{read} of candidates" + (f"; set aside: {others}" if others else "")


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """What people, and what machines, think of each candidate: the mean of their ratings, NaN where there are none.

    people    (rows,) by people
    machine   (rows,) by all others: language models, say
    account   what became of every rating

    Ratings may be on any scale, since clicks calibrate it; but those of one kind share a scale.

    >>> Ratings(np.array([np.nan, np.nan]), np.array([3.0, np.nan]))
    Ratings(1 of 2 candidates is rated, 0 by people)
    """

    people: Floats
    machine: Floats
    account: RatingAccount = RatingAccount(0)

    def __post_init__(self) -> None:
        if self.people.shape != self.machine.shape or self.people.ndim != 1:
            raise DataError(
                f"ratings by people and by machines need an entry per candidate each; they have the shapes "
                f"{self.people.shape} and {self.machine.shape}."
            )

    @property
    def rated(self) -> NDArray[np.bool_]:
        """(rows,) whether anybody rated a candidate."""
        return ~(np.isnan(self.people) & np.isnan(self.machine))

    def at(self, rows: IntArray) -> Ratings:
        """The ratings of some candidates."""
        return replace(self, people=self.people[rows], machine=self.machine[rows])

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        rated, people = int(self.rated.sum()), int((~np.isnan(self.people)).sum())
        verb = "is" if rated == 1 else "are"
        return f"Ratings({rated:,} of {count(len(self), 'candidate')} {verb} rated, {people:,} by people)"


def load_ratings(
    source: str | PathLike[str] | Any,
    dataset: RankingDataset | Candidates,
    *,
    columns: Mapping[str, str] | None = None,
    people: Collection[str] = (),
) -> Ratings:
    r"""Read ratings of the candidates of a dataset, and account for every one.

    source    Parquet, CSV or a frame with `query_id`, `doc_id`, `rating` and perhaps `rater`; Quepid's CSV (query,
              docid, rating); any other file is read as TREC qrels, `query 0 document rating`
    columns   the columns by role, if they have other names
    people    the raters that are people; all others are machines

    Several raters of a candidate count as their mean, people and machines apart. A rater who contradicts
    itself is refused.

    >>> import tempfile
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], ["a", "a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "qrels.txt"
    ...     _ = path.write_text("a 0 1 3\na 0 2 0\nc 0 1 2\n")
    ...     ratings = load_ratings(path, data)
    >>> ratings.machine, str(ratings.account)
    (array([ 3.,  0., nan]), '3 ratings were read, 2 of them of candidates; set aside: 1 of unknown queries')
    """
    if isinstance(people, str):
        raise UsageError(f'`people` are the names of raters, people=("{people}",), not a single text.')
    candidates = dataset if isinstance(dataset, Candidates) else Candidates.of(dataset)
    part = part_of(source, "ratings")
    where = Path(source) if part is None else part.where
    if part is None and columns:
        raise UsageError(f"{where} is read as TREC qrels, which have no names of columns; leave `columns` out.")
    queries, documents, raters, values = _from_qrels(Path(where)) if part is None else _from_table(part, columns)
    unknown = [name for name in people if name not in set(raters)]
    if unknown:
        there = listed(sorted(set(raters) - {""})[:10]) or "no names of raters"
        raise UsageError(f"`people` names {unknown[0]!r}, but in {where} there are {there}.")
    if np.isinf(values).any():
        raise FormatError(f"rating {int(np.isinf(values).argmax()) + 1} is infinite; ratings are numbers.", path=where)
    rows = candidates.find(np.array(queries, dtype=np.str_), np.array(documents, dtype=np.str_))
    given = ~np.isnan(values)
    kept, repeated = _each_once(rows, raters, values, given & (rows >= 0), where)
    reasons = {
        "without a number": int((~given).sum()),
        "of unknown queries": int((given & (rows == UNKNOWN_QUERY)).sum()),
        "of documents that are no candidates": int((given & (rows < UNKNOWN_QUERY)).sum()),
        "repeated": repeated,
    }
    account = RatingAccount(
        len(rows), {name: number for name, number in reasons.items() if number}, tuple(sorted(set(raters) - {""}))
    )
    if not len(kept):
        example = f" The first is of query {queries[0]}, document {documents[0]}." if queries else ""
        raise DataError(f"{where}: {account}.{example} Do both name queries and documents alike?")
    by_people = np.isin(np.array(raters, dtype=np.str_)[kept], list(people)) if people else np.zeros(len(kept), bool)
    for kind, chosen in (("people", by_people), ("machines", ~by_people)):
        told = np.unique(values[kept[chosen]])
        if len(told) == 1:
            raise DataError(
                f"{where}: all {int(chosen.sum()):,} ratings by {kind} are {told[0]:g}; they tell no result from "
                "another, so leave them out."
            )
    mean_by_people, by_machines = (
        _means(rows[kept[chosen]], values[kept[chosen]], candidates.n_rows) for chosen in (by_people, ~by_people)
    )
    return Ratings(mean_by_people, by_machines, account)


_Columns = tuple[list[str], list[str], list[str], Floats]  # queries, documents, raters, ratings


def _from_qrels(path: Path) -> _Columns:
    lines = list(_qrels_lines(path))
    grades = np.array([grade for _, _, grade in lines], dtype=np.float64)
    return [query for query, _, _ in lines], [document for _, document, _ in lines], [""] * len(lines), grades


def _qrels_lines(path: Path) -> Iterator[tuple[str, str, float]]:
    for block in read_blocks(path):
        for number, line in enumerate(block.text.splitlines(), start=block.first_line):
            words = line.decode("utf-8", errors="backslashreplace").split()
            if not words:
                continue
            try:
                query, _, document, grade = words
                yield query, document, float(grade.replace("_", "?"))  # not 1_000
            except ValueError:
                problem = f"{' '.join(words)[:60]!r} is not a line of qrels: query, 0, document and a number."
                raise FormatError(problem, path=path, line=number) from None


def _from_table(part: TablePart, columns: Mapping[str, str] | None) -> _Columns:
    names = part.schema.names
    if columns is None and {"query", "docid", "rating"} <= set(names):
        columns = _QUEPID
    roles = resolve_columns(names, columns, _ROLES, str(part.where))
    rating = roles.pop("rating")
    part.check(roles.values(), [rating], advice="; write ratings as numbers")
    try:
        columns_of_ids, values = part.columns(list(roles.values()), rating)
    except NotANumberError as error:
        problem = f"the rating is {shortened(error.value)}, not a number; write numbers, or leave it empty."
        raise FormatError(problem, path=error.path, line=csv_line(Path(error.path), error.row)) from None
    texts = dict(zip(roles, columns_of_ids, strict=True))
    return texts["query_id"], texts["doc_id"], texts.get("rater", [""] * len(values)), values


def _each_once(
    rows: IntArray, raters: list[str], values: Floats, usable: NDArray[np.bool_], where: Any
) -> tuple[IntArray, int]:
    """The places of the usable ratings without repetitions, and how many repetitions there are."""
    first: dict[tuple[int, str], int] = {}
    repeated: Counter[bool] = Counter()
    for place in np.flatnonzero(usable).tolist():
        other = first.setdefault((int(rows[place]), raters[place]), place)
        if other != place and values[other] != values[place]:
            name = f"{raters[place]} rated" if raters[place] else "without a rater,"
            raise DataError(
                f"{where}: {name} the same document of a query {values[other]:g} in row {other + 1} and "
                f"{values[place]:g} in row {place + 1}; keep one of them, or name their raters in a column rater."
            )
        repeated[other != place] += 1
    return np.array(list(first.values()), dtype=np.int64), repeated[True]


def _means(rows: IntArray, values: Floats, n_rows: int) -> Floats:
    """(rows,) the mean of the values of each row, NaN where there are none."""
    number = np.bincount(rows, minlength=n_rows)
    sums = np.bincount(rows, values, n_rows)
    return np.asarray(np.divide(sums, number, out=np.full(n_rows, np.nan), where=number > 0))
