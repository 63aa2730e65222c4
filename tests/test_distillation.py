"""Distillation: trees that rank as their teachers do, and say how faithfully."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank import distillation
from cldrank.data.query_hash import hashes_of
from cldrank.errors import DataError, UsageError
from cldrank.rankers import LinearRanker, Ranker
from cldrank.rankers.card import model_card
from cldrank.scaling import fit as fit_scaling

SMALL = cr.Trees(rounds=40, learning_rate=0.3, min_weight=0, l2=0, column_share=1)
RANDOM = np.random.default_rng(0)
DATA = cr.RankingDataset.from_arrays(RANDOM.normal(size=(600, 2)), np.arange(600) // 6, feature_names=["a", "b"])


def linear(*coefficients: float, trained_on: Any = None) -> LinearRanker:
    scaling = fit_scaling(None, np.ones((1, 2)))
    hashes = None if trained_on is None else np.unique(hashes_of(trained_on))
    return LinearRanker(
        feature_names=("a", "b"), scaling=scaling, coefficients=np.array(coefficients, dtype=float), trained_on=hashes
    )


def distilled(*teachers: Ranker, data: cr.RankingDataset = DATA, **model: Any) -> Any:
    return cr.distil(teachers, data, model=cr.Trees(**{**SMALL.get_params(), **model}))


def test_trees_rank_as_their_teacher_without_labels_or_clicks() -> None:
    teacher = linear(3, -1)
    student = distilled(teacher)
    record = student.provenance.distilled
    assert record.queries == 10 == student.provenance.diagnostics.held_queries
    assert record.held_out
    assert min(record.rank_correlation, record.top_in_common, record.ndcg) > 0.9
    fresh = cr.RankingDataset.from_arrays(RANDOM.normal(size=(200, 2)), np.arange(200) // 20, feature_names=["a", "b"])
    assert np.corrcoef(student.predict(fresh), teacher.predict(fresh))[0, 1] > 0.95


def test_fidelity_is_spearmans_correlation_and_what_the_first_three_share() -> None:
    data = DATA[:2]
    teacher = np.array([6.0, 5, 4, 3, 2, 1] * 2)
    student = np.array([6.0, 5, 4, 3, 2, 1, 4, 5, 1, 3, 2, 6])
    record = distillation._fidelity(teacher, student, data)
    gaps = np.array([2, 0, 3, 0, 0, 5])  # of ranks, in the second query
    assert record.rank_correlation == pytest.approx((1 + 1 - 6 * (gaps**2).sum() / (6 * 35)) / 2)
    assert record.top_in_common == pytest.approx((1 + 2 / 3) / 2)
    best, own = 7 + 3 / np.log2(3) + 1 / 2, 0 + 3 / np.log2(3) + 7 / 2
    assert record.ndcg == pytest.approx((1 + own / best) / 2)


def test_rankers_of_an_ensemble_count_alike_whatever_their_scale() -> None:
    teachers = [linear(1, 0), linear(0, 1000)]
    student = distilled(*teachers)
    scores = student.predict(DATA)
    corr = [float(np.corrcoef(scores, DATA.features[:, at])[0, 1]) for at in (0, 1)]
    assert corr == pytest.approx([0.7, 0.7], abs=0.05)
    assert len(student.provenance.distilled.teachers) == 2


def test_clicks_never_judge_on_queries_of_any_teacher() -> None:
    ids = DATA.query_ids
    known = distilled(linear(1, 0, trained_on=ids[:10]), linear(0, 1, trained_on=ids[5:20]))
    np.testing.assert_array_equal(known.saw(ids), np.arange(len(ids)) < 20)
    assert distilled(linear(1, 0, trained_on=ids[:10]), linear(0, 1)).trained_on is None


def test_the_card_names_the_teachers() -> None:
    card = model_card(distilled(linear(1, 2)))
    assert "fidelity on 10 queries held out: rank correlation" in card
    assert "Fitted to a LinearRanker " in card
    assert "has their limits" in card


def test_the_round_of_the_least_held_out_error_is_kept() -> None:
    few = DATA[:20]
    student = distilled(linear(3, -1), data=few, validation=0.5, patience=5, rounds=500)
    fit = student.provenance.diagnostics
    assert fit.status == "early_stopped"
    assert fit.kept == len(student.trees) == fit.steps - 5
    assert fit.concordance is None
    assert fit.held_loss > fit.loss


def test_weights_of_queries_count() -> None:
    """A single leaf is the weighted mean of the scores."""
    heavy = DATA.weighted(dict.fromkeys(DATA.query_ids[:50], 9.0))
    plain, weighted = (
        distilled(linear(1, 0), data=data, leaves=2, rounds=1, learning_rate=1, validation=0).predict(data)
        for data in (DATA, heavy)
    )
    target, weight = distillation.teacher_scores([linear(1, 0)], DATA), np.repeat([9.0, 1.0], 300)
    assert np.average((weighted - target) ** 2, weights=weight) < np.average((plain - target) ** 2, weights=weight)


@pytest.mark.parametrize(
    ("teachers", "kind", "message"),
    [
        ([], UsageError, "one or more rankers"),
        ([np.ones(3)], UsageError, "one or more rankers"),
        ([linear(0, 0)], DataError, "alike"),
    ],
)
def test_teachers_that_cannot_teach_are_refused(teachers: list[Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        cr.distil(teachers, DATA, model=SMALL)


def test_other_models_are_refused() -> None:
    other: Any = cr.Linear()
    with pytest.raises(UsageError, match="it fits Trees"):
        cr.distil(linear(1, 2), DATA, model=other)


def test_resumed_it_ends_as_if_never_interrupted(tmp_path: Any) -> None:
    file = tmp_path / "state"
    teacher = linear(2, 1)

    def content(rounds: int, **run: Any) -> bytes:
        model = cr.Trees(**{**SMALL.get_params(), "rounds": rounds})
        ranker: Any = cr.distil(teacher, DATA, model=model, run=cr.Run(**run))
        written: bytes = ranker.content
        return written

    content(5, checkpoint=file)
    assert content(12, checkpoint=file, resume=True) == content(12)
    teacher = linear(1, 2)
    with pytest.raises(UsageError, match="belongs to a training with other"):
        content(12, checkpoint=file, resume=True)
