"""yahoo-like: 519 anonymous features in [0, 1], many zero, in correlated families, as in set 1 of Yahoo's challenge."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from cldrank.data.synthetic.world import HiddenWorld, Kind, Values


class Family(NamedTuple):
    """Features of the same origin: how many, the mean share of zeros, and the hidden traits they show, with weights."""

    features: int
    zeros: float
    shows: dict[str, float]


FAMILIES = {
    "text_match": Family(180, 0.20, {"match": 1.2}),
    "topic": Family(50, 0.50, {"match": 0.7, "freshness": 0.3}),
    "link": Family(60, 0.50, {"authority": 1.0}),
    "click": Family(60, 0.75, {"site": 0.9, "authority": 0.4, "freshness": 0.3}),
    "document": Family(80, 0.35, {"quality": 1.0, "authority": 0.2}),
    "external": Family(29, 0.80, {"site": 0.8, "authority": 0.5}),
    "time": Family(20, 0.30, {"freshness": 1.0}),
    "query": Family(40, 0.40, {"intent": 1.5, "recency": 1.5, "ease": 0.2}),
}
_FEATURE_NAMES = tuple(
    f"{name}_{number:03d}" for name, family in FAMILIES.items() for number in range(1, family.features + 1)
)
TRAITS = ("match", "authority", "quality", "site", "freshness")
QUERY_TRAITS = ("intent", "recency", "ease")
NOISE = 0.3  # of each feature alone
SOURCES = 8  # of each family: where a source has nothing on a document, all its features are zero
NUISANCE_FACTORS = 8  # shared by many features, and no guide to relevance


class _Loadings:
    """The fixed make-up of each feature: drawn once, from its own seed, and the same in every set of this kind."""

    def __init__(self, families: dict[str, Family], traits: tuple[str, ...]) -> None:
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([519, len(traits)])))
        blocks = []
        sources: list[int] = []
        absent: list[float] = []
        for count, zeros, shown in families.values():
            weights = random.normal(0, 0.2, (len(traits) + NUISANCE_FACTORS, count))
            weights[: len(traits)] *= 0.2
            weights[len(traits) + random.integers(NUISANCE_FACTORS, size=3)] += random.normal(0, 0.5, (3, count))
            for trait, weight in shown.items():
                weights[traits.index(trait)] += weight * random.gamma(4.0, 0.25, count)
            blocks.append(weights)
            sources += list(len(absent) + random.integers(SOURCES, size=count))
            absent += list(np.clip(random.normal(zeros, 0.2, SOURCES), 0, 0.97))
        mixed = np.concatenate(blocks, axis=1)
        width = mixed.shape[1]
        scale = np.sqrt((mixed**2).sum(axis=0) + NOISE**2) / random.uniform(0.12, 0.25, width)
        self.mix: Values = (mixed / scale).astype(np.float32)
        self.noise: Values = (NOISE / scale * np.sqrt(12)).astype(np.float32)
        self.level: Values = (random.uniform(0.3, 0.6, width) - self.noise / 2).astype(np.float32)
        self.source = np.array(sources)
        self.absent: Values = np.array(absent, dtype=np.float32)
        self.stepped = np.flatnonzero(random.random(width) < 0.2)

    def write(self, factors: Values, random: np.random.Generator, out: Values) -> None:
        """Mix the factors, hold them within [0, 1], and blank the features whose source is absent."""
        values = factors @ self.mix
        values += random.random(values.shape, dtype=np.float32) * self.noise
        values += self.level
        np.clip(values, 0, 1, out=values)
        values[:, self.stepped] = np.rint(values[:, self.stepped] * 4) / 4
        present = random.random((len(values), len(self.absent)), dtype=np.float32) >= self.absent
        np.multiply(values, present[:, self.source], out=out)


@cache
def _loadings() -> tuple[_Loadings, _Loadings]:
    documents = {name: family for name, family in FAMILIES.items() if name != "query"}
    return _Loadings(documents, TRAITS), _Loadings({"query": FAMILIES["query"]}, QUERY_TRAITS)


def write_features(world: HiddenWorld, random: np.random.Generator, out: Values) -> None:
    """Write the 519 features of each candidate; those of the query come last and are constant within it."""
    documents, queries = _loadings()
    width = documents.mix.shape[1]
    documents.write(_factors([getattr(world, trait) for trait in TRAITS], random), random, out[:, :width])
    of_query = np.empty((len(world.sizes), len(_FEATURE_NAMES) - width), dtype=np.float32)
    queries.write(_factors([getattr(world, trait) for trait in QUERY_TRAITS], random), random, of_query)
    out[:, width:] = of_query[world.query]


def _factors(traits: list[Values], random: np.random.Generator) -> Values:
    """What the features are mixed from: (rows, traits and nuisance factors)."""
    nuisance = random.standard_normal((len(traits[0]), NUISANCE_FACTORS), dtype=np.float32)
    return np.concatenate([np.stack(traits, axis=1), nuisance], axis=1)


YAHOO_LIKE = Kind(
    name="yahoo-like",
    feature_names=_FEATURE_NAMES,
    documents_per_query=23.7,  # 709,877 rows of 29,921 queries
    documents_spread=0.5,
    most_documents=139,
    thresholds=(-1.454, 0.347, 2.063, 3.332),
    write_features=write_features,
)
