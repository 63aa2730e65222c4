"""Pages that vary a little, with the probability of what they show: swaps, and trials of never-shown results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cldrank.arguments import check_number, shortened
from cldrank.errors import DataError
from cldrank.online.keys import Key, fractions

PRODUCTION = "production"


class VariedPage(NamedTuple):
    """A page, top first.

    ids            the results
    propensities   P(this result is shown at its position | query), over all keys
    layout         what was varied: "production" if nothing was, "swap-2-3", or "trial-4"
    """

    ids: list[Any]
    propensities: list[float]
    layout: str

    def records(self) -> list[dict[str, Any]]:
        """What a log must keep of each result, by column; the layout is a log's `ranker_id`.

        >>> swap(["a"], 0.5, key="ada").records()
        [{'doc_id': 'a', 'position': 1, 'propensity': 1.0, 'ranker_id': 'production'}]
        """
        return [
            {"doc_id": result, "position": position, "propensity": propensity, "ranker_id": self.layout}
            for position, (result, propensity) in enumerate(zip(self.ids, self.propensities, strict=True), 1)
        ]


def swap(order: Sequence[Any], share: float, key: Key) -> VariedPage:
    """The page `order` or, on a share of pages, with two neighbours swapped; which two is drawn evenly.

        P(place i at i) = 1 - share * (pairs with i) / pairs,   P(place i at i ± 1) = share / pairs

    A log of such pages identifies examination probabilities: `AllPairs` compares the positions of each result.

    >>> swap(["a", "b", "c"], 0.5, ("ben", "shoes", "May"))
    VariedPage(ids=['b', 'a', 'c'], propensities=[0.25, 0.25, 0.75], layout='swap-1-2')
    """
    page, pairs = _page(order), len(order) - 1
    share = check_number("share", share, least=0, most=1)
    if pairs < 1:
        return VariedPage(page, [1.0] * len(page), PRODUCTION)
    ends = [1 - share / pairs, *[1 - 2 * share / pairs] * (pairs - 1), 1 - share / pairs]  # a result is in two pairs
    whether, which, *_ = fractions(key, b"cldrank-swap")
    if whether >= share:
        return VariedPage(page, ends, PRODUCTION)
    upper = int(which * pairs)
    page[upper : upper + 2] = page[upper + 1], page[upper]
    ends[upper : upper + 2] = [share / pairs] * 2
    return VariedPage(page, ends, f"swap-{upper + 1}-{upper + 2}")


def explore(order: Sequence[Any], never_shown: Sequence[Any], share: float, key: Key) -> VariedPage:
    """The page `order` or, on a share of pages, with one never-shown result at a position; both are drawn evenly.

    The results from that position on move down by one, and the last leaves the page.

        P(a never-shown result at k) = share / (length * never-shown results)
        P(place i at i) = 1 - share * i / length,   P(place i at i + 1) = share * i / length

    >>> explore(["a", "b", "c"], ["x", "y"], 0.3, ("max", "shoes", "May"))
    VariedPage(ids=['a', 'b', 'y'], propensities=[0.9, 0.8, 0.05], layout='trial-3')
    """
    page, length = _page(order), len(order)
    share = check_number("share", share, least=0, most=1)
    if both := set(page).intersection(never_shown):
        raise DataError(
            f"{shortened(min(both, key=str))} is never shown, and on the page; leave it out of one of them."
        )
    if len(set(never_shown)) < len(never_shown):
        raise DataError("`never_shown` names a result twice; each must have the same chance.")
    if not page or not len(never_shown):
        return VariedPage(page, [1.0] * length, PRODUCTION)
    stays = [1 - share * place / length for place in range(1, length + 1)]
    whether, which, where, *_ = fractions(key, b"cldrank-explore")
    if whether >= share:
        return VariedPage(page, stays, PRODUCTION)
    place = int(where * length)
    tried, chance = never_shown[int(which * len(never_shown))], share / (length * len(never_shown))
    moves = [share * above / length for above in range(place + 1, length)]
    ids = [*page[:place], tried, *page[place:-1]]
    return VariedPage(ids, [*stays[:place], chance, *moves], f"trial-{place + 1}")


def _page(order: Sequence[Any]) -> list[Any]:
    """The results as a list; refused if one is listed twice."""
    page = list(order)
    if len(set(page)) < len(page):
        twice = next(result for place, result in enumerate(page) if result in page[:place])
        raise DataError(f"`order` lists {shortened(twice)} twice; each result has one place.")
    return page
