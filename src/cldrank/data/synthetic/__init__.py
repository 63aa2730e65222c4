"""Synthetic sets in the shape of published ones, for experiments where the real ones are not available.

A set is made of chunks of CHUNK queries, each drawn whole from its own random stream, seeded by (seed, kind, chunk). So
query i of a seed is always the same, whatever the number of queries and the size of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from cldrank import segments
from cldrank.arguments import check_whole
from cldrank.data.dataset import RankingDataset
from cldrank.data.new_array import NewArray
from cldrank.data.synthetic import web10k, yahoo
from cldrank.data.synthetic.world import HiddenWorld, Kind, relevance
from cldrank.errors import UsageError

__all__ = ["generate", "make"]

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in (web10k.WEB10K_LIKE, yahoo.YAHOO_LIKE)})

CHUNK = 64


def make(kind: str, queries: int, seed: int = 0) -> RankingDataset:
    """A synthetic set in memory.

    >>> make("yahoo-like", 3)
    RankingDataset(yahoo-like (synthetic): 3 queries, ... rows, 519 features, labels 0…..., document ids)
    """
    return next(generate(kind, queries, seed, block_queries=queries))


def generate(
    kind: str, queries: int, seed: int = 0, *, skip: int = 0, block_queries: int = 16 * CHUNK
) -> Iterator[RankingDataset]:
    """The same set in blocks of queries, so that a single block is in memory at a time; multiples of CHUNK are fastest.

    skip   leave out as many queries: those after them, with their ids, which another set of the seed does not have

    >>> [len(block) for block in generate("yahoo-like", 10, seed=0, block_queries=4)]
    [4, 4, 2]
    >>> [block.query_ids.tolist() for block in generate("yahoo-like", 2, seed=0, skip=10)]
    [[11, 12]]
    """
    if kind not in KINDS:
        raise UsageError(f"there is no synthetic kind {kind!r}; the kinds are {', '.join(KINDS)}.")
    check_whole("queries", queries, least=1)
    check_whole("seed", seed, least=0)
    check_whole("skip", skip, least=0)
    check_whole("block_queries", block_queries, least=1)
    end = skip + queries
    return (
        _block(KINDS[kind], seed, start, min(start + block_queries, end)) for start in range(skip, end, block_queries)
    )


def _block(kind: Kind, seed: int, start: int, stop: int) -> RankingDataset:
    """Queries start … stop-1."""
    features = NewArray("features", np.float32, width=len(kind.feature_names))
    labels, sizes = [], []
    for index in range(start // CHUNK, (stop - 1) // CHUNK + 1):
        stream = np.random.SeedSequence(seed, spawn_key=(list(KINDS).index(kind.name), index))
        random = np.random.Generator(np.random.Philox(stream))
        world = HiddenWorld.draw(kind.draw_sizes(CHUNK, random), random)
        grades = np.searchsorted(np.asarray(kind.thresholds), relevance(world, random), side="right")
        table = np.empty((len(grades), len(kind.feature_names)), dtype=np.float32)
        kind.write_features(world, random, table)
        queries = slice(max(start - index * CHUNK, 0), stop - index * CHUNK)
        rows = (world.query >= queries.start) & (world.query < queries.stop)
        features.append(table[rows])
        labels.append(grades[rows].astype(np.float32))
        sizes.append(world.sizes[queries])
    offsets, query_ids = segments.from_lengths(np.concatenate(sizes)), np.arange(start, stop) + 1
    return RankingDataset(
        features=features.finish(),
        offsets=offsets,
        labels=np.concatenate(labels),
        query_ids=query_ids,
        # document 7 of query 12 is 12007: no kind has a thousand candidates per query
        doc_ids=np.repeat(query_ids * 1000, np.diff(offsets)) + segments.places_in_segments(offsets) - 1,
        feature_names=kind.feature_names,
        name=kind.name,
        synthetic=True,
    )
