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
from cldrank.measures import ARP, DCG, NDCG, Measure, parse
from cldrank.propensity import AffineClicks

Floats = NDArray[np.float64]
_CLICKS = re.compile(r"(?i)\s*clicks\s*(?:@\s*(\d+))?\s*")
_KINDS: dict[type[Measure], str] = {DCG: "DCG", ARP: "ARP"}
_ALL = (*_KINDS.values(), "Clicks")
_KNOWN = "DCG@k, ARP and Clicks@k"


@dataclass(frozen=True)
class ClickMeasure:
    """A measure of an order, given the relevance of candidates; the mean is taken over pages.

        DCG@k      Σ_i relevance_i / log2(rank_i + 1)   over the first k
        Clicks@k   Σ_i slope(rank_i) relevance_i + base(rank_i): expected clicks per page with k results
        ARP        Σ_i relevance_i rank_i / Σ_i relevance_i, over all pages together; lower is better. Only candidates
                   that the log has shown count, ranked among themselves: nobody knows production's order of the others

    Pages are as long as those of the log: rank 4 counts on the pages of a query that have a position 4, in any order.

    >>> ClickMeasure("DCG", 3).discounts(4, AffineClicks.of([1, 0.5], 1, 0))
    array([1.    , 0.6309, 0.5   , 0.    ])
    """

    kind: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _ALL)
        if self.cutoff is not None:
            check_whole("cutoff", self.cutoff, least=1)

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is better."""
        return self.kind != "ARP"

    def discounts(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) what relevance at each rank counts."""
        ranks = np.arange(1, longest + 1, dtype=np.float64)
        if self.kind == "ARP":
            return ranks
        top = min(self.cutoff or longest, longest)
        if self.kind == "Clicks":
            return _padded(affine.slope[:top], longest)
        return _padded(1 / np.log2(ranks[:top] + 1), longest)

    def bases(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) the clicks that each rank brings without any relevance."""
        top = min(self.cutoff or longest, longest)
        return _padded(affine.base[:top], longest) if self.kind == "Clicks" else np.zeros(longest)


def default_measures(k: int) -> list[ClickMeasure]:
    """All of them, for pages of k results.

    >>> [str(measure) for measure in default_measures(5)]
    ['DCG@5', 'ARP', 'Clicks@5']
    """
    return [ClickMeasure("DCG", k), ClickMeasure("ARP"), ClickMeasure("Clicks", k)]


def parse_click_measures(measures: Any, k: int) -> list[ClickMeasure]:
    """The measures that texts name, each once; a missing cutoff is k, the length of a page.

    >>> [str(measure) for measure in parse_click_measures("dcg@3, clicks", k=5)]
    ['DCG@3', 'Clicks@5']
    """
    if isinstance(measures, Measure | ClickMeasure):
        measures = [measures]
    if not isinstance(measures, Iterable):
        raise UsageError(f"{shortened(measures)} is not a measure; clicks estimate {_KNOWN}.")
    named: Iterable[Any] = [measures] if isinstance(measures, str) else measures
    texts = [part for name in named for part in (re.split(r"[,;\s]+", name) if isinstance(name, str) else [name])]
    parsed = list(dict.fromkeys(_parsed(text, k) for text in texts if text != ""))
    if not parsed:
        raise UsageError(f"no measure is named; clicks estimate {_KNOWN}.")
    for measure in parsed:
        if measure.cutoff is not None and measure.cutoff > k:
            raise UsageError(f"{measure}: the log says nothing of positions beyond {k}; choose a cutoff from 1 to {k}.")
    return parsed


def _parsed(text: Any, k: int) -> ClickMeasure:
    if isinstance(text, ClickMeasure):
        return text
    clicks = _CLICKS.fullmatch(text) if isinstance(text, str) else None
    if clicks is not None:
        return ClickMeasure("Clicks", k if clicks[1] is None else int(clicks[1]))
    measure = parse(text)
    if isinstance(measure, NDCG):
        raise UsageError(f"{measure}: clicks cannot tell the best possible order; use DCG@k.")
    kind = _KINDS.get(type(measure))
    if kind is None or str(measure) not in (kind, f"{kind}@{measure.cutoff}"):
        raise UsageError(f"{measure} cannot be estimated from clicks; {_KNOWN} can. For {measure}, labels are needed.")
    return ClickMeasure(kind, None if kind == "ARP" else (measure.cutoff or k))


def _padded(values: Floats, longest: int) -> Floats:
    """The values with zeros behind, `longest` in all."""
    return np.append(values, np.zeros(longest - len(values)))
