"""Tiny logs as lists of pages, and what they say, in plain loops: references that share no code with cldrank."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.propensity.segment_propensities import Curve

Candidate = tuple[int, int]  # query, and number in it from 0
Relevance = Mapping[Candidate, float]
Ranking = Callable[[int], Sequence[int]]  # of a query, its candidates best first


@dataclass(frozen=True)
class Page:
    """One page that was shown: the candidates from the top, and those that were clicked."""

    query: int
    shown: tuple[int, ...]
    clicked: tuple[int, ...]


@dataclass(frozen=True)
class TinyLog:
    """Pages, and how many candidates each query has."""

    sizes: tuple[int, ...]
    pages: tuple[Page, ...]

    @classmethod
    def drawn(
        cls, seed: int = 0, queries: int = 5, size: int = 5, depth: int = 3, pages: int = 60, ragged: bool = False
    ) -> TinyLog:
        """Pages of random results out of the first `depth + 1` candidates; `ragged` ones end where they like."""
        random = np.random.default_rng(seed)
        found = []
        for number in range(pages):
            length = int(random.integers(1, depth + 1)) if ragged else depth
            shown = tuple(int(one) for one in random.permutation(min(depth + 1, size))[:length])
            clicked = tuple(one for one in shown if random.random() < 0.2 + 0.1 * one)
            found.append(Page(number if number < queries else int(random.integers(queries)), shown, clicked))
        return cls((size,) * queries, tuple(found))

    @property
    def candidates(self) -> list[Candidate]:
        return [(query, one) for query, size in enumerate(self.sizes) for one in range(size)]

    @property
    def seen(self) -> set[Candidate]:
        return {(page.query, one) for page in self.pages for one in page.shown}

    @property
    def depth(self) -> int:
        return max(len(page.shown) for page in self.pages)

    def without(self, query: int) -> TinyLog:
        """The pages of all other queries."""
        return replace(self, pages=tuple(page for page in self.pages if page.query != query))

    def cells(self) -> dict[tuple[Candidate, int], tuple[int, int]]:
        """Impressions and clicks by candidate and position."""
        found: dict[tuple[Candidate, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for page in self.pages:
            for position, one in enumerate(page.shown, 1):
                shown, clicked = found[(page.query, one), position]
                found[(page.query, one), position] = shown + 1, clicked + (one in page.clicked)
        return dict(found)

    def data(self) -> cr.RankingDataset:
        """A dataset with the candidates; the feature is their number."""
        numbers = [[float(one)] for _, one in self.candidates]
        return cr.RankingDataset.from_arrays(numbers, [query for query, _ in self.candidates])

    def table(self, times: int = 1) -> ClickTable:
        """The cells, each page counted some times."""
        row = {one: at for at, one in enumerate(self.candidates)}
        cells = self.cells()
        return ClickTable.from_arrays(
            self.data(),
            row=[row[one] for one, _ in cells],
            position=[position for _, position in cells],
            impressions=[times * shown for shown, _ in cells.values()],
            clicks=[times * clicked for _, clicked in cells.values()],
        )

    def log(self, curve: Curve) -> LoggedClicks:
        """The log as cldrank has it."""
        return LoggedClicks(self.data(), self.table(), curve)

    def scores(self, ranking: Ranking) -> list[float]:
        """Scores of all candidates that give a ranking."""
        return [-float(list(ranking(query)).index(one)) for query, one in self.candidates]

    def array(self, relevance: Relevance) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Relevance by row."""
        return np.array([relevance[one] for one in self.candidates])


def reverse(query: int, size: int = 5) -> Sequence[int]:
    """The ranking that has the last candidate first, but for odd queries."""
    return list(range(size))[::-1] if query % 2 == 0 else [2, 4, 0, 1, 3][:size]


def forward(query: int, size: int = 5) -> Sequence[int]:
    """The candidates by number."""
    del query
    return list(range(size))


def relevance_of(log: TinyLog, slope: Sequence[float], base: Sequence[float]) -> dict[Candidate, float]:
    """(Σ_k c - n base) / Σ_k n slope of each candidate, 0 for those never shown."""
    above, below = dict.fromkeys(log.candidates, 0.0), dict.fromkeys(log.candidates, 0.0)
    for (one, position), (shown, clicked) in log.cells().items():
        above[one] += clicked - shown * base[position - 1]
        below[one] += shown * slope[position - 1]
    return {one: above[one] / below[one] if below[one] else 0.0 for one in log.candidates}


def page_list(page: Page, ranking: Ranking | None) -> Sequence[int]:
    """What is on a page of a ranking; None is the log's own. A page stays as long as it was."""
    return page.shown if ranking is None else ranking(page.query)[: len(page.shown)]


def dcg(log: TinyLog, ranking: Ranking | None, relevance: Relevance, k: int) -> float:
    """The mean over pages of Σ relevance / log2(rank + 1)."""
    total = 0.0
    for page in log.pages:
        for rank, one in enumerate(page_list(page, ranking)[:k], 1):
            total += relevance[page.query, one] / math.log2(rank + 1)
    return total / len(log.pages)


def expected_clicks(
    log: TinyLog, ranking: Ranking | None, relevance: Relevance, slope: Sequence[float], base: Sequence[float], k: int
) -> float:
    """The mean over pages of Σ slope relevance + base."""
    total = 0.0
    for page in log.pages:
        for place, one in enumerate(page_list(page, ranking)[:k]):
            total += slope[place] * relevance[page.query, one] + base[place]
    return total / len(log.pages)


def jackknife_error(log: TinyLog, value: Callable[[TinyLog], float]) -> float:
    """The textbook jackknife that leaves out one query at a time, around the value itself."""
    n, whole = len(log.sizes), value(log)
    return math.sqrt((n - 1) / n * sum((value(log.without(query)) - whole) ** 2 for query in range(n)))
