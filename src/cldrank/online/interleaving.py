"""Interleaving: pages that two rankers make together by team draft, one page or many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.arguments import check_whole, shortened
from cldrank.errors import DataError, UsageError
from cldrank.online.keys import Key, coins, digest

TEAMS = ("new", "old", "both")
NEW, OLD, BOTH = range(3)
DEEPEST_PAGE = 1000  # results; a coin is a bit of the key's digest, for every two of them
_DRAFT = b"cldrank-draft"


class Page(NamedTuple):
    """An interleaved page, top first.

    ids                    the results
    teams                  the team of each: "new", "old", or "both" where both rankers agree from the top
    new_ranks, old_ranks   the rank of each under both rankers, from 1; None where a ranker does not list it
    """

    ids: list[Any]
    teams: list[str]
    new_ranks: list[int | None]
    old_ranks: list[int | None]

    def records(self) -> list[dict[str, Any]]:
        """What a log must keep of each result, by column.

        >>> interleave(["a"], ["a"], 1, key="ada").records()
        [{'doc_id': 'a', 'position': 1, 'team': 'both', 'new_rank': 1, 'old_rank': 1}]
        """
        names = ("doc_id", "position", "team", "new_rank", "old_rank")
        positions = range(1, len(self.ids) + 1)
        return [
            dict(zip(names, row, strict=True))
            for row in zip(self.ids, positions, self.teams, self.new_ranks, self.old_ranks, strict=True)
        ]


class InterleavedPages(NamedTuple):
    """Many interleaved pages: arrays (pages, depth), top first.

    rows                 the row of each result; -1 where the page has ended
    team                 its place in `TEAMS`; -1 where the page has ended
    new_rank, old_rank   its rank under both rankers, from 1; 0 where the page has ended

    >>> interleave_pages([0.9, 0.5], [0.5, 0.9], np.array([0, 2]), 1, ["ada"]).new_rank
    array([[2]])
    """

    rows: IntArray
    team: NDArray[np.int8]
    new_rank: IntArray
    old_rank: IntArray


def interleave(new: Any, old: Any, depth: int, key: Key, *, ids: Sequence[Any] | None = None) -> Page:
    """The page that two rankers make together by team draft, always the same for a key.

    In each round a coin says which ranker picks first; each adds its best result that is not on the page yet, and that
    result is its team's. The results that both rankers agree on from the top belong to both; the draft begins below
    them. Where a ranker has no more results, the other goes on alone.

    new, old    the results of each ranker, best first; or, with `ids`, its scores of these candidates
    depth       how many results the page has, at most
    key         what the coins depend on, such as (person, query, experiment)

    >>> page = interleave(["a", "b", "c"], ["a", "c", "b"], 3, ("ada", "shoes", "May"))
    >>> page.ids, page.teams
    (['a', 'b', 'c'], ['both', 'new', 'old'])
    >>> page == interleave([0.9, 0.5, 0.4], [0.9, 0.4, 0.5], 3, ("ada", "shoes", "May"), ids="abc")
    True
    """
    if type(depth) is not int or not 1 <= depth <= DEEPEST_PAGE:
        depth = check_whole("depth", depth, least=1, most=DEEPEST_PAGE)
    if ids is not None:
        return _of_scores([check_scores(scores, len(ids)) for scores in (new, old)], depth, key, ids)
    new, old = (values.tolist() if isinstance(values, np.ndarray) else values for values in (new, old))
    new_ranks, old_ranks = _ranks(new), _ranks(old)
    if max(len(new), len(old)) < depth:
        depth = min(depth, len(new_ranks.keys() | old_ranks.keys()))
    page, teams = _drafted(new[:depth], old[:depth], depth, key)
    return Page(page, teams, [*map(new_ranks.get, page)], [*map(old_ranks.get, page)])


def _of_scores(both: list[NDArray[np.float64]], depth: int, key: Key, ids: Sequence[Any]) -> Page:
    """The page of two rankers' scores of the same candidates."""
    try:
        repeats = len(set(ids)) < len(ids)
    except TypeError:
        repeats = True
    if repeats:
        _ranks(ids)  # which says what is wrong
    orders = [rows_best_first(scores) for scores in both]
    depth = min(depth, len(ids))
    rows, teams = _drafted(orders[NEW][:depth].tolist(), orders[OLD][:depth].tolist(), depth, key)
    ranks = np.empty((2, len(ids)), dtype=np.int64)
    for ranker, order in enumerate(orders):
        ranks[ranker, order] = np.arange(1, len(ids) + 1)
    return Page([ids[row] for row in rows], teams, *ranks[:, rows].tolist())


def _drafted(new: Sequence[Any], old: Sequence[Any], depth: int, key: Key) -> tuple[list[Any], list[str]]:
    """The results of a page of `depth` results and their teams, by team draft."""
    page: list[Any] = []
    for result, other in zip(new, old, strict=False):
        if result != other:
            break
        page.append(result)
    teams, on_page = ["both"] * len(page), set(page)
    picks: dict[str, Iterator[Any]] = {"new": iter(new), "old": iter(old)}
    tossed = int.from_bytes(digest(key, _DRAFT), "little")
    while len(page) < depth:
        for team in ("new", "old") if tossed & 1 else ("old", "new"):
            for result in picks[team]:
                if result not in on_page:
                    page.append(result)
                    teams.append(team)
                    on_page.add(result)
                    break
        tossed >>= 1
    return page[:depth], teams[:depth]  # the last round may have added a result too many


