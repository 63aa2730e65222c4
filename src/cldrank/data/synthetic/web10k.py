"""web10k-like: the statistics of a small search engine over four fields and the whole document, as in MSLR-WEB10K.

Term counts are drawn for every query term, field and document; all text features are then computed from the counts,
so they agree with each other as those of a real engine do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank.data.synthetic.world import HiddenWorld, Kind, Values

FIELDS = ("body", "anchor", "title", "url", "whole_document")
STATISTICS = (
    "covered_query_term_number",
    "covered_query_term_ratio",
    "stream_length",
    "idf",
    *(f"{how}_of_term_frequency" for how in ("sum", "min", "max", "mean", "variance")),
    *(f"{how}_of_normalised_term_frequency" for how in ("sum", "min", "max", "mean", "variance")),
    *(f"{how}_of_tf_idf" for how in ("sum", "min", "max", "mean", "variance")),
    "boolean_model",
    "vector_space_model",
    "bm25",
    "lmir_abs",
    "lmir_dir",
    "lmir_jm",
)
DOCUMENT_FEATURES = (
    "number_of_slashes_in_url",
    "length_of_url",
    "inlink_number",
    "outlink_number",
    "page_rank",
    "site_rank",
    "quality_score",
    "quality_score_2",
    "query_url_click_count",
    "url_click_count",
    "url_dwell_time",
)
_FEATURE_NAMES = tuple(f"{name}_{field}" for name in STATISTICS for field in FIELDS) + DOCUMENT_FEATURES

TERMS_SHARES = (0.13, 0.29, 0.27, 0.17, 0.09, 0.05)  # queries of 1 … 6 terms
MOST_TERMS = len(TERMS_SHARES)
COLLECTION_WEIGHT, PSEUDO_COUNT, DISCOUNT = 0.3, 500.0, 0.7  # smoothing of the three language models
LARGEST_COUNT = 2e8


class _Field(NamedTuple):
    """How a field's length and term counts come about, on a log scale."""

    length: float
    length_spread: float
    filled: float  # the share of documents that have the field at all
    level: float
    count_spread: float
    per_match: float
    per_site: float = 0.0
    per_authority: float = 0.0
    per_length: float = 0.0
    idf_shift: float = 0.0  # words are rarer in short fields

    @property
    def mean_length(self) -> float:
        return self.filled * float(np.exp(self.length + self.length_spread**2 / 2))


_FIELDS = (  # body, anchor, title, url
    _Field(6.05, 1.0, 0.98, level=1.5, count_spread=0.9, per_match=0.75, per_length=0.4),
    _Field(0.6, 1.1, 0.35, -0.45, 0.5, per_match=0.25, per_site=0.5, per_authority=0.3, per_length=0.3, idf_shift=4.0),
    _Field(1.95, 0.55, 0.97, level=0.15, count_spread=0.35, per_match=0.45, per_site=0.1, idf_shift=3.2),
    _Field(1.95, 0.4, 1.0, level=-0.6, count_spread=0.4, per_match=0.2, per_site=0.45, idf_shift=3.8),
)


class _QueryTerms(NamedTuple):
    """The terms of each row's query, as a field sees them: (terms, rows), 0 where the query has fewer terms."""

    present: Values
    number: Values
    idf: Values
    inverse_norm: NDArray[Any]
    collection: NDArray[Any]  # the share of the term among all words of the collection


def write_features(world: HiddenWorld, random: np.random.Generator, out: Values) -> None:
    """Write the 136 features of each candidate."""
    present, idf = _draw_terms(world, random)
    row_present, row_idf = present[:, world.query], idf[:, world.query]
    number, collection = row_present.sum(axis=0), np.exp(-row_idf) * 0.02
    drawn = [(*_draw_field(field, world, row_present, row_idf, random), field) for field in _FIELDS]
    fields = [(length, counts, field.mean_length, field.idf_shift) for length, counts, field in drawn]
    lengths, counts, means, _ = zip(*fields, strict=True)
    fields.append((np.sum(lengths, axis=0), np.sum(counts, axis=0), sum(means), 0.0))
    text = out[:, : len(STATISTICS) * len(FIELDS)]
    for place, (length, count, mean_length, shift) in enumerate(fields):
        field_idf = (idf + shift) * present
        inverse_norm = 1 / np.sqrt((field_idf**2).sum(axis=0))
        terms = _QueryTerms(row_present, number, field_idf[:, world.query], inverse_norm[world.query], collection)
        _write_field(count, length, mean_length, terms, text[:, place :: len(FIELDS)])
    _write_document(world, random, out[:, len(STATISTICS) * len(FIELDS) :])


def _draw_terms(world: HiddenWorld, random: np.random.Generator) -> tuple[Values, Values]:
    """Which of MOST_TERMS terms each query has, and how rare they are: both (terms, queries)."""
    queries = len(world.sizes)
    number = 1 + np.searchsorted(np.cumsum(TERMS_SHARES)[:-1], random.random(queries))
    present = (np.arange(MOST_TERMS)[:, None] < number).astype(np.float32)
    idf = 0.5 + random.standard_gamma(2.0, (MOST_TERMS, queries), dtype=np.float32) * 1.3
    idf += world.intent  # names are rare words
    return present, idf


