"""What the training of a network leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank.models.fit import Facts, Fit
from cldrank.models.run import Epoch


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkFit(Fit):
    """A trained network; its status is `completed`, `early_stopped`, `interrupted` (by Ctrl-C) or `non_finite`.

    history       an `Epoch` for each epoch; the concordance on held-out queries is with the method's own targets, so
                  it chooses the epoch but does not compare methods
    best_epoch    the epoch whose network was kept
    n_queries     the queries learned from; `n_held` those held out to choose the epoch
    held_target   in words, what held-out queries are judged against
    """

    history: tuple[Epoch, ...]
    best_epoch: int
    n_queries: int
    n_held: int
    held_target: str

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        kept = self.history[self.best_epoch - 1]
        held = "nothing held out"
        if kept.validation is not None:
            held = f"held-out concordance {kept.validation:.4f} with {self.held_target}"
        seconds = sum(epoch.seconds for epoch in self.history)
        return [
            ("ranker", repr(self.ranker)),
            ("queries", f"{self.n_queries:,} learned from, {self.n_held:,} held out"),
            ("status", f"{self.status}, {self.n_iter} epochs, {seconds:.1f} s"),
            ("kept", f"epoch {self.best_epoch}: loss {kept.loss:.4f}, {held}"),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionNetworkFit(NetworkFit):
    """A network of relevance and a linear model of selection, `selection_coef` and `selection_intercept`."""

    selection_coef: NDArray[np.float64]
    selection_intercept: float
