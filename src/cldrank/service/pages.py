"""Pages of small experiments: interleaved by two rankers, or with two neighbours swapped, ready to be logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from cldrank.online.interleaving import Page, interleave, rows_best_first
from cldrank.online.keys import digest
from cldrank.online.varied_pages import VariedPage, swap
from cldrank.service.requests import RankRequest, RequestReader
from cldrank.service.served import RankerInUse, ServedRanker

Answers = TypeVar("Answers")


class ServedSwaps:
    """Answers with a page of a ranker, two neighbours of which are swapped on a share of pages."""

    def __init__(self, served: ServedRanker) -> None:
        ranker, self.served = served.ranker, served
        most = served.reader.max_candidates
        self.reader = RequestReader(ranker.feature_names, ranker.takes_missing, most, "Swap")

    def answer(self, request: RankRequest) -> bytes:
        """The page, each result with the probability of its being shown there."""
        order = rows_best_first(self.served.scores(request.table))[: request.depth].tolist()
        page = swap([request.ids[row] for row in order], request.share, request.key)
        ranker = self.served.identity
        return _answer(request, ranker["fingerprint"], page, ranker=ranker)


class ServedInterleaving:
    """Answers with pages that two rankers make together from the same candidates, which have the features of both."""

    def __init__(self, new: ServedRanker, old: ServedRanker) -> None:
        self.rankers = new, old
        own = [served.ranker.feature_names for served in self.rankers]
        names = tuple(dict.fromkeys(own[0] + own[1]))
        takes_missing = new.ranker.takes_missing and old.ranker.takes_missing
        self.reader = RequestReader(names, takes_missing, new.reader.max_candidates, "Interleave")
        self._columns = [None if used == names else np.array([names.index(name) for name in used]) for used in own]

    def answer(self, request: RankRequest) -> bytes:
        """The page, each result with its team and its rank under both rankers."""
        new, old = (
            served.scores(request.table if columns is None else request.table[:, columns])
            for served, columns in zip(self.rankers, self._columns, strict=True)
        )
        page = interleave(new, old, request.depth, request.key, ids=request.ids)
        identities = dict(zip(("new", "old"), (served.identity for served in self.rankers), strict=True))
        experiment = "-".join(identity["fingerprint"] for identity in identities.values())
        return _answer(request, experiment, page, experiment=experiment, rankers=identities)


class Renewed(Generic[Answers]):
    """Answers made of the rankers in use, made anew when one of these was swapped."""

    def __init__(self, make: Callable[..., Answers], *rankers: RankerInUse) -> None:
        self._make, self._rankers = make, rankers
        self._of: list[ServedRanker] = []

    @property
    def served(self) -> Answers:
        """What answers with the rankers that are now in use."""
        served = [ranker.served for ranker in self._rankers]
        if served != self._of:
            self._made, self._of = self._make(*served), served
        return self._made


def _answer(request: RankRequest, version: str, page: Page | VariedPage, **about: Any) -> bytes:
    """A page with an id that stays the same as long as the page does."""
    parts = (version, request.key, request.query_id or 0, request.depth, str(request.share))
    page_id = digest(parts, b"cldrank-page")[:8].hex()
    return msgspec.json.encode({"query_id": request.query_id, "page_id": page_id, **about, "results": page.records()})
