"""Small scenes of clicks for the tests of estimators: candidates, what was shown of them, and propensities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.observing import observe
from cldrank.models.linear.design import Design
from cldrank.models.linear.device_rows import DeviceRows
from cldrank.models.linear.objective import SelectionObjective
from cldrank.models.linear.row_blocks import LocalRows, Rows, View
from cldrank.propensity import Propensities


class Scene(NamedTuple):
    data: RankingDataset
    clicks: ClickTable
    propensities: Propensities


def scene(seed: int = 0, queries: int = 30, candidates: int = 8, width: int = 3, shown: int = 3) -> Scene:
    """Queries shown at random by a noisy ranker, some never, some candidates at two positions."""
    random = np.random.default_rng(seed)
    rows = queries * candidates
    features = random.lognormal(size=(rows, width))
    data = RankingDataset.from_arrays(features, np.arange(rows) // candidates)
    attraction = np.log(features[:, 0]) + random.normal(size=rows)
    order = np.argsort(-attraction.reshape(queries, candidates), axis=1)
    sessions = random.integers(0, 30, queries)
    sessions[0] = 7
    row, position, impressions, clicks = [], [], [], []
    for query in range(queries):
        turns = [(list(range(shown)), sessions[query] // 2), ([*range(shown)][::-1], sessions[query] // 3)]
        for turn, times in turns:
            for place, who in enumerate(turn):
                own = query * candidates + order[query, who]
                chance = min(0.9, 0.15 * features[own, -1]) / (place + 1)
                row.append(own)
                position.append(place + 1)
                impressions.append(times)
                clicks.append(random.binomial(times, chance))
    table = ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)
    return Scene(data, table, Propensities.power(1.0, shown))


def objective(
    given: Scene, gamma: float, l2: float = 1e-3, *, method: Any = "standard", target: Any = "ips", **options: Any
) -> SelectionObjective:
    """The objective of a scene; options of the design and of the objective."""
    observed = observe(given.data, given.clicks, given.propensities, target)
    own = {name: options.pop(name) for name in ("block_rows", "device") if name in options}
    scaled = scaling.fit(method, given.data.features)
    rows: Rows
    if "device" in own:
        rows = DeviceRows(given.data.features, observed, method, rows=observed.rows, **own)
    else:
        rows = LocalRows(given.data.features, observed, View(scaled), rows=observed.rows, **own)
    return SelectionObjective(Design(rows), gamma, l2, **options)


def by_session(given: Scene) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Row and target of each single impression."""
    inverse = 1 / given.propensities.at(given.clicks.position)
    rows, targets = [], []
    for row, n, c, weight in zip(given.clicks.row, given.clicks.impressions, given.clicks.clicks, inverse, strict=True):
        rows += [row] * n
        targets += [weight] * c + [0.0] * (n - c)
    return np.array(rows), np.array(targets)
