"""From targets to a trained network: lists, the split, the training loop, and the ranker that the network becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.random import fork_rng

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import ConvergenceWarning, DataError, UsageError, warn
from cldrank.models.fit import Context, NetworkFit, SelectionNetworkFit
from cldrank.models.network.distributed import local_device
from cldrank.models.network.features import FeatureTable, raw_on_device
from cldrank.models.network.lists import Lists, observed_lists, rows_used, target_lists
from cldrank.models.network.loop import Trained, train_network
from cldrank.models.network.networks import enough_memory
from cldrank.models.network.tasks import Pairs, SelectedPairs, SelectedPoints, TrainingTask
from cldrank.models.network.warm import begin_with, start_of
from cldrank.models.warm import WarmStart
from cldrank.rankers.devices import device_of
from cldrank.rankers.torch_module import ranker_of
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.models.network.model import Network
    from cldrank.models.targets import PairSelection, PointSelection, Targets

MakeTask = Callable[[torch.nn.Module, int], TrainingTask]


def fit_targets(model: Network, targets: Targets, context: Context) -> NetworkFit:
    """Train on pairs of one query in the order of their targets."""
    _, known = _trained(model, target_lists(targets), lambda network, _: Pairs(network), context)
    return NetworkFit(**known)


def fit_points(model: Network, problem: PointSelection, context: Context) -> SelectionNetworkFit:
    """Train on CLD's likelihood, row by row."""
    gamma = problem.gamma
    if gamma == "profile":
        raise UsageError("`gamma='profile'` is for a linear model; give `gamma` beside a network.")
    if problem.tobit or problem.sigma != 1.0:
        raise UsageError("`likelihood='tobit'` and `sigma` are for a linear model.")
    for name in ("relevance", "selection"):
        if len(getattr(problem, name)) < context.data.n_features:
            raise UsageError(f"`{name}_features` is for a linear model; a network sees all features.")

    def points(network: torch.nn.Module, width: int) -> TrainingTask:
        return SelectedPoints(network, width, float(gamma), float(problem.unshown_ratio))

    return _selected(model, observed_lists(problem.observed, problem.pages), points, context)


def fit_pairs(model: Network, problem: PairSelection, context: Context) -> SelectionNetworkFit:
    """Train on CLD's pairs."""

    def pairs(network: torch.nn.Module, width: int) -> TrainingTask:
        return SelectedPairs(network, width, float(problem.selection_weight), float(problem.unshown_ratio))

    return _selected(model, observed_lists(problem.observed, problem.pages), pairs, context)


def _selected(model: Network, lists: Lists, make_task: MakeTask, context: Context) -> SelectionNetworkFit:
    task, known = _trained(model, lists, make_task, context)
    coefficients, intercept = task.linear_part("selection")
    return SelectionNetworkFit(**known, selection_coef=coefficients, selection_intercept=intercept)


def _trained(
    model: Network, lists: Lists, make_task: MakeTask, context: Context
) -> tuple[TrainingTask, dict[str, Any]]:
    """Train the task that `make_task` makes of a network and the number of features; what is known of the fit."""
    data, run = context.data, context.run
    device = device_of(local_device(run.device))
    scaling, raw = _scaling(model, context, device)
    warm = WarmStart.of(context, scaling)
    with fork_rng(devices=[]):  # torch draws the weights of a layer as it makes it, though others are put in
        task = make_task(model.build(data.n_features, run.seed), data.n_features)
    if warm is not None:
        begin_with(warm, task, context.user)
    learned, held, queries = split(model, lists, task.pairwise, context, warm)
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
    ranker = ranker_of(task.networks["relevance"], **parts).with_start(
        **start_of(task, data.query_ids[_queries(data, held)])
    )
    if warm is not None and warm.ranker.trained_on is not None:
        ranker = ranker.with_queries(warm.ranker.trained_on)
    _warn_unless_completed(trained, context.user)
    return task, {
        **vars(trained),
        "ranker": ranker,
        "warm_start": "" if warm is None else warm.description,
        "n_iter": len(trained.history),
        "n_queries": queries[0],
        "n_held": queries[1],
        "held_target": context.target,
    }


def _scaling(model: Network, context: Context, device: torch.device) -> tuple[scalings.Scaling, torch.Tensor | None]:
    """The scaling, and the features on the device where it was learned there."""
    features, rule = context.data.features, scalings.rule_of(model.scaling)
    raw = raw_on_device(features, device, context.run.resident)
    return scalings.fit(rule, features if raw is None else raw), raw


def _decisive(context: Context) -> dict[str, Any]:
    """The parameters that decide the course of a training; of the run, the loop knows which do."""
    given = context.provenance.parameters
    return {name: value for name, value in given.items() if name != "model__patience" and name[:5] != "run__"}


def split(
    model: Network, lists: Lists, pairwise: bool, context: Context, warm: WarmStart | None = None
) -> tuple[Lists, Lists, tuple[int, int]]:
    """The lists to learn from, those held out, and the numbers of their queries.

    After a warm start, queries that were held out before are again, then new ones; none that were learned from, unless
    there are no others.
    """
    seed, useful = context.run.seed, lists.preferring()
    if pairwise and not len(useful):
        raise DataError(
            f"no query has one candidate preferred to another; {context.user} with a network learns from such pairs: "
            "it needs queries with several shown candidates that were clicked unequally often."
        )
    wanted = len(useful) if pairwise else len(lists)
    held_count = int(model.validation * wanted)
    drawn = np.random.default_rng([seed, 7]).permutation(useful)
    if warm is not None:
        suits = warm.held_first(context.data.query_ids[_queries(context.data, lists[drawn])])
        drawn = drawn[np.argsort(suits, kind="stable")]
        drawn = drawn[: (suits < 2).sum()] if (suits < 2).any() else drawn
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


def _queries(data: RankingDataset, lists: Lists) -> IntArray:
    """The query of each list; the lists have candidates."""
    found: IntArray = data.row_queries[lists.rows[lists.offsets[:-1]]]
    return found


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
