"""Choosing from a small grid by the clicks on held-out queries, for any class with `fit` and `predict`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.experiment.decoding import bounded
from cldrank.tuning import space
from cldrank.tuning.judging import Mean, hold_out, mean_of

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import AffineClicks, Propensities

_SPLIT_SEED = 0  # which queries are held out is part of the method, not of its luck


@dataclass(frozen=True)
class Range(space.Range):
    """So many points of a range.

    >>> Range(0.05, 0.3, points=3).values()
    (0.05, 0.175, 0.3)
    """

    points: int = bounded(4, 2, 100)

    def values(self) -> tuple[float, ...]:
        """The values to try."""
        with np.errstate(over="ignore", invalid="ignore"):  # who asks for these checks that they are finite
            return self.spaced(self.points)


@dataclass(frozen=True)
class Choice:
    """The parameters that did best, and how well every try did, in the order of the grid."""

    parameters: dict[str, Any]
    tries: list[tuple[dict[str, Any], Mean]]


def choose(
    make: Callable[[Mapping[str, Any]], Any],
    grids: Mapping[str, Sequence[Any]],
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Propensities | AffineClicks,
    *,
    held_out: float = 0.2,
) -> Choice:
    """Fit every combination to the clicks on most queries, and take the one that agrees best with those on the others.

    make   an estimator from the parameters of a combination; of equals, the first is taken

    It is judged as by `cldrank.tuning.tune`, which draws its trials where this goes through them all.
    """
    learned, judge = hold_out(dataset, clicks, propensities, held_out, _SPLIT_SEED)
    tries = []
    for values in itertools.product(*grids.values()):
        parameters = dict(zip(grids, values, strict=True))
        model = make(parameters).fit(dataset, learned, propensities)
        tries.append((parameters, mean_of(judge.gains(model), judge.weight)))
    best = max(tries, key=lambda one: one[1].value)
    return Choice(best[0], tries)