def interleave_pages(
    new: ArrayLike, old: ArrayLike, offsets: IntArray, depth: int, keys: Sequence[Key], queries: IntArray | None = None
) -> InterleavedPages:
    """Many interleaved pages at once, as `interleave` makes each.

    new, old    (rows,) the scores of both rankers; rows offsets[i] … offsets[i+1]-1 are the candidates of query i
    keys        what the coins of each page depend on
    queries     (pages,) the query of each page; by default one page of every query, in order

    >>> pages = interleave_pages([0.9, 0.5, 0.4], [0.9, 0.4, 0.5], np.array([0, 3]), 2, [("ada", "shoes", "May")])
    >>> pages.rows, [TEAMS[team] for team in pages.team[0]]
    (array([[0, 1]]), ['both', 'new'])
    """
    depth, offsets = check_whole("depth", depth, least=1, most=DEEPEST_PAGE), np.asarray(offsets)
    drafts = Drafts(check_scores(new, int(offsets[-1])), check_scores(old, int(offsets[-1])), offsets, depth)
    queries = np.arange(len(offsets) - 1) if queries is None else np.asarray(queries, dtype=np.int64)
    if len(keys) != len(queries):
        raise DataError(f"there are {len(keys):,} keys for {len(queries):,} pages; give one for each.")
    return drafts.pages(queries, keys)


class Drafts:
    """Both rankers' orders, from which any number of pages is drafted.

    top        (2, queries, depth) the best rows of the new ranker and of the old, -1 where a query has no more
    in_other   (2, queries, depth) the place of each in the other's order, from 0; `depth` if it is further down
    """

    def __init__(self, new: NDArray[np.float64], old: NDArray[np.float64], offsets: IntArray, depth: int) -> None:
        from cldrank import segments

        self.depth = depth = max(1, min(depth, int(np.diff(offsets).max(initial=1))))
        orders = [segments.descending_order(scores, offsets) for scores in (new, old)]
        places, shown = segments.first_rows_of_segments(offsets, depth)
        query, place = segments.segment_of_rows(shown), segments.places_in_segments(shown) - 1
        self.lengths: IntArray = np.diff(shown)
        self.top: IntArray = np.full((2, len(self.lengths), depth), -1, dtype=np.int64)
        self.ranks: IntArray = np.empty((2, len(new)), dtype=np.int64)
        for ranker, order in enumerate(orders):
            self.top[ranker, query, place] = order[places]
            self.ranks[ranker, order] = segments.places_in_segments(offsets)
        self.in_other: IntArray = np.full_like(self.top, depth)
        for ranker in (NEW, OLD):
            rows = self.top[ranker, query, place]
            self.in_other[ranker, query, place] = np.minimum(self.ranks[1 - ranker, rows] - 1, depth)
        alike = (self.top[NEW] == self.top[OLD]) & (self.top[NEW] >= 0)
        self.agreed: IntArray = np.logical_and.accumulate(alike, axis=1).sum(axis=1)

    def pages(self, queries: IntArray, keys: Sequence[Key]) -> InterleavedPages:
        """A page of each of some queries."""
        depth, pages = self.depth, np.arange(len(queries))
        steps = np.arange(depth) - self.agreed[queries, None]  # of the draft, from 0
        tossed = coins(keys, -(-depth // 2), _DRAFT)
        first = 1 - tossed[pages[:, None], np.maximum(steps, 0) // 2]  # who picks first in the round: NEW or OLD
        team = np.where(steps < 0, BOTH, first ^ (steps & 1)).astype(np.int8)
        team[np.arange(depth) >= self.lengths[queries, None]] = -1
        rows = np.where(team == BOTH, self.top[NEW, queries], -1)
        used = np.zeros((2, len(queries), depth + 1), dtype=np.bool_)  # the last place: further down
        used[:, :, :depth] = steps < 0
        for step in range(depth):
            for ranker in (NEW, OLD):
                mine = np.flatnonzero(team[:, step] == ranker)
                place = used[ranker, mine].argmin(axis=1)
                rows[mine, step] = self.top[ranker, queries[mine], place]
                used[ranker, mine, place] = True
                used[1 - ranker, mine, self.in_other[ranker, queries[mine], place]] = True
        ranks, shown = np.zeros((2, *rows.shape), dtype=np.int64), rows >= 0
        ranks[:, shown] = self.ranks[:, rows[shown]]
        return InterleavedPages(rows, team, *ranks)


def rows_best_first(scores: NDArray[np.float64]) -> IntArray:
    """The rows of one query, best first; ties are broken as everywhere in cldrank.

    >>> rows_best_first(np.array([0.3, 0.7, 0.5]))
    array([1, 2, 0])
    """
    order: IntArray = np.argsort(-scores)
    ordered = scores[order]
    if (ordered[1:] == ordered[:-1]).any():
        from cldrank import segments  # ten times as slow for a short list

        order = segments.descending_order(scores, np.array([0, len(scores)]))
    return order


def _ranks(results: Sequence[Any]) -> dict[Any, int]:
    """The rank of each result of a ranker; refused if one is listed twice."""
    try:
        ranks = dict(zip(results, range(1, len(results) + 1), strict=True))
    except TypeError:
        raise UsageError(
            f"`new` and `old` must be lists of ids, or scores with `ids`, not {shortened(results)}."
        ) from None
    if len(ranks) < len(results):
        twice = next(result for place, result in enumerate(results, 1) if ranks[result] != place)
        raise DataError(f"a ranker lists {shortened(twice)} twice; each result has one place.")
    return ranks


def check_scores(values: ArrayLike, rows: int) -> NDArray[np.float64]:
    """The scores of some candidates; refused unless there is a finite one for each."""
    scores = np.asarray(values, dtype=np.float64)
    if scores.shape != (rows,):
        raise DataError(f"the scores of a ranker have shape {scores.shape} for {rows:,} candidates.")
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(f"the score of candidate {row} is {scores[row]}; scores must be finite.")
    return scores
