import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_models import GIVEN, SMALL, scores, small_pair, stop_after

from cldrank.errors import CldrankError, ConvergenceWarning, DataError
from cldrank.methods import CLD, CLDPair, Naive
from cldrank.methods.evidence import needed
from cldrank.methods.observing import observe
from cldrank.models import MLP
from cldrank.models.network import loop
from cldrank.models.network.lists import observed_lists
from cldrank.models.network.network_fit import enough_memory, split

# -- chance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [small_pair(), CLD(model=replace(SMALL, epochs=2))], ids=["CLDPair", "CLD"])
def test_a_seed_gives_the_same_bits_and_another_gives_others(estimator: Any) -> None:
    given = GIVEN.data, *needed(estimator.needs, GIVEN.clicks, GIVEN.propensities)
    first = scores(estimator.fit(*given))
    torch.manual_seed(123)
    np.testing.assert_array_equal(scores(estimator.fit(*given)), first)
    assert (scores(estimator.set_params(run__seed=1).fit(*given)) != first).any()
    estimator.set_params(run__seed=0)


def test_the_user_s_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    before, numpy_before = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    small_pair().fit(*GIVEN)
    assert torch.equal(torch.get_rng_state(), before)
    assert repr(np.random.get_state()) == numpy_before  # noqa: NPY002


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("changes", [{}, {"resident": False}], ids=str)
def test_a_gpu_learns_what_the_cpu_learns(changes: Any) -> None:
    cpu, cuda = (
        small_pair(dropout=0.0, device=device, **own).fit(*GIVEN) for device, own in (("cpu", {}), ("cuda", changes))
    )
    assert np.corrcoef(scores(cpu), scores(cuda))[0, 1] > 0.99  # they draw other unshown candidates


def test_batches_of_an_epoch_are_shuffled_anew_and_hold_each_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, list[int]]] = []
    step = loop.Trainer._step

    def watched(self: loop.Trainer, group: int, chosen: torch.Tensor, features: Any) -> None:
        seen.append((group, chosen.tolist()))
        step(self, group, chosen, features)

    monkeypatch.setattr(loop.Trainer, "_step", watched)
    small_pair(epochs=2, batch_queries=7).fit(*GIVEN)
    assert len(seen) % 2 == 0
    epochs = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    held = [sorted((group, one) for group, chosen in epoch for one in chosen) for epoch in epochs]
    assert held[0] == held[1]
    assert len(set(held[0])) == len(held[0])
    assert epochs[0] != epochs[1]
    assert all(len(chosen) <= 7 for _, chosen in seen)


# -- learning ------------------------------------------------------------------------------------------------------


def test_weight_decay_shrinks_weights_and_leaves_biases() -> None:
    method = small_pair(l2=1000.0, learning_rate=1e-3, dropout=0.0, epochs=10, batch_queries=4, validation=0.0)
    _, arrays = method.fit(*GIVEN).ranker_.to_state()
    assert np.abs(arrays["0.weight"]).max() < 1e-6
    assert np.abs(arrays["0.bias"]).max() > 1e-3


