"""The measures. Ranks count from 1; a negative label counts as 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cldrank.errors import DataError, UsageError
from cldrank.measures.measure import Measure, positive
from cldrank.measures.ranking import Gain, Ranking
from cldrank.segments import Array


@dataclass(frozen=True, repr=False)
class _Gained(Measure):
    """A measure of graded gains: 2^label - 1 (exponential) or the label itself (linear)."""

    gain: Gain = "exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {"exponential": "exponential", "exp": "exponential", "linear": "linear"}.get(str(self.gain).lower())
        if named is None:
            raise UsageError(f"the gain of {self.name} is exponential (2^label - 1) or linear, not {self.gain!r}.")
        object.__setattr__(self, "gain", named)


@dataclass(frozen=True, repr=False)
class DCG(_Gained):
    """Discounted cumulative gain.

        sum over the first k of (2^label - 1) / log2(rank + 1)

    >>> DCG(2)([3, 2, 1], [0, 1, 2], [0, 3])
    array([0.6309])
    """

    name = "DCG"

    def _values(self, ranking: Ranking) -> Array:
        return ranking.top(self.cutoff).dcg(self.gain).copy()


@dataclass(frozen=True, repr=False)
class NDCG(_Gained):
    """DCG divided by the best DCG that the labels allow. What trec_eval calls ndcg is nDCG(gain=linear).

    >>> NDCG(2)([3, 2, 1], [0, 1, 2], [0, 3])
    array([0.1738])
    """

    name = "nDCG"

    def _values(self, ranking: Ranking) -> Array:
        best = ranking.ideal.top(self.cutoff).dcg(self.gain)
        return _ratio(ranking.top(self.cutoff).dcg(self.gain), best)


@dataclass(frozen=True, repr=False)
class _Thresholded(Measure):
    """A measure that counts a document as relevant if its label is at least `rel`."""

    rel: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rel", positive(self.rel, f"rel of {self.name}, the lowest relevant label,"))

    def _answerable(self, ranking: Ranking) -> Array:
        return ranking.best_labels >= self.rel


@dataclass(frozen=True, repr=False)
class AP(_Thresholded):
    """Average precision; its mean over queries is known as MAP.

        sum over the relevant among the first k of (precision at their rank) / number of relevant in the whole list

    >>> AP()([3, 2, 1], [0, 1, 1], [0, 3])
    array([0.58333])
    """

    name = "AP"
    aliases: ClassVar[tuple[str, ...]] = ("MAP",)

    def _values(self, ranking: Ranking) -> Array:
        top = ranking.top(self.cutoff)
        hits = top.relevant(self.rel)
        return _ratio(top.sums(hits * top.running_sums(hits) / top.ranks), ranking.n_relevant(self.rel))


@dataclass(frozen=True, repr=False)
class RR(_Thresholded):
    """Reciprocal rank of the first relevant document, 0 if it is beyond k; its mean over queries is known as MRR.

    >>> RR()([3, 2, 1], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name = "RR"
    aliases: ClassVar[tuple[str, ...]] = ("MRR",)

    def _values(self, ranking: Ranking) -> Array:
        top = ranking.top(self.cutoff)
        return top.maxima(top.relevant(self.rel) / top.ranks)


@dataclass(frozen=True, repr=False)
class P(_Thresholded):
    """Precision: the relevant among the first k, divided by k even if the list is shorter.

    >>> P(2)([3, 2, 1], [0, 1, 1], [0, 3])
    array([0.5])
    """

    name = "P"
    aliases: ClassVar[tuple[str, ...]] = ("Precision", "Prec")
    needs_cutoff: ClassVar[bool] = True

    def _values(self, ranking: Ranking) -> Array:
        return ranking.top(self.cutoff).n_relevant(self.rel) / (self.cutoff or 1)


@dataclass(frozen=True, repr=False)
class ERR(Measure):
    """Expected reciprocal rank at which a reader is satisfied, by each document with probability (2^label - 1) / 2^max.

        sum over the first k of satisfied(rank) / rank · product over the ranks before of (1 - satisfied)

    By default, `max` is the largest label of all the data given; set it to compare across data sets.

    >>> ERR(max=1)([3, 2, 1], [0, 1, 1], [0, 3])
    array([0.33333])
    """

    name = "ERR"
    max: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max is not None:
            object.__setattr__(self, "max", positive(self.max, "max of ERR, the highest grade,"))

    def _values(self, ranking: Ranking) -> Array:
        highest = ranking.highest if self.max is None else self.max
        if ranking.highest > highest:
            raise DataError(f"a label is {ranking.highest:g}, above the highest grade of {self}; raise its max.")
        Ranking.check_exponent(highest)
        top = ranking.top(self.cutoff)
        satisfied = top.gains("exponential") * np.exp2(-highest)
        patience = np.log1p(-satisfied)
        before = np.exp(top.running_sums(patience) - patience)
        return top.sums(satisfied * before / top.ranks)


def _ratio(part: Array, whole: Array) -> Array:
    """The part divided by the whole, and 0 for a whole of 0 (whose part is 0 too)."""
    return part / np.where(whole > 0, whole, 1.0)
