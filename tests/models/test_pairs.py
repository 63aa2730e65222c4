"""Pairs of whole queries: their loss and its derivatives, against torch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scenes import scene
from torch.nn.functional import logsigmoid

from cldrank import losses, segments
from cldrank.errors import DataError
from cldrank.methods.observing import observe
from cldrank.models.pairs import PairLoss, PairTable
from cldrank.models.targets import Observations, Targets, Unshown

GIVEN = scene(3, queries=25)
OBSERVED = observe(*GIVEN)
RANDOM = np.random.default_rng(0)


def every(table: PairTable) -> NDArray[np.int64]:
    return np.arange(len(table))


def plain_loss(f: Any, omega: Any, f_u: Any, omega_u: Any, preference: Any, mixed: Any, c: float) -> Any:
    """The loss of CLD-pair as the paper writes it, which torch can differentiate twice."""
    ahead, beyond = f[:, :, None] - f[:, None, :], f[:, :, None] - f_u[:, None, :]
    chosen = logsigmoid(omega[:, :, None] + ahead) + logsigmoid(omega[:, None, :] + ahead)
    both = preference * (logsigmoid(ahead) + c * chosen)
    across = logsigmoid(omega[:, :, None] + beyond) + logsigmoid(-omega_u)[:, None, :]
    return -both.sum((1, 2)) - c * (mixed * across).sum((1, 2))


def by_torch(
    observed: Observations, scores: NDArray[Any], share: float, ratio: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Loss, gradient and diagonal of the Hessian over the dataset's rows, and all preference: one query at a time.

    The loss is that of ω = 0, without log σ(-ω) = -log 2 of what was not shown.
    """
    f = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    omega = torch.zeros_like(f)
    mean, weight = observed.by_row()
    target, weights = np.zeros(len(observed.rows)), np.zeros(len(observed.rows))
    target[observed.shown], weights[observed.shown] = mean, weight
    total = torch.zeros((), dtype=torch.float64)
    whole = 0.0
    for query in np.unique(observed.queries):
        inside = observed.queries == query
        shown, unshown = (observed.rows[inside & (weights > 0 if flag else weights == 0)] for flag in (True, False))
        own = [torch.tensor(one[inside & (weights > 0)])[None] for one in (target, weights)]
        preference = losses.preferences(*own)
        each = ratio * float(preference.sum()) / max(len(shown) * len(unshown), 1)
        mixed = torch.full((1, len(shown), len(unshown)), each, dtype=torch.float64)
        scored = [(f[rows][None], omega[rows][None]) for rows in (shown, unshown)]
        total = (
            total + plain_loss(*scored[0], *scored[1], preference, mixed, share).sum() - share * mixed.sum() * np.log(2)
        )
        whole += float(preference.sum())
    (gradient,) = torch.autograd.grad(total, f, create_graph=True)
    curve = torch.stack([torch.autograd.grad(one, f, retain_graph=True)[0][at] for at, one in enumerate(gradient)])
    return total.detach(), gradient.detach(), curve, whole


