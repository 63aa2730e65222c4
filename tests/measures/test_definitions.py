"""Values by hand, equality with peers, and the contracts that every measure keeps."""

from __future__ import annotations

import itertools
from math import log2
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from cldrank import measures, segments
from cldrank.errors import DataError

EVERY = measures.parse_all(
    "nDCG@1 nDCG@3 nDCG nDCG(gain=linear)@3 DCG@3 DCG DCG(gain=linear) AP AP(rel=2) AP@3 RR RR(rel=2) RR@2 "
    "P@1 P@5 P(rel=2)@3 ERR@3 ERR ERR(max=4)"
)
EACH = pytest.mark.parametrize("measure", EVERY, ids=str)
WITHIN_ONE = [measure for measure in EVERY if measure.name != "DCG"]

GRADES = st.integers(0, 4)
Queries = list[tuple[list[int], list[int]]]  # for each query, its labels and its scores


@st.composite
def rankings(draw: st.DrawFn, grades: st.SearchStrategy[int] = GRADES) -> Queries:
    """Some queries with labels and distinct scores."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    return [
        (draw(st.lists(grades, min_size=size, max_size=size)), draw(st.permutations(range(-3, size - 3))))
        for size in sizes
    ]


def arrays(queries: Queries) -> tuple[Any, Any, Any]:
    """Scores, labels and offsets."""
    scores = np.array([score for _, row in queries for score in row], dtype=np.float64)
    labels = np.array([label for row, _ in queries for label in row], dtype=np.float64)
    return scores, labels, segments.from_lengths(np.array([len(row) for row, _ in queries], dtype=np.int64))


# -- by hand -----------------------------------------------------------------------------------------------------

BY_HAND = {
    "DCG": 1 / log2(3) + 7 / 2 + 3 / log2(5),
    "DCG@3": 1 / log2(3) + 7 / 2,
    "DCG(gain=linear)@3": 1 / log2(3) + 3 / 2,
    "nDCG@1": 0,
    "nDCG@3": (1 / log2(3) + 7 / 2) / (7 + 3 / log2(3) + 1 / 2),
    "nDCG": (1 / log2(3) + 7 / 2 + 3 / log2(5)) / (7 + 3 / log2(3) + 1 / 2),
    "nDCG(gain=linear)": (1 / log2(3) + 3 / 2 + 2 / log2(5)) / (3 + 2 / log2(3) + 1 / 2),
    "AP": (1 / 2 + 2 / 3 + 3 / 4) / 3,
    "AP(rel=2)": (1 / 3 + 2 / 4) / 2,
    "AP@3": (1 / 2 + 2 / 3) / 3,
    "RR": 1 / 2,
    "RR(rel=3)": 1 / 3,
    "RR(rel=3)@2": 0,
    "P@1": 0,
    "P@5": 3 / 5,
    "P@10": 3 / 10,
    "P(rel=2)@5": 2 / 5,
    "ERR": 1 / 8 / 2 + 7 / 8 * 7 / 8 / 3 + 7 / 8 * 1 / 8 * 3 / 8 / 4,
    "ERR@2": 1 / 8 / 2,
    "ERR(max=4)": 1 / 16 / 2 + 15 / 16 * 7 / 16 / 3 + 15 / 16 * 9 / 16 * 3 / 16 / 4,
}


@pytest.mark.parametrize(("text", "expected"), BY_HAND.items())
def test_value_by_hand(text: str, expected: float) -> None:
    ranked = [0, 1, 3, 2, -1]
    assert measures.parse(text)([5, 4, 3, 2, 1], ranked, [0, 5]) == pytest.approx([expected], abs=1e-15)
    assert measures.parse(text)([3, 1, 5, 2, 4], [3, -1, 0, 2, 1], [0, 5]) == pytest.approx([expected], abs=1e-15)


def test_published_example_of_ndcg() -> None:
    """The grades 3, 2, 3, 0, 1, 2 of Wikipedia's "Discounted cumulative gain", against the best order of these six."""
    dcg = measures.parse("DCG(gain=linear)@6")([6, 5, 4, 3, 2, 1], [3, 2, 3, 0, 1, 2], [0, 6])
    ndcg = measures.parse("nDCG(gain=linear)@6")([6, 5, 4, 3, 2, 1], [3, 2, 3, 0, 1, 2], [0, 6])
    assert dcg == pytest.approx([6.861], abs=5e-4)
    assert ndcg == pytest.approx([0.961], abs=5e-4)


# -- peers -------------------------------------------------------------------------------------------------------


def trec_form(queries: Queries, gains: bool) -> tuple[Any, Any]:
    """Judgements and runs as trec_eval takes them; its gains are the labels themselves."""
    judged = {
        str(i): {str(j): 2**label - 1 if gains else label for j, label in enumerate(labels)}
        for i, (labels, _) in enumerate(queries)
    }
    run = {str(i): {str(j): float(score) for j, score in enumerate(scores)} for i, (_, scores) in enumerate(queries)}
    return judged, run


