"""`NeuralFit`: how an estimator trains a network, and what that leaves behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.estimators.base import Estimator, check_penalty
from cldrank.models.linear.inference import lines_of
from cldrank.models.network import Training
from cldrank.models.network.lists import Lists
from cldrank.models.network.settings import Epoch
from cldrank.rankers import LinearRanker

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task

EPOCHS, LEARNING_RATE = 12, 2e-3
Model = Any  # "linear", "mlp", an MLP, or a torch module


class NeuralFit(Estimator):
    """What estimators share that can train a network. Its fit leaves, beyond the ranker,

    history_         an `Epoch` for each epoch: loss, held-out concordance, learning rate, seconds; the concordance is
                     with the method's own `targets`, so it chooses the epoch but does not compare methods
    best_epoch_      the epoch whose network was kept
    status_          `completed`, `early_stopped`, `interrupted` (by Ctrl-C) or `non_finite`
    n_queries_       the queries learned from; `n_held_` those held out to choose the epoch
    n_iter_          epochs gone through
    """

    targets: ClassVar[str] = "clicks over propensity"  # in words, what held-out concordance is measured against

    history_: tuple[Epoch, ...]
    best_epoch_: int
    status_: str
    n_iter_: int
    n_queries_: int
    n_held_: int
    model: Model
    l2: float
    scaling: str | scalings.ScalingRule | None
    epochs: int | None
    learning_rate: float | None
    seed: int
    device: str | None
    training: Training | None

    def _fit_network(
        self,
        data: RankingDataset,
        scaling: scalings.Scaling,
        lists: Lists,
        make_task: Callable[[torch.nn.Module, int], Task],
    ) -> Task:
        """Train the task that `make_task` makes of a network and the number of features, and take its ranker."""
        settings, epochs, rate = self._checked()
        from cldrank.models.network.networks import build, check_torch, device_of, enough_memory

        check_torch()
        from torch.random import fork_rng

        from cldrank.models.network.distributed import local_device
        from cldrank.models.network.features import FeatureTable

        device = device_of(local_device(self.device))
        with fork_rng(devices=[]):  # torch draws the weights of a layer as it makes it, though others are put in
            task = make_task(build(self.model, data.n_features, self.seed), data.n_features)
        learned, held, queries = self._parts(lists, settings, task.pairwise)
        from cldrank.models.network.loop import train
        from cldrank.rankers.from_torch import ranker_of

        rows = np.unique(np.concatenate([learned.rows, learned.unshown_rows, held.rows]))
        with enough_memory():
            table = FeatureTable(data.features, scaling, rows, device, settings.resident)
            trained = train(
                task,
                _placed(learned, rows),
                _placed(held, rows),
                table,
                epochs=epochs,
                learning_rate=rate,
                weight_decay=check_penalty(self.l2),
                seed=self.seed,
                settings=settings,
                identity=self._identity(data),
            )
        if not trained.history:
            raise DataError(
                f"{type(self).__name__} met numbers that are not finite in its first epoch; lower learning_rate, check "
                "the features for extreme values, or clip the propensities."
            )
        relevance = task.networks["relevance"]
        origin = {"feature_names": data.feature_names, "scaling": scaling, "provenance": self._provenance(data)}
        self._leave(ranker_of(relevance, **origin))
        self.history_, self.best_epoch_, self.status_ = trained.history, trained.best_epoch, trained.status
        (self.n_queries_, self.n_held_), self.n_iter_ = queries, len(trained.history)
        if isinstance(self.ranker_, LinearRanker):
            self.coef_, self.intercept_ = self.ranker_.coefficients, self.ranker_.intercept
        self._warn_of_the_end(trained.status)
        return task

    def _parts(self, lists: Lists, settings: Training, pairwise: bool) -> tuple[Lists, Lists, tuple[int, int]]:
        """The lists to learn from, those held out, and how many queries these are of."""
        useful = lists.preferring()
        if pairwise and not len(useful):
            raise DataError(
                f"no query has one candidate preferred to another; {type(self).__name__} with a network learns from "
                "such pairs: it needs queries with several shown candidates that were clicked unequally often."
            )
        wanted = len(useful) if pairwise else len(lists)
        held_count = int(settings.validation * wanted)
        chosen = np.sort(np.random.default_rng([self.seed, 7]).permutation(useful)[:held_count])
        rest = np.setdiff1d(useful if pairwise else np.arange(len(lists)), chosen)
        learned, held = (lists[part].cut(settings.list_size, self.seed) for part in (rest, chosen))
        if pairwise:
            learned = learned[learned.preferring()]
            if not len(learned):
                raise DataError(
                    f"cut into lists of at most {settings.list_size}, no list has one candidate preferred to another; "
                    "raise list_size."
                )
        return learned, held, (len(rest), len(chosen))

    def _checked(self) -> tuple[Training, int, float]:
        settings = Training() if self.training is None else self.training
        if not isinstance(settings, Training):
            raise UsageError(f"training must be a Training or None, not {settings!r}.")
        check_penalty(self.l2)
        epochs = EPOCHS if self.epochs is None else self.epochs
        rate = LEARNING_RATE if self.learning_rate is None else self.learning_rate
        for name, value, least in (("epochs", epochs, 1), ("seed", self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 < rate < np.inf:
            raise UsageError(f"learning_rate must be a number above 0, not {rate!r}.")
        return settings, int(epochs), float(rate)

    def _identity(self, data: RankingDataset) -> dict[str, str]:
        """All that decides the result, beyond the lists."""
        parameters = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        kept = {name: value for name, value in parameters.items() if name not in ("training", "device", "model")}
        return {**kept, "estimator": type(self).__name__, "features": repr(data.feature_names)}

    def _warn_of_the_end(self, status: Literal["completed", "early_stopped", "interrupted", "non_finite"]) -> None:
        reasons = {
            "interrupted": f"{type(self).__name__} was interrupted after {self.n_iter_} epochs; the ranker is that of "
            f"epoch {self.best_epoch_}",
            "non_finite": f"{type(self).__name__} met numbers that are not finite after {self.n_iter_} epochs; the "
            f"ranker is that of epoch {self.best_epoch_}. Lower learning_rate, or clip the propensities",
        }
        if status in reasons:
            warnings.warn(f"{reasons[status]}.", ConvergenceWarning, stacklevel=4)

    def _network_summary(self) -> str:
        self._check_fitted()
        kept = self.history_[self.best_epoch_ - 1]
        held = "nothing held out"
        if kept.validation is not None:
            held = f"held-out concordance {kept.validation:.4f} with {self.targets}"
        facts = [
            ("estimator", " ".join(repr(self).split())),
            ("ranker", repr(self.ranker_)),
            ("queries", f"{self.n_queries_:,} learned from, {self.n_held_:,} held out"),
            ("status", f"{self.status_}, {self.n_iter_} epochs, {sum(e.seconds for e in self.history_):.1f} s"),
            ("kept", f"epoch {self.best_epoch_}: loss {kept.loss:.4f}, {held}"),
        ]
        return lines_of(facts)


def _placed(lists: Lists, rows: Any) -> Lists:
    """The same lists with places in a table of these rows."""
    return Lists(
        lists.offsets,
        np.searchsorted(rows, lists.rows),
        lists.target,
        lists.weight,
        lists.unshown_offsets,
        np.searchsorted(rows, lists.unshown_rows),
        lists.pages,
    )


def is_linear(model: Any) -> bool:
    """Whether a model parameter names the linear model.

    >>> is_linear("linear"), is_linear("mlp")
    (True, False)
    """
    return isinstance(model, str) and model == "linear"
