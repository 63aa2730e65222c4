"""`grid`: try every combination of some values, each judged as a trial of `tune` is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from cldrank.estimators.evidence import needed
from cldrank.estimators.needs import Needs
from cldrank.tuning.judging import hold_out, mean_of
from cldrank.tuning.trials import Trial, distances

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity.segment_propensities import Curve


def grid(
    make: Callable[[Mapping[str, Any]], Any],
    values: Mapping[str, Sequence[Any]],
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Curve,
    *,
    held_out: float = 0.2,
    seed: int = 0,
) -> tuple[Trial, ...]:
    """Fit every combination to the clicks on most queries, and judge it by those on the others; the best comes first.

    make     makes something with `fit` and `predict` from the parameters of a combination
    values   those to try, by parameter; of combinations that do equally well, the first wins
    seed     decides which queries are held out

    >>> from functools import partial
    >>> import numpy as np
    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.estimators import IPS
    >>> from cldrank.propensity import Propensities
    >>> from cldrank.tuning.space import applied
    >>> data = RankingDataset.from_arrays(np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) // 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 3, 0] * 20, impressions=[9, 9, 9, 0] * 20, clicks=[5, 3, 1, 0] * 20
    ... )
    >>> trials = grid(partial(applied, IPS()), {"l2": [0.001, 0.1]}, data, clicks, Propensities.power(1, 3))
    >>> len(trials), trials[0].behind
    (2, 0.0)
    """
    learned, judge = hold_out(dataset, clicks, propensities, held_out, seed)
    gains, trials = [], []
    for number, combination in enumerate(itertools.product(*values.values())):
        parameters = dict(zip(values, combination, strict=True))
        gains.append(judge.gains(_fitted(make(parameters), dataset, learned, propensities)))
        found = mean_of(gains[-1], judge.weight)
        trials.append(Trial(number, parameters, "completed", found.value, found.error))
    return tuple(sorted(distances(trials, gains.__getitem__, judge.weight), key=lambda trial: -(trial.value or 0.0)))


def _fitted(model: Any, dataset: RankingDataset, clicks: ClickTable, propensities: Any) -> Any:
    """Fit anything with `fit`; what says what it needs is given that alone."""
    said: Any = getattr(model, "required", None)
    required: Needs = said if said in get_args(Needs) else "propensities"
    return model.fit(dataset, *needed(required, clicks, propensities))