def _draw_field(
    field: _Field, world: HiddenWorld, present: Values, idf: Values, random: np.random.Generator
) -> tuple[Values, Values]:
    """Length of the field (rows,) and counts of the query terms in it (terms, rows)."""
    rows = len(world.match)
    spread, filled = random.standard_normal(rows, dtype=np.float32), random.random(rows, dtype=np.float32)
    length = np.rint(np.exp(field.length + field.length_spread * spread))
    length = np.where(filled < field.filled, np.maximum(length, 1), 0)
    level = (
        field.level
        + field.per_match * world.match
        + field.per_site * world.site
        + field.per_authority * world.authority
        + field.per_length * spread
    )
    logarithm = random.standard_normal(present.shape, dtype=np.float32)
    logarithm *= field.count_spread
    logarithm += level
    logarithm -= 0.15 * (idf - 3)
    counts = np.floor(np.exp(np.minimum(logarithm, 8))) * present
    return length, np.minimum(counts, np.ceil(length / present.sum(axis=0)))  # the field's words are shared out


def _write_field(counts: Values, length: Values, mean_length: float, terms: _QueryTerms, out: Values) -> None:
    """Write the 25 statistics of a field, in the order of STATISTICS.

    The language models have absolute discounting, Dirichlet and Jelinek-Mercer smoothing.
    """
    share = 1 / np.maximum(length, 1)
    covered = (counts > 0).sum(axis=0, dtype=np.float32)
    out[:, 0] = covered
    out[:, 1] = covered / terms.number
    out[:, 2] = length
    out[:, 3] = terms.idf.sum(axis=0)
    frequency = _summaries(counts, terms)
    for place, values in enumerate(frequency):
        out[:, 4 + place] = values
        out[:, 9 + place] = values * (share if place < 4 else share**2)
    weighted = counts * terms.idf
    for place, values in enumerate(_summaries(weighted, terms)):
        out[:, 14 + place] = values
    out[:, 19] = covered == terms.number
    norm = np.sqrt((weighted**2).sum(axis=0))
    out[:, 20] = (weighted * terms.idf).sum(axis=0) * terms.inverse_norm / np.maximum(norm, 1e-6)
    damping = 0.3 + (0.9 / mean_length) * length  # BM25 with k1 = 1.2, b = 0.75
    out[:, 21] = (2.2 * weighted / (counts + damping)).sum(axis=0)
    absolute = (
        np.maximum(counts - DISCOUNT, 0) * share + np.maximum(DISCOUNT * (covered + 1) * share, 0.05) * terms.collection
    )
    dirichlet = (counts + PSEUDO_COUNT * terms.collection) / (length + PSEUDO_COUNT)
    jelinek = ((1 - COLLECTION_WEIGHT) * share) * counts + COLLECTION_WEIGHT * terms.collection
    for place, probability in enumerate((absolute, dirichlet, jelinek), start=22):
        out[:, place] = (np.log(probability) * terms.present).sum(axis=0)


def _summaries(values: Values, terms: _QueryTerms) -> tuple[Values, Values, Values, Values, Values]:
    """Sum, min, max, mean and variance over the terms of the query."""
    total = values.sum(axis=0)
    mean = total / terms.number
    variance = np.maximum((values**2).sum(axis=0) / terms.number - mean**2, 0)
    smallest = np.where(terms.present > 0, values, np.float32(np.inf)).min(axis=0)
    return total, smallest, values.max(axis=0), mean, variance


def _write_document(world: HiddenWorld, random: np.random.Generator, out: Values) -> None:
    """Write the 11 features that do not come from text."""
    noise = random.standard_normal((len(DOCUMENT_FEATURES), len(world.match)), dtype=np.float32)
    site = world.site + 0.5 * world.authority
    interest = 0.6 * world.match + world.authority
    out[:, 0] = _count(0.95 - 0.15 * site + 0.4 * noise[0], least=1)
    out[:, 1] = _count(3.68 - 0.1 * site + 0.42 * noise[1], least=6)
    out[:, 2] = _count(1.6 + 2.6 * world.authority + 2.6 * noise[2])
    out[:, 3] = _count(0.2 + 1.7 * noise[3] + 0.3 * world.freshness)
    out[:, 4] = np.rint(65535 / (1 + np.exp(1.6 - 1.9 * world.authority - 0.9 * noise[4])))
    out[:, 5] = np.rint(65535 / (1 + np.exp(-0.3 - 1.2 * world.site - 0.6 * world.authority - 0.7 * noise[5])))
    out[:, 6] = np.minimum(_count(1.5 - 0.9 * world.quality + 0.9 * noise[6], least=1), 254)
    out[:, 7] = np.minimum(_count(1.7 - 0.7 * world.quality + noise[7], least=1), 254)
    out[:, 8] = _count(-8.0 + 2.4 * interest + 2.0 * world.site + 2.6 * noise[8])
    out[:, 9] = _count(-2.6 + 2.2 * interest + 1.2 * world.freshness + 2.6 * noise[9])
    visited = interest + world.freshness + 1.2 * noise[9]
    out[:, 10] = np.where(visited > 1.3, np.exp(np.minimum(2.5 + 0.8 * world.quality + 1.3 * noise[10], 7)), 0)


def _count(logarithm: Values, least: float = 0) -> Values:
    """A whole number with heavy tails."""
    result: Values = np.maximum(np.floor(np.exp(np.minimum(logarithm, np.log(np.float32(LARGEST_COUNT))))), least)
    return result


WEB10K_LIKE = Kind(
    name="web10k-like",
    feature_names=_FEATURE_NAMES,
    documents_per_query=120.0,  # 1,200,193 rows of 10,000 queries
    documents_spread=0.57,
    most_documents=908,
    thresholds=(-0.110, 1.586, 3.075, 3.801),
    write_features=write_features,
)
