"""`ModelledRelevance`: estimators that model relevance by features, for logs in which nothing changes places."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UnidentifiableError, UsageError
from cldrank.models import Linear, Model, Network, Run
from cldrank.propensity.attraction import compared_by_attraction
from cldrank.propensity.cells import Cells
from cldrank.propensity.confounding import DETERMINED, confounding, explained_order
from cldrank.propensity.estimator import PropensityEstimator, check_whole
from cldrank.propensity.goodness import goodness_of_fit
from cldrank.propensity.pairs import PairSums
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.refusal import listed, refuse

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task
    from cldrank.rankers import Ranker

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shown:
    """The candidates that were shown, and what is known of them.

    dataset    whose candidates they are
    cells      of the first positions
    rows       (rows,) of the dataset, rising
    row        (cells,) which of these a cell is of
    scaling    of the features
    features   (rows, columns) float32, scaled
    """

    dataset: RankingDataset
    cells: Cells
    rows: IntArray
    row: IntArray
    scaling: scalings.Scaling
    features: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Found:
    """An estimate: log ρ, the same resampled, and what scores the candidates.

    draws         (replicates, k) log ρ
    sensitivity   to the penalty; None where it was not looked for
    """

    logs: Floats
    draws: Floats
    ranker: Ranker
    sensitivity: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelledRelevance(PropensityEstimator):
    """Estimators that need the features of the candidates: `fit(clicks, dataset)`.

    l2              penalty of the model of relevance; of networks, the weight decay
    scaling         of the features
    model           of relevance: "linear", "mlp", an `MLP`, or a torch module
    epochs, learning_rate, device, training   of networks
    refits          of networks: how many logs of resampled queries they are trained on, each from another seed, for
                    the intervals
    warn            whether a doubtful result warns; it is in its notes in any case

    A fit leaves `ranker_`, which scores by the model of relevance.
    """

    model: Model = Linear(l2=1e-5)
    run: Run = Run()
    refits: int = 6
    warn: bool = True

    caution = (
        "relevance is modelled, not held fixed: what the features do not know of it counts as position wherever the "
        "order follows relevance"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("refits", self.refits, 3)
        if (self.run.checkpoint or self.run.tensorboard) is not None:
            raise UsageError(
                f"{self.name} trains {self.refits + 1} networks, one after the other; a checkpoint or a TensorBoard "
                "log is of one. Leave them out of run."
            )

    def fit(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Propensities:
        """Estimate the propensities of a log on the candidates of a dataset, or raise UnidentifiableError."""
        shown, explained = self._prepared(clicks, dataset)
        found = self._estimate(shown)
        object.__setattr__(self, "ranker_", found.ranker)
        return self._result(shown, found, explained)

    def check(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> None:
        """Raise UnidentifiableError if the log cannot support an estimate at all; fits nothing."""
        self._prepared(clicks, dataset)

    @abstractmethod
    def _estimate(self, shown: Shown) -> Found:
        """The estimate."""

    # -- what the log must have ----------------------------------------------------------------------------------

    def _prepared(self, clicks: ClickTable, dataset: RankingDataset | None) -> tuple[Shown, float]:
        """The shown candidates, and how much of their order features tell; a refusal where that is all of it."""
        cells = self._cells(clicks)
        if (cells.clicks > cells.impressions).any():
            raise DataError(
                f"{self.name} takes an impression as clicked or not, but this table counts every click; aggregate the "
                "log with one click per impression."
            )
        if dataset is None:
            raise UnidentifiableError(
                f"{self.name} needs the features of the candidates: fit(clicks, dataset). Without them, relevance is "
                "one free number a candidate, and a log that shows each at one position cannot tell it from position; "
                "where candidates were shown at several, AllPairs needs no features.",
                positions=tuple(range(1, cells.size + 1)),
            )
        clicks.check_same(dataset)
        silent = np.flatnonzero(cells.rates() == 0) + 1
        if len(silent):
            raise refuse(
                self.name, "nothing was clicked there", silent.tolist(), cells.rates(), self.confidence, "more pages"
            )
        scaling = scalings.fit(self.model.scaling, dataset.features)
        rows, row = np.unique(cells.row, return_inverse=True)
        shown = Shown(dataset, cells, rows, row, scaling, scaling.transform(dataset.features[rows]))
        explained = explained_order(shown.features, cells, row)
        if explained > DETERMINED:
            raise UnidentifiableError(
                f"{self.name} cannot tell relevance from position: the features tell {explained:.1%} of a contrast of "
                "positions, so any curve along it can be had from them as well. Needed are pages in another order (a "
                "second ranker, or neighbours that change places on a share of pages), or features without the "
                "position and without the score of the ranker.",
                positions=tuple(range(1, cells.size + 1)),
            )
        return shown, explained

    # -- what the result says ------------------------------------------------------------------------------------

    def _result(self, shown: Shown, found: Found, explained: float) -> Propensities:
        cells, values = shown.cells, np.exp(found.logs)
        few = len(found.draws) < self.replicates
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        pairs = PairSums.of(cells, "impressions")
        draws = np.exp(found.draws)
        errors = self._network_errors(found) if few else self._errors(draws, cells)
        low, high = self._interval(found, errors, few)
        check = confounding(values, *_plain(cells, weights, found), explained, found.sensitivity)
        attraction = compared_by_attraction(cells, values, self.replicates, self.seed)
        notes = (*self._notes(values, errors, cells, attraction), str(check))
        if few:
            notes = (
                *notes,
                f"the intervals rest on {len(found.draws)} networks, each of other queries and another seed",
            )
        if check.doubtful and self.warn:
            warnings.warn(f"{self.name}: {check}.", CldrankWarning, stacklevel=3)
        return Propensities(
            values,
            f"{self.name}, {cells.n_units:,} {cells.units}",
            method=self.name,
            low=np.minimum(low, values),
            high=np.maximum(high, values),
            confidence=self.confidence,
            covariance=np.cov(found.draws, rowvar=False),
            comparisons=np.asarray(np.bincount(cells.place, cells.impressions, cells.size), dtype=np.float64),
            goodness=None if few else goodness_of_fit(pairs, values, draws, weights),
            confounding=check,
            notes=notes,
            replicates=None if few else draws,
        )

    def _interval(self, found: Found, errors: Floats, few: bool) -> tuple[Floats, Floats]:
        tail = (1 - self.confidence) / 2
        if not few:
            low, high = np.quantile(np.exp(found.draws), [tail, 1 - tail], axis=0)
            return low, high
        from scipy.stats import t

        half = t.ppf(1 - tail, len(found.draws) - 1) * errors
        return np.exp(found.logs - half), np.exp(found.logs + half)

    def _network_errors(self, found: Found) -> Floats:
        errors: Floats = found.draws.std(axis=0, ddof=1)
        weak = np.flatnonzero(errors > self.refuse_above)
        if len(weak):
            worst = int(weak[errors[weak].argmax()])
            raise UnidentifiableError(
                f"{self.name} cannot estimate {listed((weak + 1).tolist())}: networks trained on resampled queries "
                f"differ by {errors[worst]:.2f} in the log propensity of position {worst + 1} (standard deviation). "
                "More pages, a simpler model, or more epochs may help; else use RegressionEM(), which is exact.",
                positions=tuple((weak + 1).tolist()),
                depth=int(weak[0]),
            )
        return errors

    # -- networks ------------------------------------------------------------------------------------------------

    def _by_networks(self, shown: Shown) -> Found:
        """Train on the log, and on `refits` logs of resampled queries, each from a seed of its own."""
        logs, network = self._train(shown, self.seed, np.ones(shown.cells.n_groups))
        weights = draw_weights(shown.cells.n_groups, self.refits, self.seed)
        draws = [self._train(shown, self.seed + 1 + turn, weight)[0] for turn, weight in enumerate(weights)]
        return Found(logs, np.array(draws), self._ranker(shown, network))

    @abstractmethod
    def _task(self, network: torch.nn.Module, place: IntArray, size: int) -> Task:
        """What a network of relevance is trained on, beside propensities of so many positions."""

    def _train(self, shown: Shown, seed: int, weight: Floats) -> tuple[Floats, torch.nn.Module]:
        """Train; log ρ and the network that training leaves, with each group counted `weight` times."""
        network = self.model.as_network() if isinstance(self.model, Linear) else self.model
        if not isinstance(network, Network):
            raise UsageError(f"{self.name} models relevance by Linear or by a network, not by {self.model!r}.")
        network.check_installed()
        from torch.random import fork_rng

        from cldrank.models.network.features import FeatureTable
        from cldrank.models.network.loop import train
        from cldrank.models.network.networks import device_of

        cells = shown.cells
        with fork_rng(devices=[]):
            task = self._task(network.build(shown.features.shape[1], seed), cells.place, cells.size)
        table = FeatureTable(
            shown.features[shown.row],
            scalings.fit(None, shown.features[:1]),
            np.arange(len(shown.row)),
            device_of(self.run.device),
            self.run.resident,
        )
        lists = _lists(cells, weight)
        nothing = lists[np.zeros(0, dtype=np.int64)]
        run = replace(self.run, seed=seed)
        trained = train(task, lists, nothing, table, network, run, identity=[self.name, repr(weight.tolist())])
        if trained.status == "interrupted":  # the loop takes Ctrl-C for the wish to keep what there is
            raise KeyboardInterrupt
        if trained.status == "non_finite":
            raise DataError(f"{self.name} met numbers that are not finite; lower learning_rate.")
        logs = task.networks["examination"].logs.detach().double().cpu().numpy()  # type: ignore[operator]
        return logs - logs[0], task.networks["relevance"]

    def _ranker(self, shown: Shown, network: torch.nn.Module) -> Ranker:
        from cldrank.rankers.from_torch import ranker_of

        return ranker_of(
            network,
            feature_names=shown.dataset.feature_names,
            scaling=shown.scaling,
            provenance=self._provenance(shown.dataset),
        )

    def _provenance(self, dataset: RankingDataset) -> Any:
        from cldrank.rankers import Provenance

        plain = (bool, int, float, str, type(None))
        given = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return Provenance(
            estimator=self.name,
            parameters={name: value if isinstance(value, plain) else repr(value) for name, value in given.items()},
            data=dataset.name,
            synthetic=dataset.synthetic,
            rows=dataset.n_rows,
            queries=dataset.n_queries,
        )


def _plain(cells: Cells, weights: Floats, found: Found) -> tuple[Floats, Floats]:
    """Click-through rates over the first, and the error of log ρ less their log, by replicates where there are any."""
    rates = cells.rates()
    clicks, shown = (cells.by_group(cells.place, part, cells.size) for part in (cells.clicks, cells.impressions))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = np.log((weights @ clicks) / (weights @ shown))
        plain = resampled - resampled[:, :1]
    whole = np.isfinite(plain).all(axis=1)
    if len(weights) == len(found.draws):
        return rates / rates[0], (found.draws - plain)[whole].std(axis=0)
    return rates / rates[0], np.hypot(found.draws.std(axis=0, ddof=1), plain[whole].std(axis=0))


def _lists(cells: Cells, weight: Floats) -> Any:
    """One list for each query, of its cells: target c/n, weight n times how often the query's group was drawn."""
    from cldrank import segments
    from cldrank.models.network.lists import Lists

    order = np.lexsort((cells.place, cells.query))
    order = order[weight[cells.group[order]] > 0]
    _, counts = np.unique(cells.query[order], return_counts=True)
    none = np.zeros(0, dtype=np.int64)
    return Lists(
        segments.from_lengths(counts),
        order,
        (cells.clicks / cells.impressions)[order].astype(np.float32),
        (cells.impressions * weight[cells.group])[order].astype(np.float32),
        np.zeros(len(counts) + 1, dtype=np.int64),
        none,
        np.ones(len(counts), dtype=np.float32),
    )
