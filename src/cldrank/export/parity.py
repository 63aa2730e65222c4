"""`Parity`: how far the scores of an engine are from the ranker's own, and whether any two candidates change order."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cldrank._typing import IntArray
from cldrank.wording import count


@dataclass(frozen=True)
class Parity:
    """Two scores of the same candidates, compared.

    largest     the largest absolute difference, once a constant that the format cannot hold is added
    scale       the largest absolute score
    spread      from the least to the greatest score, to judge the difference by
    swapped     pairs of candidates of one query that the two put in opposite order
    tied        pairs that only one of the two ties
    """

    rows: int
    queries: int
    largest: float
    scale: float
    spread: float
    swapped: int
    tied: int

    @classmethod
    def of(cls, own: ArrayLike, engine: ArrayLike, offsets: IntArray, shift: float = 0.0) -> Parity:
        """The ranker's scores and the engine's; `shift` is what the engine's lack.

        >>> Parity.of([3.0, 2.0, 1.0, 5.0], [3.0, 1.0, 2.0, 5.5], np.array([0, 3, 4]))
        Parity(rows=4, queries=2, largest=1.0, scale=5.0, spread=4.0, swapped=1, tied=0)
        """
        ours, theirs = np.asarray(own, dtype=np.float64), np.asarray(engine, dtype=np.float64)
        swapped = tied = 0
        for start, end in zip(offsets[:-1], offsets[1:], strict=True):
            one, other = ours[start:end], theirs[start:end]
            for place in range(len(one) - 1):  # one row of the table of pairs at a time: a query may be long
                first, second = np.sign(one[place] - one[place + 1 :]), np.sign(other[place] - other[place + 1 :])
                swapped += int(np.count_nonzero(~(first * second >= 0)))  # NaN compares with nothing
                tied += int(np.count_nonzero((first == 0) != (second == 0)))
        return cls(
            rows=len(ours),
            queries=len(offsets) - 1,
            largest=float(np.abs(ours - (theirs + shift)).max(initial=0.0)),
            scale=float(np.abs(ours).max(initial=0.0)),
            spread=float(np.ptp(ours)) if len(ours) else 0.0,
            swapped=swapped,
            tied=tied,
        )

    @property
    def same_order(self) -> bool:
        """Whether every query is ranked alike."""
        return not self.swapped and not self.tied

    def __str__(self) -> str:
        order = "no two candidates change order"
        if not self.same_order:
            order = f"{count(self.swapped, 'pair')} in opposite order, {count(self.tied, 'pair')} tied by only one"
        return (
            f"{count(self.rows, 'row')} of {count(self.queries, 'query', 'queries')}: largest difference "
            f"{self.largest:.2g} (scores up to {self.scale:.3g}), {order}"
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {**asdict(self), "same_order": self.same_order}