@pytest.mark.parametrize(("share", "ratio", "spread"), [(0.0, 0.0, 8.0), (0.05, 1.0, 0.5), (1.0, 2.5, 8.0)])
def test_derivatives_are_those_of_the_loss_in_torch(share: float, ratio: float, spread: float) -> None:
    rows = GIVEN.data.n_rows
    scores = (spread * RANDOM.normal(size=rows)).astype(np.float32)
    loss, gradient, curve, whole = by_torch(OBSERVED, scores, share, ratio)
    whole *= 1 + 2 * share
    table = PairTable.of_observations(OBSERVED, Unshown(None, share, ratio))
    scale = float(table.totals().sum()) / whole
    found = PairLoss(table, every(table), 1).at(scores[table.rows])
    assert found.loss == pytest.approx(float(loss) / whole, rel=1e-9)
    np.testing.assert_allclose(found.gradient, scale * gradient.numpy()[table.rows], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(found.hessian, scale * curve.numpy()[table.rows], rtol=2e-5, atol=1e-6)
    left_out = np.setdiff1d(np.arange(rows), table.rows)
    assert not gradient.numpy()[left_out].any()  # what the table leaves out teaches nothing


def test_an_unshown_candidate_counts_as_irrelevant() -> None:
    weight = 0.4
    table = PairTable.of_observations(OBSERVED, Unshown(weight))
    mean, seen = OBSERVED.by_row()
    target, weights = np.zeros(len(OBSERVED.rows)), np.zeros(len(OBSERVED.rows))
    target[OBSERVED.shown], weights[OBSERVED.shown] = mean, seen
    for query in np.unique(OBSERVED.queries):
        inside = OBSERVED.queries == query
        unshown = inside & (OBSERVED.absent > 0)
        n_shown = inside[OBSERVED.shown].sum()
        weights[unshown] = weight * OBSERVED.pages[query] * n_shown / max(unshown.sum(), 1)  # type: ignore[index]
    expected = PairTable.of_targets(Targets(OBSERVED.rows, target, weights, OBSERVED.queries))
    for name in ("rows", "order", "follows", "target", "weight", "mixed"):
        np.testing.assert_allclose(getattr(table, name), getattr(expected, name))
    assert table.ends.tolist() == table.offsets[1:].tolist()


@pytest.mark.parametrize("form", ["top", "softmax"])
def test_other_losses_have_the_derivatives_that_torch_finds(form: Any) -> None:
    table = PairTable.of_observations(OBSERVED, Unshown(0.3))
    scores = RANDOM.normal(size=len(table.rows)).astype(np.float32)
    slopes = PairLoss(table, every(table), 1, form).at(scores)
    f = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    total = torch.zeros((), dtype=torch.float64)
    for start, stop in zip(table.offsets[:-1], table.offsets[1:], strict=True):
        own = torch.from_numpy(table.order[start:stop])
        target, weight = (torch.from_numpy(given[start:stop])[None] for given in (table.target, table.weight))
        if form == "softmax":
            total = total + losses.softmax(f[own][None], target, weight).sum()
        else:
            preference = losses.preferences(target, weight) * losses.exchanges(f[own][None].detach(), weight * 0 + 1)
            total = total + losses.pairwise(f[own][None], preference).sum()
    (gradient,) = torch.autograd.grad(total, f, create_graph=True)
    curve = torch.stack([torch.autograd.grad(part, f, retain_graph=True)[0][at] for at, part in enumerate(gradient)])
    scale = float(slopes.gradient @ gradient.detach().numpy() / (gradient.detach().numpy() ** 2).sum())
    np.testing.assert_allclose(slopes.gradient, scale * gradient.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slopes.hessian, scale * curve.detach().numpy(), rtol=1e-4, atol=1e-5)
    level = PairLoss(table, every(table), 1, form).at(np.zeros(len(scores), dtype=np.float32))
    assert 0.2 < level.hessian.mean() < 5  # about 1 for a candidate, so that `min_weight` means the same


def test_scores_far_apart_do_not_overflow() -> None:
    table = PairTable.of_observations(OBSERVED, Unshown(None, 0.05, 1.0))
    scores = (200 * RANDOM.normal(size=len(table.rows))).astype(np.float32)
    found = PairLoss(table, every(table), 1).at(scores)
    assert np.isfinite(found.loss)
    assert np.isfinite(found.gradient).all()
    assert (found.hessian >= 0).all()


def test_a_shown_candidate_weighs_about_1() -> None:
    table = PairTable.of_targets(OBSERVED.shown_rows())
    found = PairLoss(table, every(table), 1).at(np.zeros(len(table.rows), dtype=np.float32))
    assert found.hessian.mean() == pytest.approx(1.0)
    assert found.loss == pytest.approx(np.log(2))


def test_targets_are_pairs_without_selection() -> None:
    targets = PairTable.of_targets(OBSERVED.shown_rows())
    pairs = PairTable.of_observations(OBSERVED, Unshown(None, 0.0, 1.0))
    scores = RANDOM.normal(size=GIVEN.data.n_rows).astype(np.float32)
    one = PairLoss(targets, every(targets), 1).at(scores[targets.rows])
    other = PairLoss(pairs, every(pairs), 1).at(scores[pairs.rows])
    assert one.loss == pytest.approx(other.loss)
    np.testing.assert_allclose(one.gradient, other.gradient[np.isin(pairs.rows, targets.rows)], rtol=1e-6)


def test_threads_change_nothing() -> None:
    table = PairTable.of_observations(OBSERVED, Unshown(None, 0.05, 1.0))
    scores = RANDOM.normal(size=len(table.rows)).astype(np.float32)
    found = [PairLoss(table, every(table), threads).at(scores) for threads in (1, 2, 7)]
    for other in found[1:]:
        np.testing.assert_array_equal(other.gradient, found[0].gradient)
        np.testing.assert_array_equal(other.hessian, found[0].hessian)
        assert other.loss == found[0].loss


def test_queries_held_out_have_no_slope_and_are_judged_by_their_preferences() -> None:
    table = PairTable.of_observations(OBSERVED, Unshown(None, 0.05, 1.0))
    scores = (np.arange(len(table.rows)) % 2).astype(np.float32)  # ties agree by half
    held = np.array([1, 4, 5])
    slopes = PairLoss(table, np.setdiff1d(every(table), held), 1, held=held).at(scores)
    owner = np.searchsorted(table.offsets, np.arange(len(table.rows)), side="right") - 1  # places are rows here
    assert not slopes.hessian[np.isin(owner, held)].any()
    assert slopes.hessian[~np.isin(owner, held)].all()
    loss = agreed = whole = 0.0
    for query in held:
        rows = table.rows[owner == query]
        inside = np.isin(OBSERVED.rows[OBSERVED.shown], rows)
        mean, weight = OBSERVED.by_row()
        own = torch.tensor(scores[np.searchsorted(table.rows, OBSERVED.rows[OBSERVED.shown][inside])]).double()[None]
        preference = losses.preferences(*(torch.tensor(one[inside])[None] for one in (mean, weight)))
        loss += float(losses.pairwise(own, preference))
        agreed += float(losses.concordance(own, preference)[0])
        whole += float(preference.sum())
    assert (slopes.held_loss, slopes.agreed) == pytest.approx((loss / whole, agreed / whole))


def test_queries_without_a_preference_are_left_out() -> None:
    rows = np.arange(7)
    queries = np.array([3, 3, 5, 5, 6, 9, 9])
    target = np.array([0.5, 0.5, 0.1, 0.9, 1.0, 0.0, 0.2])
    table = PairTable.of_targets(Targets(rows, target, np.ones(7), queries))
    assert table.rows.tolist() == [2, 3, 5, 6]
    assert table.offsets.tolist() == [0, 2, 4]
    assert table.order.tolist() == [1, 0, 3, 2]
    nothing = PairTable.of_targets(Targets(rows[:2], target[:2], np.ones(2), queries[:2]))
    assert len(nothing) == 0


def test_ties_are_no_pairs() -> None:
    target = np.array([1.0, 2.0, 1.0, 2.0, 0.0])
    table = PairTable.of_targets(Targets(np.arange(5), target, np.ones(5), np.zeros(5, dtype=int)))
    assert table.order.tolist() == [1, 3, 0, 2, 4]
    assert table.follows.tolist() == [2, 2, 4, 4, 5]
    assert segments.sums_of_segments(table.weight, table.offsets)[0] > 0


def test_targets_too_large_to_add_up_are_refused() -> None:
    target = np.array([1e308, 0.0, 0.0])
    weights = np.full(3, 1e10)
    with pytest.raises(DataError, match="too large"):
        PairTable.of_targets(Targets(np.arange(3), target, weights, np.zeros(3, dtype=int)))