def test_a_network_that_knows_nothing_loses_log_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses are divided by the preference there is, so -log σ(0) = log 2 is where all begin."""
    nothing: Any = torch.nn.Sequential(torch.nn.Linear(3, 1))
    torch.nn.init.zeros_(nothing[0].weight)
    monkeypatch.setattr(MLP, "build", lambda *_: nothing)
    fitted = Naive(model=MLP(epochs=1, learning_rate=1e-30)).fit(GIVEN.data, GIVEN.clicks)
    assert fitted.history_[0].loss == pytest.approx(math.log(2), rel=1e-5)


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [loop.schedule(MLP(warmup=0.1), step, 100) for step in range(100)]
    np.testing.assert_allclose(shares[:10], np.arange(1, 11) / 10)
    done = (np.arange(10, 100) + 1 - 10) / 90
    np.testing.assert_allclose(shares[10:], (1 + np.cos(np.pi * done)) / 2, atol=1e-12)
    rates = [epoch.learning_rate for epoch in small_pair(learning_rate=0.01).fit(*GIVEN).history_]
    assert all(0 <= rate <= 0.01 for rate in rates)
    assert rates[-1] == pytest.approx(0, abs=1e-12)


def test_a_gradient_is_no_longer_than_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []

    def watched(self: Any, *arguments: Any) -> Any:
        gradients = [part.grad for group in self.param_groups for part in group["params"] if part.grad is not None]
        norms.append(float(torch.cat([each.flatten() for each in gradients]).norm()))
        return step(self, *arguments)

    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    small_pair(clip_norm=0.01, epochs=2).fit(*GIVEN)
    assert max(norms) == pytest.approx(0.01, rel=1e-3)
    norms.clear()
    small_pair(clip_norm=None, epochs=2).fit(*GIVEN)
    assert max(norms) > 0.1


# -- choosing an epoch ---------------------------------------------------------------------------------------------


def test_an_epoch_is_kept_unless_it_is_worse_by_more_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = [[0.5] * 4, [0.8] * 4, [0.7, 0.9, 0.6, 0.9], [0.7] * 4]  # the third: worse by 0.025, give or take 0.075
    turns = iter(agreed)

    def agreement(run: loop.Trainer) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(next(turns), dtype=torch.float64), torch.ones(4, dtype=torch.float64)

    monkeypatch.setattr(loop.Trainer, "_agreement", agreement)
    fitted = small_pair().fit(*GIVEN)
    assert [epoch.number for epoch in fitted.history_] == [1, 2, 3, 4]
    assert [epoch.best for epoch in fitted.history_] == [True, True, True, False]
    assert [epoch.validation for epoch in fitted.history_] == pytest.approx([np.mean(own) for own in agreed])
    assert (fitted.best_epoch_, fitted.n_iter_) == (3, 4)
    turns = iter(agreed)
    with pytest.warns(ConvergenceWarning):
        shorter = small_pair(on_epoch=stop_after(3)).fit(*GIVEN)
    np.testing.assert_array_equal(scores(shorter), scores(fitted))  # the ranker is that of the epoch kept


def test_held_out_concordance_is_that_of_the_ranker() -> None:
    """From the definition: of the queries held out, the preference that the scores agree with."""
    fitted = small_pair(target="ips", validation=0.5, epochs=1).fit(*GIVEN)
    lists = observed_lists(observe(*GIVEN))
    assert isinstance(fitted.model, MLP)
    _, held, (n_learned, n_held) = split(fitted.model, lists, True, fitted._context(GIVEN.data))
    assert (fitted.n_queries_, fitted.n_held_) == (n_learned, n_held)
    assert n_held == len(lists.preferring()) // 2
    found, right, whole = scores(fitted), 0.0, 0.0
    for at in range(len(held)):
        own = range(held.offsets[at], held.offsets[at + 1])
        for i in own:
            for j in own:
                weight = max(held.target[i] - held.target[j], 0) * min(held.weight[i], held.weight[j])
                ahead = found[held.rows[i]] - found[held.rows[j]]
                right += weight * (1.0 if ahead > 0 else 0.5 if ahead == 0 else 0.0)
                whole += weight
    assert fitted.history_[0].validation == pytest.approx(right / whole, rel=1e-5)


def test_without_anything_held_out_the_last_epoch_is_kept() -> None:
    fitted = small_pair(validation=0.0).fit(*GIVEN)
    assert (fitted.status_, fitted.best_epoch_, fitted.n_held_) == ("completed", 4, 0)
    assert all(epoch.validation is None and epoch.best for epoch in fitted.history_)
    assert "held-out concordance" not in fitted.summary()


# -- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps_an_epoch", "kept"), [(1, 2), (3, 0)])
def test_numbers_lost_in_the_last_step_of_an_epoch_are_found(
    steps_an_epoch: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of that epoch is still a number; the network is not."""
    network, steps = torch.nn.Sequential(torch.nn.Linear(3, 1)), []

    def lose(layer: torch.nn.Module, _: Any, scores: torch.Tensor) -> None:
        steps.extend([1] * layer.training)
        if layer.training and len(steps) >= 3:
            scores.register_hook(lambda slope: slope * math.nan)

    network.register_forward_hook(lose)
    monkeypatch.setattr(MLP, "build", lambda *_: network)
    lists = 54
    batch = -(-lists // steps_an_epoch)
    small = {"target": "ips", "epochs": 4, "validation": 0.0, "batch_queries": batch, "clip_norm": None}
    lost = small_pair(**small)
    if not kept:
        with pytest.raises(DataError, match="not finite in its first epoch"):
            lost.fit(*GIVEN)
        return
    with pytest.warns(ConvergenceWarning, match="not finite after 2 epochs; the ranker is that of epoch 2"):
        lost.fit(*GIVEN)
    assert lost.best_epoch_ == kept
    assert np.isfinite(scores(lost)).all()


# -- cost ----------------------------------------------------------------------------------------------------------


def count_rows(monkeypatch: pytest.MonkeyPatch, width: int = 3) -> list[int]:
    """How many rows a linear network scores each time while it learns."""
    network, counted = torch.nn.Sequential(torch.nn.Linear(width, 1)), list[int]()
    network.register_forward_hook(lambda layer, rows, _: counted.extend([len(rows[0])] * layer.training))
    monkeypatch.setattr(MLP, "build", lambda *_: network)
    return counted


@pytest.mark.filterwarnings("ignore:the clicks refute")  # so many clicks can
@pytest.mark.parametrize("kind", [CLDPair, CLD])
def test_cost_follows_candidates_and_not_sessions_or_pairs(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = GIVEN.clicks, count_rows(monkeypatch)
    counted = []
    for times in (1, 1000):
        rows.clear()
        clicks = type(table)(
            table.candidates, table.row, table.position, times * table.impressions, times * table.clicks
        )
        kind(model=MLP(epochs=1, batch_queries=100, validation=0.0)).fit(GIVEN.data, clicks, GIVEN.propensities)
        counted.append(list(rows))
    assert counted[0] == counted[1]
    assert sum(counted[0]) <= GIVEN.data.n_rows  # of the shown, each once; of the others, one for each list
    assert len(counted[0]) <= 2  # one call per step


def test_memory_that_runs_out_while_training_is_told() -> None:
    def too_much() -> None:
        with enough_memory():
            torch.empty(1 << 50, dtype=torch.float64)

    with pytest.raises(CldrankError, match=r"not enough memory to train this network.*smaller layers"):
        too_much()
    with pytest.raises(RuntimeError, match="mine"), enough_memory():
        raise RuntimeError("mine")
