from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank.data import RankingDataset, synthetic
from cldrank.data.synthetic import web10k, yahoo
from cldrank.errors import UsageError

KINDS = list(synthetic.KINDS)
GRADE_SHARES = {"web10k-like": (0.52, 0.32, 0.13, 0.02, 0.01), "yahoo-like": (0.26, 0.36, 0.28, 0.08, 0.02)}
LARGE = {"web10k-like": 640, "yahoo-like": 2048}


@pytest.fixture(scope="module", params=KINDS)
def large(request: pytest.FixtureRequest) -> RankingDataset:
    return synthetic.make(request.param, LARGE[request.param], seed=11)


def assert_parts(blocks: list[RankingDataset], whole: RankingDataset) -> None:
    """The blocks are the queries of the whole set, one block after the other."""
    bounds = np.cumsum([0, *map(len, blocks)])
    assert bounds[-1] == len(whole)
    for block, start, stop in zip(blocks, bounds[:-1], bounds[1:], strict=True):
        assert_equal(block, whole[start:stop])


def assert_equal(first: RankingDataset, second: RankingDataset) -> None:
    for attribute in ("features", "offsets", "labels", "query_ids", "doc_ids"):
        np.testing.assert_array_equal(getattr(first, attribute), getattr(second, attribute))
    assert (first.feature_names, first.name, first.synthetic) == (second.feature_names, second.name, second.synthetic)


# -- the same queries, however they are asked for ------------------------------------------------------------------


@pytest.fixture(scope="module")
def yahoo_queries() -> RankingDataset:
    return synthetic.make("yahoo-like", 3 * synthetic.CHUNK, seed=3)


@pytest.mark.parametrize(("queries", "block"), [(1, 40), (64, 64), (100, 65), (192, 50)])
def test_a_smaller_set_in_any_blocks_is_the_beginning_of_a_larger_one(
    yahoo_queries: RankingDataset, queries: int, block: int
) -> None:
    blocks = list(synthetic.generate("yahoo-like", queries, seed=3, block_queries=block))
    assert [len(part) for part in blocks[:-1]] == [block] * (len(blocks) - 1)
    assert_parts(blocks, yahoo_queries[:queries])


def test_web10k_like_is_the_same_in_blocks() -> None:
    whole = synthetic.make("web10k-like", 100, seed=3)
    blocks = list(synthetic.generate("web10k-like", 90, seed=3, block_queries=40))
    assert_parts(blocks, whole[:90])


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_other_queries_of_the_same_features(kind: str) -> None:
    one, again, other = (synthetic.make(kind, 4, seed=seed) for seed in (1, 1, 2))
    assert_equal(one, again)
    assert one.feature_names == other.feature_names
    assert one.features.shape != other.features.shape or not np.array_equal(one.features, other.features)


# -- the published shapes ------------------------------------------------------------------------------------------


def test_the_shape_is_the_published_one(large: RankingDataset) -> None:
    kind = synthetic.KINDS[large.name]
    assert large.n_features == len(kind.feature_names) == {"web10k-like": 136, "yahoo-like": 519}[large.name]
    assert large.sizes.mean() == pytest.approx(kind.documents_per_query, rel=0.06)
    assert large.sizes.min() < 0.35 * large.sizes.mean()
    assert large.sizes.max() > 2.5 * large.sizes.mean()
    assert large.labels is not None
    shares = np.bincount(large.labels.astype(int), minlength=5) / large.n_rows
    np.testing.assert_allclose(shares, GRADE_SHARES[large.name], atol=0.015)
    np.testing.assert_allclose(shares, GRADE_SHARES[large.name], rtol=0.3)


def test_values_are_finite_float32_and_names_unique(large: RankingDataset) -> None:
    assert large.synthetic
    assert np.isfinite(large.features).all()
    assert len(set(large.feature_names)) == large.n_features
    assert (large.features.std(axis=0) > 0).all()
    assert large.doc_ids is not None
    assert len(np.unique(large.doc_ids)) == large.n_rows


