"""`ClickMeasure`: measures that clicks can estimate, as sums over ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import check_choice, check_whole, shortened
from cldrank.errors import UsageError
from cldrank.measures import NDCG, Measure, parse
from cldrank.propensity import AffineClicks

Floats = NDArray[np.float64]
_KINDS = ("DCG", "Clicks")
_FORM = re.compile(rf"(?i)\s*({'|'.join(_KINDS)})\s*(?:@\s*(\d+))?\s*")
_KNOWN = "DCG@k and Clicks@k"


@dataclass(frozen=True)
class ClickMeasure:
    """A measure of an order, given the relevance of candidates; the mean is taken over pages.

        DCG@k      Σ_i relevance_i / log2(rank_i + 1)   over the first k
        Clicks@k   Σ_i slope(rank_i) relevance_i + base(rank_i): expected clicks per page with k results

    Pages are as long as those of the log: rank 4 counts on the pages of a query that have a position 4, in any order.

    >>> ClickMeasure("DCG", 3).discounts(4, AffineClicks.of([1, 0.5], 1, 0))
    array([1.    , 0.6309, 0.5   , 0.    ])
    """

    kind: str
    cutoff: int

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        check_whole("cutoff", self.cutoff, least=1)

    def __str__(self) -> str:
        return f"{self.kind}@{self.cutoff}"

    def discounts(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) what relevance at each rank counts."""
        if self.kind == "Clicks":
            return self._until_cutoff(affine.slope, longest)
        return self._until_cutoff(1 / np.log2(np.arange(1.0, longest + 1) + 1), longest)

    def bases(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) the clicks that each rank brings without any relevance."""
        return self._until_cutoff(affine.base if self.kind == "Clicks" else np.zeros(0), longest)

    def _until_cutoff(self, values: Floats, longest: int) -> Floats:
        counted = values[: min(self.cutoff, longest)]
        return np.append(counted, np.zeros(longest - len(counted)))


def default_measures(k: int) -> list[ClickMeasure]:
    """Every measure, for pages of k results.

    >>> [str(measure) for measure in default_measures(5)]
    ['DCG@5', 'Clicks@5']
    """
    return [ClickMeasure(kind, k) for kind in _KINDS]


def parse_click_measures(measures: Any, k: int) -> list[ClickMeasure]:
    """The measures that texts name, each once; a missing cutoff is k, the length of a page.

    >>> [str(measure) for measure in parse_click_measures("dcg@3, clicks", k=5)]
    ['DCG@3', 'Clicks@5']
    """
    if isinstance(measures, str | Measure | ClickMeasure):
        measures = [measures]
    if not isinstance(measures, Iterable):
        raise UsageError(f"{shortened(measures)} is not a measure; clicks estimate {_KNOWN}.")
    texts = [part for name in measures for part in (re.split(r"[,;\s]+", name) if isinstance(name, str) else [name])]
    parsed = list(dict.fromkeys(_parsed(text, k) for text in texts if text != ""))
    if not parsed:
        raise UsageError(f"no measure is named; clicks estimate {_KNOWN}.")
    for measure in parsed:
        if measure.cutoff > k:
            raise UsageError(f"{measure}: the log says nothing of positions beyond {k}; choose a cutoff from 1 to {k}.")
    return parsed


def _parsed(text: Any, k: int) -> ClickMeasure:
    if isinstance(text, ClickMeasure):
        return text
    form = _FORM.fullmatch(str(text))
    if form is not None:
        kind = next(kind for kind in _KINDS if kind.casefold() == form[1].casefold())
        return ClickMeasure(kind, k if form[2] is None else int(form[2]))
    try:
        measure = parse(text)
    except UsageError:
        raise UsageError(f"{shortened(text)} is no measure that clicks estimate; those are {_KNOWN}.") from None
    if isinstance(measure, NDCG):
        raise UsageError(f"{measure}: clicks cannot tell the best possible order; use DCG@k.")
    raise UsageError(f"{measure} cannot be estimated from clicks; {_KNOWN} can. For {measure}, labels are needed.")
