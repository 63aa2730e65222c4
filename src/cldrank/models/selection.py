"""What the models of relevance and selection together are fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cldrank._typing import IntArray
from cldrank.models.targets import Observations


@dataclass(frozen=True, eq=False)
class PointSelection:
    """Shown and unshown candidates row by row, and the noise that links selection and relevance.

    observed        the candidates of the queries displayed
    pages           (queries,) how often each query was displayed
    gamma           correlation of the two noises, or "profile" to estimate it
    tobit           whether the likelihood is that of a type-II Tobit model
    sigma           the noise of relevance, or "estimate"
    relevance       (columns,) the features that relevance sees
    selection       (columns,) the features that selection sees
    unshown_ratio   of a network: unshown candidates drawn per pair of shown ones
    """

    observed: Observations
    pages: IntArray
    gamma: float | Literal["profile"]
    tobit: bool
    sigma: float | Literal["estimate"]
    relevance: IntArray
    selection: IntArray
    unshown_ratio: float


@dataclass(frozen=True, eq=False)
class PairSelection:
    """Pairs of candidates of one query, both shown, or one of the two.

    selection_weight   C, the weight of the terms of selection
    unshown_ratio      pairs with an unshown candidate for each pair of two shown ones
    """

    observed: Observations
    pages: IntArray
    selection_weight: float
    unshown_ratio: float
