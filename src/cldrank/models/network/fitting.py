"""From targets to a trained network: lists, the split, the training loop, and the ranker that the network becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.random import fork_rng

from cldrank import scaling as scalings
from cldrank.errors import CldrankError, ConvergenceWarning, DataError, warn
from cldrank.models.fit import Context, Fit, trained_fit
from cldrank.models.network.features import FeatureTable, raw_on_device
from cldrank.models.network.lists import Lists, observed_lists, rows_used, target_lists
from cldrank.models.network.loop import Trained, train_network
from cldrank.models.network.tasks import Pairs, SelectedPairs, SelectedPoints, TrainingTask
from cldrank.rankers.devices import device_of
from cldrank.rankers.torch_module import ranker_of
from cldrank.reading import reason
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.models.network.model import Network
    from cldrank.models.targets import PairSelection, PointSelection, Targets

MakeTask = Callable[[torch.nn.Module, int], TrainingTask]


def fit_targets(model: Network, targets: Targets, context: Context) -> Fit:
    """Train on pairs of one query in the order of their targets."""
    return _trained(model, target_lists(targets), lambda network, _: Pairs(network), context)


def fit_points(model: Network, problem: PointSelection, context: Context) -> Fit:
    """Train on CLD's likelihood, row by row."""

    def points(network: torch.nn.Module, width: int) -> TrainingTask:
        return SelectedPoints(network, width, float(problem.gamma), float(problem.unshown_ratio))

    return _trained(model, observed_lists(problem.observed, problem.pages), points, context)


def fit_pairs(model: Network, problem: PairSelection, context: Context) -> Fit:
    """Train on CLD's pairs."""

    def pairs(network: torch.nn.Module, width: int) -> TrainingTask:
        return SelectedPairs(network, width, float(problem.selection_weight), float(problem.unshown_ratio))

    return _trained(model, observed_lists(problem.observed, problem.pages), pairs, context)


def _trained(model: Network, lists: Lists, make_task: MakeTask, context: Context) -> Fit:
    """Train the task that `make_task` makes of a network and the number of features."""
    data, run = context.data, context.run
    device = device_of(run.device)
    scaling, raw = _scaling(model, context, device)
    with (
        enough_memory(),
        fork_rng(devices=[]),
    ):  # torch draws the weights of a layer as it makes it, though others are put in
        task = make_task(model.build(data.n_features, run.seed), data.n_features)
    learned, held, queries = split(model, lists, task.pairwise, context)
    rows, place = rows_used(learned, held, n_rows=data.n_rows)
    with enough_memory():
        table = FeatureTable(data.features if raw is None else raw, scaling, rows, device, run.resident)
        identity = {"method": context.user, "features": repr(data.feature_names), **_decisive(context)}
        trained = train_network(task, learned.placed(place), held.placed(place), table, model, run, identity=identity)
    if not trained.history:
        raise DataError(
            f"{context.user} met numbers that are not finite in its first epoch; lower `learning_rate`, check the "
            "features for extreme values, or clip the propensities."
        )
    parts = {"feature_names": data.feature_names, "scaling": scaling, "provenance": context.provenance}
    ranker = ranker_of(task.networks["relevance"], **parts)
    _warn_unless_completed(trained, context.user)
    learned_selection = {}
    if "selection" in task.networks:
        coefficients, intercept = task.linear_part("selection")
        learned_selection = {"selection_coef": coefficients, "selection_intercept": intercept}
    return trained_fit(context, ranker, trained.status, trained.history, queries, **learned_selection)


@contextmanager
def enough_memory() -> Iterator[None]:
    """What torch raises where memory runs out becomes an error that says what takes less."""
    try:
        yield
    except RuntimeError as error:  # torch has a separate class for this on a GPU only
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise CldrankError(
            f"there is not enough memory to train this network ({reason(error)}); choose smaller layers, or fewer "
            "queries for a step (batch_queries)."
        ) from error


def _scaling(model: Network, context: Context, device: torch.device) -> tuple[scalings.Scaling, torch.Tensor | None]:
    """The scaling, and the features on the device where it was learned there."""
    features, rule = context.data.features, scalings.rule_of(model.scaling)
    raw = raw_on_device(features, device, context.run.resident)
    return scalings.fit(rule, features if raw is None else raw), raw


def _decisive(context: Context) -> dict[str, Any]:
    """The parameters that decide the course of a training; of the run, the loop knows which do."""
    given = context.provenance.parameters
    return {name: value for name, value in given.items() if name != "model__patience" and name[:5] != "run__"}


def split(model: Network, lists: Lists, pairwise: bool, context: Context) -> tuple[Lists, Lists, tuple[int, int]]:
    """The lists to learn from, those held out, and the numbers of their queries."""
    seed, useful = context.run.seed, lists.preferring()
    if pairwise and not len(useful):
        raise DataError(
            f"no query has one candidate preferred to another; {context.user} with a network learns from such pairs: "
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
                f"cut into lists of at most {model.list_size}, no list has one candidate preferred to another; raise "
                "list_size."
            )
    return learned, held, (len(rest), len(chosen))


def _warn_unless_completed(trained: Trained, user: str) -> None:
    done, kept = count(len(trained.history), "epoch"), f"the ranker is that of epoch {trained.best_epoch}"
    if trained.status == "interrupted":
        warn(ConvergenceWarning(f"{user} was interrupted after {done}; {kept}."))
    if trained.status == "non_finite":
        warn(
            ConvergenceWarning(
                f"{user} met numbers that are not finite after {done}; {kept}. Lower `learning_rate`, or clip the "
                "propensities."
            )
        )