@settings(max_examples=60, deadline=None)
@given(queries=rankings())
def test_equal_to_pytrec_eval(queries: Queries) -> None:
    ours = {
        "map": "AP",
        "recip_rank": "RR",
        "P_1": "P@1",
        "P_5": "P@5",
        "P_20": "P@20",
        "map_cut_5": "AP@5",
        "ndcg": "nDCG(gain=linear)",
        "ndcg_cut_5": "nDCG(gain=linear)@5",
    }
    judged, run = trec_form(queries, gains=False)
    theirs = pytrec_eval.RelevanceEvaluator(
        judged, {"map", "recip_rank", "P.1,5,20", "map_cut.5", "ndcg", "ndcg_cut.5"}
    )
    check(queries, ours, theirs.evaluate(run))
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"map", "recip_rank", "P.5"}, relevance_level=2)
    check(queries, {"map": "AP(rel=2)", "recip_rank": "RR(rel=2)", "P_5": "P(rel=2)@5"}, theirs.evaluate(run))
    judged, run = trec_form(queries, gains=True)
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg", "ndcg_cut.5,10"})
    check(queries, {"ndcg": "nDCG", "ndcg_cut_5": "nDCG@5", "ndcg_cut_10": "nDCG@10"}, theirs.evaluate(run))


def check(queries: Queries, names: dict[str, str], theirs: dict[str, dict[str, float]]) -> None:
    for their_name, our_name in names.items():
        expected = [theirs[str(i)][their_name] for i in range(len(queries))]
        assert measures.parse(our_name)(*arrays(queries)) == pytest.approx(expected, abs=1e-9), our_name


@settings(max_examples=20, deadline=None)
@given(queries=rankings())
def test_equal_to_ir_measures_under_the_same_names(queries: Queries) -> None:
    names = ["AP", "AP(rel=2)", "AP@3", "RR", "RR@10", "P@5", "P(rel=2)@5"]
    judged, run = trec_form(queries, gains=False)
    values = measures.compute(names, *arrays(queries))
    for found in ir_measures.iter_calc([ir_measures.parse_measure(name) for name in names], judged, run):
        ours = values[measures.parse(str(found.measure))][int(found.query_id)]
        assert ours == pytest.approx(found.value, abs=1e-9), found.measure


@settings(max_examples=40, deadline=None)
@given(queries=rankings(), cutoff=st.none() | st.integers(1, 14))
def test_equal_to_scikit_learn(queries: Queries, cutoff: int | None) -> None:
    linear = measures.NDCG(cutoff, "linear")(*arrays(queries))
    exponential = measures.NDCG(cutoff)(*arrays(queries))
    for i, (labels, scores) in enumerate(queries):
        if len(labels) > 1:  # scikit-learn refuses lists of one
            assert linear[i] == pytest.approx(ndcg_score([labels], [scores], k=cutoff), abs=1e-9)
            gains = 2 ** np.array(labels) - 1
            assert exponential[i] == pytest.approx(ndcg_score([gains], [scores], k=cutoff), abs=1e-9)


def err_by_the_paper(labels: list[int], scores: list[int], max_grade: int, cutoff: int) -> float:
    """Algorithm 2 of Chapelle, Metzler, Zhang, Grinspan: Expected Reciprocal Rank for Graded Relevance (CIKM 2009)."""
    chance_to_come_here, err = 1.0, 0.0
    ranked = [label for _, label in sorted(zip(scores, labels, strict=True), reverse=True)]
    for rank, grade in enumerate(ranked[:cutoff], start=1):
        satisfied = (2**grade - 1) / 2**max_grade
        err += chance_to_come_here * satisfied / rank
        chance_to_come_here *= 1 - satisfied
    return err


@settings(max_examples=60, deadline=None)
@given(queries=rankings(), cutoff=st.integers(1, 14))
def test_err_equals_the_algorithm_of_its_paper(queries: Queries, cutoff: int) -> None:
    expected = [err_by_the_paper(labels, scores, 4, cutoff) for labels, scores in queries]
    assert measures.ERR(cutoff, max=4)(*arrays(queries)) == pytest.approx(expected, abs=1e-12)
    highest = max(label for labels, _ in queries for label in labels)
    expected = [err_by_the_paper(labels, scores, highest, 99) for labels, scores in queries]
    assert measures.ERR()(*arrays(queries)) == pytest.approx(expected, abs=1e-12)


def test_err_of_a_long_list_of_relevant_documents() -> None:
    labels = [4, 3, 4] * 500
    scores = list(range(1500, 0, -1))
    values = measures.ERR()(scores * 2, labels * 2, [0, 1500, 3000])
    assert values == pytest.approx([err_by_the_paper(labels, scores, 4, 1500)] * 2, abs=1e-12)


