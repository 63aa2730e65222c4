"""`HeldOut`: queries that are kept out of training, so that their clicks can judge the ranker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import held_out
from cldrank.errors import UsageError
from cldrank.wording import count


@dataclass(frozen=True)
class HeldOut:
    """Queries kept out of training: their share and number; `others` is what is left."""

    share: float
    queries: int
    of_queries: int
    others: tuple[RankingDataset, ClickTable | None]

    @classmethod
    def of(cls, dataset: RankingDataset, clicks: ClickTable | None, share: float) -> HeldOut:
        """By the hashes of the queries; a share that leaves either side empty is refused."""
        held = held_out(dataset.query_ids, share)
        used = held if clicks is None else held[dataset.row_queries[clicks.row]]
        some = "query" if clicks is None else "query with impressions"
        if not used.any():
            raise UsageError(f"`hold_out={share}` holds out no {some} to judge the ranker on; choose a larger share.")
        if used.all():
            raise UsageError(f"`hold_out={share}` leaves no {some} to train on; choose a smaller share.")
        return cls(share, int(held.sum()), len(held), (dataset[~held], None if clicks is None else clicks[~held]))

    def __str__(self) -> str:
        verb = "is" if self.queries == 1 else "are"
        return f"{self.queries:,} of {count(self.of_queries, 'query', 'queries')} {verb} held out"

    def as_dict(self) -> dict[str, Any]:
        """In numbers."""
        return {"share": self.share, "queries": self.queries, "of_queries": self.of_queries}