def test_query_features_are_constant_within_queries_only(large: RankingDataset) -> None:
    prefix = {"web10k-like": "idf_", "yahoo-like": "query_"}[large.name]
    starts = large.features[large.offsets[:-1]][large.row_queries]
    varies = (large.features != starts).any(axis=0)
    assert set(np.array(large.feature_names)[~varies]) == {n for n in large.feature_names if n.startswith(prefix)}


def column(data: RankingDataset, name: str) -> NDArray[np.float64]:
    return data.features[:, data.feature_names.index(name)].astype(np.float64)


@pytest.fixture(scope="module")
def web() -> RankingDataset:
    return synthetic.make("web10k-like", 128, seed=5)


def test_web10k_like_text_statistics_agree_with_each_other(web: RankingDataset) -> None:
    for field in web10k.FIELDS:
        total, smallest, largest, mean = (
            column(web, f"{how}_of_term_frequency_{field}") for how in ("sum", "min", "max", "mean")
        )
        covered, ratio, length = (
            column(web, f"{name}_{field}")
            for name in ("covered_query_term_number", "covered_query_term_ratio", "stream_length")
        )
        assert (total == np.rint(total)).all()
        assert ((smallest <= mean + 1e-4) & (mean <= largest + 1e-4) & (largest <= total)).all()
        assert ((covered > 0) == (total > 0)).all()
        assert ((ratio == 1) == (smallest > 0)).all()
        assert ((column(web, f"boolean_model_{field}") == 1) == (smallest > 0)).all()
        np.testing.assert_allclose(
            column(web, f"sum_of_normalised_term_frequency_{field}"), total / np.maximum(length, 1), rtol=1e-5
        )
        assert column(web, f"vector_space_model_{field}").max() <= 1 + 1e-5
        assert (column(web, f"lmir_jm_{field}") < 0).mean() > 0.99
    parts = sum(column(web, f"sum_of_term_frequency_{field}") for field in web10k.FIELDS[:-1])
    np.testing.assert_array_equal(column(web, "sum_of_term_frequency_whole_document"), parts)


def test_web10k_like_bm25_by_hand(web: RankingDataset) -> None:
    one_term = column(web, "covered_query_term_ratio_body") == column(web, "covered_query_term_number_body")
    one_term &= column(web, "covered_query_term_number_body") == 1  # ratio 1 of one covered term: the only term
    count, idf = column(web, "sum_of_term_frequency_body")[one_term], column(web, "idf_body")[one_term]
    mean_length = 0.98 * np.exp(6.05 + 0.5)
    norm = 1.2 * (0.25 + 0.75 * column(web, "stream_length_body")[one_term] / mean_length)
    assert one_term.sum() > 100
    np.testing.assert_allclose(column(web, "bm25_body")[one_term], idf * 2.2 * count / (count + norm), rtol=1e-4)


def test_yahoo_like_values_lie_between_0_and_1_with_many_zeros_in_correlated_families(
    yahoo_queries: RankingDataset,
) -> None:
    features = yahoo_queries.features
    assert features.min() == 0
    assert features.max() <= 1
    assert 0.3 < (features == 0).mean() < 0.6
    family = np.array([name.rsplit("_", 1)[0] for name in yahoo_queries.feature_names])
    assert set(family) == set(yahoo.FAMILIES)
    correlation = np.abs(np.corrcoef(features.T))
    same = family[:, None] == family
    np.fill_diagonal(same, val=False)
    other = family[:, None] != family
    assert np.quantile(correlation[same], 0.9) > 0.5
    assert np.median(correlation[same]) > 3 * np.median(correlation[other])


# -- calls that make no sense --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("web30k-like", {}, "'web30k-like'"),
        ("yahoo-like", {"queries": 0}, "`queries`"),
        ("yahoo-like", {"seed": -1}, "`seed`"),
        ("yahoo-like", {"block_queries": 0}, "`block_queries`"),
    ],
)
def test_refuses(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        synthetic.generate(kind, **{"queries": 1, "seed": 0, **options})