# -- contracts ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(queries=rankings(st.integers(-1, 4)))
def test_values_lie_between_zero_and_one(queries: Queries) -> None:
    for measure, values in measures.compute(WITHIN_ONE, *arrays(queries)).items():
        assert ((values >= 0) & (values <= 1 + 1e-12)).all(), measure


@settings(max_examples=60, deadline=None)
@given(queries=rankings())
def test_no_ranking_beats_the_perfect_one(queries: Queries) -> None:
    scores, labels, offsets = arrays(queries)
    given_order = measures.compute(EVERY, scores, labels, offsets, empty="skip")
    for measure, perfect in measures.compute(EVERY, labels, labels, offsets, empty="skip").items():
        known = ~np.isnan(perfect)
        assert ((perfect - given_order[measure])[known] >= -1e-12).all(), measure
        if measure.name in ("nDCG", "RR") or str(measure) in ("AP", "AP(rel=2)", "P@1"):
            assert perfect[known] == pytest.approx(1), measure


@pytest.mark.parametrize(
    "transform",
    [np.exp, np.arctan, lambda x: 3 * x - 7, lambda x: x**3],
    ids=["exponential", "arctangent", "linear", "cubic"],
)
@settings(max_examples=15, deadline=None)
@given(queries=rankings())
def test_only_the_order_of_scores_matters(transform: Any, queries: Queries) -> None:
    scores, labels, offsets = arrays(queries)
    moved = measures.compute(EVERY, transform(scores), labels, offsets)
    for measure, values in measures.compute(EVERY, scores, labels, offsets).items():
        np.testing.assert_array_equal(moved[measure], values, err_msg=str(measure))


@settings(max_examples=40, deadline=None)
@given(queries=rankings(), random=st.randoms())
def test_order_of_queries_and_rows_does_not_matter(queries: Queries, random: Any) -> None:
    places = list(range(len(queries)))
    random.shuffle(places)
    shuffled = []
    for place in places:
        rows = list(zip(*queries[place], strict=True))
        random.shuffle(rows)
        shuffled.append(([label for label, _ in rows], [score for _, score in rows]))
    moved = measures.compute(EVERY, *arrays(shuffled))
    for measure, values in measures.compute(EVERY, *arrays(queries)).items():
        np.testing.assert_allclose(moved[measure], values[places], rtol=0, atol=1e-12, err_msg=str(measure))


@EACH
def test_constant_scorer_earns_chance_on_rows_sorted_by_label(measure: measures.Measure) -> None:
    queries, labels = 6_000, [3, 2, 1, 0, 0]
    orders = np.array(list(itertools.permutations(labels)), dtype=np.float64)
    size = len(labels)
    every_order = measure(np.tile(-np.arange(size), len(orders)), orders.ravel(), np.arange(0, orders.size + 1, size))
    values = measure(np.ones(queries * size), np.tile(labels, queries), np.arange(0, queries * size + 1, size))
    assert abs(values.mean() - every_order.mean()) < 3.5 * every_order.std() / np.sqrt(queries) + 1e-12


@EACH
@pytest.mark.parametrize("labels", [[0, 0, 2, 0], [-1, 0, 2, -2]], ids=["zero", "negative"])
def test_queries_without_a_relevant_document(measure: measures.Measure, labels: list[int]) -> None:
    offsets = [0, 2, 4, 4]  # the last has no candidates at all
    counted = measure([2, 1, 2, 1], labels, offsets)
    skipped = measure([2, 1, 2, 1], labels, offsets, empty="skip")
    assert np.isnan(skipped).tolist() == [True, False, True]
    assert counted[1] == skipped[1] > 0
    assert counted[[0, 2]].tolist() == [0, 0]


@EACH
def test_negative_labels_count_as_zero(measure: measures.Measure) -> None:
    scores, offsets = [5, 4, 3, 2, 1], [0, 5]
    expected = measure(scores, [0, 2, 0, 1, 0], offsets)
    assert measure(scores, [-1, 2, -2, 1, 0], offsets).tolist() == expected.tolist()


@EACH
def test_no_queries(measure: measures.Measure) -> None:
    assert measure([], [], [0]).shape == (0,)


# -- what cannot be measured -------------------------------------------------------------------------------------


def test_err_refuses_labels_above_its_highest_grade() -> None:
    with pytest.raises(DataError, match=r"a label is 5, above the highest grade of ERR\(max=4\)@10; raise its max"):
        measures.parse("ERR(max=4)@10")([1, 2], [5, 0], [0, 2])


@pytest.mark.parametrize("text", ["nDCG", "ERR", "ERR(max=5000)"])
def test_grades_whose_gain_overflows_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"the largest grade is 5000.*use gain=linear"):
        measures.parse(text)([1, 2], [5000, 0], [0, 2])
    assert measures.parse("nDCG(gain=linear)")([2, 1], [5000, 0], [0, 2]).tolist() == [1]
