"""The hidden world behind the synthetic sets: what queries want, what documents are like, and which are relevant.

Both kinds of set share it; they differ in the features that reveal it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray

Values = NDArray[np.float32]

PEAK = 1.1  # the match beyond which relevance falls


class HiddenWorld(NamedTuple):
    """A draw of queries and their candidates, none of it directly visible in a data set.

    sizes       (queries,) candidates of each query
    query       (rows,) the query of each row
    intent      (queries,) 0 … 1: the query wants a particular site rather than a topic
    recency     (queries,) 0 … 1: the query wants news
    ease        (queries,) how many of its candidates are any good
    match       (rows,) how well the document answers the query
    authority   (rows,) how well regarded it is
    quality     (rows,) how well made it is
    site        (rows,) how much it belongs to the site the query may mean
    freshness   (rows,) how new it is
    """

    sizes: IntArray
    query: IntArray
    intent: Values
    recency: Values
    ease: Values
    match: Values
    authority: Values
    quality: Values
    site: Values
    freshness: Values

    @classmethod
    def draw(cls, sizes: IntArray, random: np.random.Generator) -> HiddenWorld:
        """Queries with as many candidates as `sizes` says."""
        intent, recency, ease = random.standard_normal((3, len(sizes)), dtype=np.float32)
        traits = random.standard_normal((5, int(sizes.sum())), dtype=np.float32)
        query = segments.segment_of_rows(segments.from_lengths(sizes))
        return cls(sizes, query, _logistic(3 * intent - 1), _logistic(3 * recency - 2), ease, *traits)


class Kind(NamedTuple):
    """A kind of synthetic set, with the published shape of the real set that it imitates.

    thresholds      the relevance from which grades 1 … 4 begin, measured so that the published shares come out
    write_features  writes the features of a world into a (rows, features) array
    """

    name: str
    feature_names: tuple[str, ...]
    documents_per_query: float
    documents_spread: float
    most_documents: int
    thresholds: tuple[float, ...]
    write_features: Callable[[HiddenWorld, np.random.Generator, Values], None]

    def draw_sizes(self, queries: int, random: np.random.Generator) -> IntArray:
        """Candidates per query: log-normal around the published mean, at least one."""
        centre = np.log(self.documents_per_query) - self.documents_spread**2 / 2
        sizes = np.rint(np.exp(random.normal(centre, self.documents_spread, queries))).astype(np.int64)
        return np.clip(sizes, 1, self.most_documents)


def relevance(world: HiddenWorld, random: np.random.Generator) -> Values:
    """How relevant each candidate is, without unit: partly linear in the hidden traits, partly not, part noise.

        1.5 match up to PEAK, falling by 1.8 beyond it      what repeats the query most was made for search engines
        + 0.3 authority + 0.3 quality - 0.5 [quality < -1.2]
        + 1.2 (intent - 0.3) site + 0.6 recency freshness   a site counts where it is meant, else it is in the way
        + 0.8 ease + 0.9 noise

    The fall beyond the peak is what makes learning from the displayed top harmful: a ranker that has learned that
    match is good fills the top with documents near and beyond the peak, and there match looks useless or bad.
    """
    excess = np.maximum(world.match - PEAK, 0)
    noise = random.standard_normal(len(world.match), dtype=np.float32)
    result: Values = (
        1.5 * (world.match - excess)
        - 1.8 * excess
        + 0.3 * (world.authority + world.quality)
        - np.float32(0.5) * (world.quality < -1.2)
        + 1.2 * (world.intent - 0.3)[world.query] * world.site
        + 0.6 * world.recency[world.query] * world.freshness
        + 0.8 * world.ease[world.query]
        + 0.9 * noise
    )
    return result


def _logistic(values: NDArray[Any]) -> Values:
    result: Values = 1 / (1 + np.exp(-values, dtype=np.float32))
    return result
