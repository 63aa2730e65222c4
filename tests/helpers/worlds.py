"""A small log with features, as a dataset of this machine and as a Parquet file for Spark."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.propensity import Propensities


@dataclass(frozen=True)
class World:
    """The same candidates twice, and clicks on them."""

    data: RankingDataset
    clicks: ClickTable
    propensities: Propensities
    path: Path

    def rows(self) -> pa.Table:
        """The rows of the file."""
        return pq.read_table(self.path)


def world(folder: Path, *, queries: int = 60, candidates: int = 12, depth: int = 4, seed: int = 0) -> World:
    """Queries of which a tenth was never displayed; four candidates shown, by a noisy ranker, some at two positions."""
    random = np.random.default_rng(seed)
    rows = queries * candidates
    features = random.normal(size=(rows, 5)).astype(np.float32)
    features[:, 3] = np.exp(2 * features[:, 3])
    features[:, 4] = 7.0  # constant
    query = np.repeat(np.arange(queries), candidates)
    document = random.permuted(np.tile(np.arange(candidates), (queries, 1)), axis=1).ravel()
    data = RankingDataset.from_arrays(features, query, doc_ids=document)
    worth = features[:, 0] + 0.5 * features[:, 1] + random.normal(size=rows)
    order = np.argsort(-worth.reshape(queries, candidates), axis=1)[:, : depth + 1]
    shown: dict[str, Any] = {"row": [], "position": [], "impressions": []}
    for number in range(queries):
        if number % 10 == 9:
            continue  # never displayed
        for place in range(depth):
            for shift, often in ((0, 20 + number), (1, 5)):
                shown["row"].append(number * candidates + int(order[number, place + shift]))
                shown["position"].append(place + 1)
                shown["impressions"].append(often)
    chance = np.clip(0.2 + 0.1 * features[shown["row"], 0], 0.02, 0.9) / np.array(shown["position"])
    clicks = random.binomial(shown["impressions"], chance)
    table = ClickTable.from_arrays(data, **shown, clicks=clicks)
    columns: dict[str, Any] = {"query_id": query, "doc_id": [str(one) for one in document]}
    columns |= {f"f{column + 1}": features[:, column] for column in range(5)}
    mixed = random.permutation(rows)
    path = folder / "features.parquet"
    pq.write_table(pa.table(columns).take(pa.array(mixed)), path, row_group_size=97)
    return World(data, table, Propensities.power(1, depth), path)
