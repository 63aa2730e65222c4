"""Team-draft interleaving: pages that take results from two orders in turn, and what clicks on them would tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.orders import RankOrder

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_MOST_QUERIES = 20_000  # that a plan is computed from; of more, pages are drawn
_MOST_DRAFTS = 200_000  # in all
_DRAFTS = 32  # of each query: all there are on pages of up to ten results


@dataclass(frozen=True)
class Credit:
    """What a page of an interleaving test brings: clicks on results of new's team, less those on old's.

    mean       of a page
    variance   of a page
    per_click  how far the mean moves where relevance moves so that clicks per page differ by 1 more, by the least
               change of relevance that does; 0 where none does
    """

    mean: float
    variance: float
    per_click: float


def team_draft(new: IntArray, old: IntArray, coins: Flags) -> tuple[IntArray, Flags]:
    """Pages of two orders merged by team draft (Radlinski, Kurup and Joachims 2008).

    new, old   (pages, k) the first k rows of each order, as many of both, -1 where a query has no more; rows of
               different queries differ
    coins      (pages, rounds) whether new picks first in each round; a round fills two places

    In each round both pick their best result that is not on the page yet. Returns the rows of each page, and whether
    each belongs to new's team.

    >>> team_draft(np.array([[0, 1, 2]]), np.array([[1, 2, 0]]), np.array([[False, True]]))
    (array([[1, 0, 2]]), array([[False,  True,  True]]))
    """
    pages, k = new.shape
    each = np.arange(pages)
    slots = np.arange(k)
    ours = coins[:, slots // 2] ^ (slots % 2 == 1)
    lists = (old, new)
    places = [_places(one, int(max(new.max(initial=-1), old.max(initial=-1))) + 2) for one in lists]
    used = [np.zeros((pages, k + 1), dtype=bool) for _ in lists]  # the last column: what is not in the list
    drafted = np.empty((pages, k), dtype=np.int64)
    for slot in slots:
        theirs, mine = (one[each, taken[:, :k].argmin(axis=1)] for one, taken in zip(lists, used, strict=True))
        drafted[:, slot] = picked = np.where(ours[:, slot], mine, theirs)
        for place, taken in zip(places, used, strict=True):
            taken[each, place[picked]] = True
    return drafted, ours


def _places(rows: IntArray, size: int) -> IntArray:
    """(size,) the column in which each row stands; the number of columns where it does not, and for -1."""
    k = rows.shape[1]
    found = np.full(size, k)
    found[rows] = np.arange(k)
    found[-1] = k
    return found


def usual_pages(order: RankOrder, log: LoggedClicks, queries: IntArray) -> IntArray:
    """(queries, k) the rows of the pages of an order, -1 where they end; k is the depth of the log.

    The log's own pages vary: theirs are by mean position.
    """
    ranks = order.mean(np.arange(1.0, log.longest + 1))
    rows = segments.rows_of_segments(log.data.offsets, queries)
    offsets = segments.from_lengths(log.data.sizes[queries])
    places = segments.descending_ranks(-ranks[rows], offsets)
    on_page = places <= log.clicks.depth
    found = np.full((len(queries), log.clicks.depth), -1)
    found[segments.segment_of_rows(offsets)[on_page], places[on_page] - 1] = rows[on_page]
    return found


def sampled_queries(log: LoggedClicks, seed: int, most: int = _MOST_QUERIES) -> tuple[IntArray, Floats]:
    """The queries that were searched, and their share of the pages; of many, those of pages drawn at random."""
    searched = np.flatnonzero(log.pages > 0)
    share = log.pages[searched] / log.pages.sum()
    if len(searched) <= most:
        return searched, share
    drawn = np.random.default_rng([seed, 4]).choice(searched, most, p=share)
    return drawn, np.full(most, 1 / most)


def click_moments(sums: Floats, clicks: Floats, squares: Floats, share: Floats) -> tuple[float, float]:
    """Mean and variance over pages of Σ_k s_k click_k, where clicks on a page are independent, and each s_k is ±1.

        mean = E Σ_k s_k p_k       variance = E Σ_k p_k + E Σ_{j≠k} s_j s_k p_j p_k - mean²

    The chances p of a click are estimates and not clipped: none is multiplied by itself, so their noise averages out.

    sums, clicks, squares    (pages,) of each kind of page, Σ_k s_k p_k, Σ_k p_k and Σ_k p_k²
    share                    (pages,) how many pages are of each kind, in all 1

    >>> one, two = np.array([1.0, 0.5]), np.array([1.0, 0.25])
    >>> click_moments(one, one, two, share=np.array([0.5, 0.5]))
    (0.75, 0.1875)
    """
    mean = float(share @ sums)
    variance = float(share @ (clicks + sums**2 - squares)) - mean**2
    return mean, variance if variance > 0 else float(share @ clicks)  # noise may leave nothing, in tiny logs


def chances_on(pages: IntArray, relevance: Floats, log: LoggedClicks) -> Floats:
    """(pages, k) the chance of a click on each result, by the log's curve."""
    k = pages.shape[1]
    slope, base = log.affine.slope[:k], log.affine.base[:k]
    found: Floats = np.where(pages >= 0, slope * relevance[pages] + base, 0.0)
    return found


def expected_credit(log: LoggedClicks, new: RankOrder, old: RankOrder, relevance: Floats, seed: int) -> Credit | None:
    """What a page of an interleaving test of two orders brings; None where both show the same pages.

    relevance   (rows,) of each candidate
    """
    queries, share = sampled_queries(log, seed)
    tables = usual_pages(new, log, queries), usual_pages(old, log, queries)
    if (tables[0] == tables[1]).all():
        return None
    coins = _coins(len(queries), (log.clicks.depth + 1) // 2, seed)
    drafts = coins.shape[1]
    many = [np.repeat(table, drafts, axis=0) for table in tables]
    pages, ours = team_draft(many[0], many[1], coins.reshape(-1, coins.shape[2]))
    signs, shares = np.where(ours, 1.0, -1.0), np.repeat(share / drafts, drafts)
    chances = chances_on(pages, relevance, log)
    sums, clicks, squares = (values.sum(axis=1) for values in (signs * chances, chances, chances**2))
    mean, variance = click_moments(sums, clicks, squares, shares)
    credit = _weights(pages, signs * shares[:, None], log)
    gained = _weights(tables[0], share[:, None], log) - _weights(tables[1], share[:, None], log)
    per_click = float(credit @ gained / (gained @ gained)) if gained.any() else 0.0
    return Credit(mean, variance, per_click)


def _weights(pages: IntArray, shares: Floats, log: LoggedClicks) -> Floats:
    """(rows,) what the relevance of each counts in Σ share_k slope_k relevance."""
    each = shares * log.affine.slope[: pages.shape[1]]
    found = np.bincount(pages.ravel() + 1, each.ravel(), log.data.n_rows + 1)  # place 0 is where pages have ended
    return found[1:].astype(np.float64, copy=False)


def _coins(queries: int, rounds: int, seed: int) -> Flags:
    """(queries, drafts, rounds) all coins there are, or some at random, each with its opposite."""
    most = max(2, min(_DRAFTS, _MOST_DRAFTS // queries))
    if 2**rounds <= most:
        every = np.arange(2**rounds)[:, None] >> np.arange(rounds) & 1 == 1
        return np.broadcast_to(every, (queries, *every.shape))
    some = np.random.default_rng([seed, 5]).random((queries, most // 2, rounds)) < 0.5
    return np.concatenate([some, ~some], axis=1)
