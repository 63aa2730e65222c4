"""From targets to a trained network: lists, the split, the training loop, and the ranker that the network becomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.random import fork_rng

from cldrank import scaling as scalings
from cldrank.errors import CldrankError, ConvergenceWarning, DataError, warn
from cldrank.models.fit import Context, Fit, trained_fit
from cldrank.models.network.features import FeatureTable, raw_on_device
from cldrank.models.network.lists import Lists, in_table, observed_lists, target_lists
from cldrank.models.network.loop import train_network
from cldrank.models.network.training_tasks import Pairs, SelectedPairs, SelectedPoints, TrainingTask
from cldrank.rankers.devices import device_of
from cldrank.rankers.network_ranker import ranker_of
from cldrank.reading import reason
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.models.network.mlp import MLP
    from cldrank.models.targets import Observations, Targets, Unshown


def fit_targets(model: MLP, targets: Targets, context: Context) -> Fit:
    """Train on pairs within a query in the order of their targets."""
    return _trained(model, target_lists(targets), Pairs(_built(model, context), model.loss), context)


def fit_points(model: MLP, observed: Observations, context: Context, *, gamma: float, unshown_ratio: float) -> Fit:
    """Train on CLD's likelihood, row by row."""
    task = SelectedPoints(_built(model, context), context.data.n_features, gamma, unshown_ratio)
    return _trained(model, observed_lists(observed), task, context)


def fit_pairs(model: MLP, observed: Observations, context: Context, *, unshown: Unshown) -> Fit:
    """Train on CLD's pairs."""
    network = _built(model, context)
    if unshown.weight is None:
        task: TrainingTask = SelectedPairs(network, context.data.n_features, unshown.share, unshown.ratio)
    else:
        task = Pairs(network, model.loss, unshown.weight)
    return _trained(model, observed_lists(observed), task, context)


def _built(model: MLP, context: Context) -> torch.nn.Module:
    with enough_memory(), fork_rng(devices=[]):  # torch draws weights as it makes a layer, though others are put in
        return model.build(context.data.n_features, context.run.seed)


def _trained(model: MLP, lists: Lists, task: TrainingTask, context: Context) -> Fit:
    """Hold queries out, train a task on the others, and make a ranker of its network."""
    data, run, user = context.data, context.run, context.user
    device = device_of(run.device)
    raw = raw_on_device(data.features, device, run.resident)
    scaling = scalings.fit(scalings.rule_of(model.scaling), data.features if raw is None else raw)
    learned, held, queries = split(model, lists, task.pairwise, context)
    rows, (learned, held) = in_table(data.n_rows, learned, held)
    with enough_memory():
        table = FeatureTable(data.features if raw is None else raw, scaling, rows, device, run.resident)
        identity = {"method": user, "features": repr(data.feature_names), **context.decisive()}
        status, history = train_network(task, learned, held, table, model, run, identity=identity)
    if not history:
        raise DataError(
            f"{user} met numbers that are not finite in its first epoch; lower `learning_rate`, check the "
            "features for extreme values, or clip the propensities."
        )
    ranker = ranker_of(
        task.networks["relevance"], feature_names=data.feature_names, scaling=scaling, provenance=context.provenance
    )
    fit = trained_fit(context, ranker, status, history, queries)
    done = f"after {count(len(history), 'epoch')}; the ranker is that of epoch {fit.learned['best_epoch']}."
    if status == "interrupted":
        warn(ConvergenceWarning(f"{user} was interrupted {done}"))
    if status == "non_finite":
        advice = "Lower `learning_rate`, or clip the propensities."
        warn(ConvergenceWarning(f"{user} met numbers that are not finite {done} {advice}"))
    if "selection" not in task.networks:
        return fit
    weight, bias = (value.detach().double().cpu().numpy() for value in task.networks["selection"].parameters())
    return fit.keeping(selection_coef=weight[0].copy(), selection_intercept=float(bias[0]))


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn torch's error when memory runs out into an error that says what takes less memory."""
    try:
        yield
    except RuntimeError as error:  # torch has a separate class for this on a GPU only
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise CldrankError(
            f"there is not enough memory to train this network ({reason(error)}); choose smaller layers, or fewer "
            "queries for a step (batch_queries)."
        ) from error


def split(model: MLP, lists: Lists, pairwise: bool, context: Context) -> tuple[Lists, Lists, tuple[int, int]]:
    """The lists to learn from, those held out, and the numbers of their queries."""
    seed, useful = context.run.seed, lists.preferring()
    if pairwise and not len(useful):
        raise DataError(
            f"no query has a candidate preferred to another; {context.user} with a network learns from such pairs: "
            "it needs queries with several shown candidates that were clicked unequally often."
        )
    wanted = len(useful) if pairwise else len(lists)
    held_count = int(model.validation * wanted)
    drawn = np.random.default_rng([seed, 7]).permutation(useful)
    chosen = np.sort(drawn[:held_count])
    rest = np.setdiff1d(useful if pairwise else np.arange(len(lists)), chosen)
    learned, held = (lists[part].cut(model.list_size, seed) for part in (rest, chosen))
    if pairwise:
        learned = learned[learned.preferring()]
        if not len(learned):
            raise DataError(
                f"cut into lists of at most {model.list_size}, no list has a candidate preferred to another; raise "
                "list_size."
            )
    return learned, held, (len(rest), len(chosen))
