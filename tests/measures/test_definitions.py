"""Values by hand, equality with peers, and the contracts that every measure keeps."""

from __future__ import annotations

import itertools
from math import log2
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from cldrank import measures, segments
from cldrank.errors import DataError

EVERY = measures.parse_all(
    "nDCG@1 nDCG@3 nDCG nDCG(gain=linear)@3 DCG@3 DCG DCG(gain=linear) AP AP(rel=2) AP@3 RR RR(rel=2) RR@2 "
    "P@1 P@5 P(rel=2)@3 ERR@3 ERR ERR(max=4)"
)
EACH = pytest.mark.parametrize("measure", EVERY, ids=str)
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


# -- peers -------------------------------------------------------------------------------------------------------


def trec_form(queries: Queries, gains: bool) -> tuple[Any, Any]:
    """Judgements and runs as trec_eval takes them; its gains are the labels themselves."""
    judged = {
        str(i): {str(j): 2**label - 1 if gains else label for j, label in enumerate(labels)}
        for i, (labels, _) in enumerate(queries)
    }
    run = {str(i): {str(j): float(score) for j, score in enumerate(scores)} for i, (_, scores) in enumerate(queries)}
    return judged, run


@settings(max_examples=30, deadline=None)
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


# -- contracts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [np.arctan, lambda x: 3 * x - 7], ids=["arctangent", "linear"])
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


@pytest.mark.parametrize("text", ["nDCG", "ERR"])
def test_grades_whose_gain_overflows_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"the largest grade is 5000.*use gain=linear"):
        measures.parse(text)([1, 2], [5000, 0], [0, 2])
    assert measures.parse("nDCG(gain=linear)")([2, 1], [5000, 0], [0, 2]).tolist() == [1]
