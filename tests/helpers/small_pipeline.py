"""A small world with a log of it, and pipelines over both."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cldrank as cr
from cldrank.clicks.simulate import Policy, PositionBased, Simulation
from cldrank.clicks.simulate.policies import Layouts, Production
from cldrank.parameters import value
from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline

DEFINITION = """\
log.files = "log.parquet"
features.files = "train.parquet"

[train]
method = "ips"

[verdict]
trust_propensity = false

[export]
to = ["onnx", "opensearch"]
"""


@value
class NoisyScores(Policy):
    """Pages drawn result by result, in proportion to exp(2 score), of queries with eight candidates each."""

    name = "noisy"
    about = "all pages drawn, better scores more often on top"

    def layouts(self, depth: int) -> Layouts:
        """None: all pages are drawn."""
        layouts = super().layouts(depth)
        return layouts._replace(shares=0 * layouts.shares, drawn=1.0)

    def draw(self, production: Production, queries: Any, random: np.random.Generator) -> Any:
        """The best of the scores with Gumbel noise."""
        rows = production.offsets[queries][:, None] + np.arange(8)
        noisy = 2 * production.scores[rows] + random.gumbel(size=rows.shape)
        return np.take_along_axis(rows, np.argsort(-noisy, axis=1), axis=1)[:, : production.depth]


def write_world(folder: Path, *, quality: float = 0.3, sessions: int = 8000, seed: int = 0) -> None:
    """Features and a log of production.

    quality   how much production knows of what is relevant; 5 is all there is to know
    """
    random = np.random.default_rng(0)
    features = random.standard_normal((320, 3))
    labels = 3.0 * (features[:, 0] + 0.5 * random.standard_normal(320) > 0.7)
    ids = [f"q{row // 8}" for row in range(320)]
    data = cr.RankingDataset.from_arrays(features, ids, labels, feature_names=["title", "body", "age"], synthetic=True)
    production = quality * features[:, 0] + features[:, 1]
    simulation = Simulation(data, scores=production, model=PositionBased(1.0, 0.1), depth=5, policy=NoisyScores())
    data.save(folder / "train.parquet")
    simulation.save_log(folder / "log.parquet", sessions, seed=seed)
    log = pq.read_table(folder / "log.parquet")
    pq.write_table(log.drop_columns(["propensity"]), folder / "log.parquet")  # which noise does not tell


def write_without_clicks(folder: Path) -> None:
    """The same log, in which nothing was clicked."""
    table = pq.read_table(folder / "log.parquet")
    at = table.column_names.index("clicked")
    none = pa.array(np.zeros(len(table), bool)).cast(table["clicked"].type)
    pq.write_table(table.set_column(at, "clicked", none), folder / "log.parquet")


def run(place: Path, *changes: tuple[str, str], **options: Any) -> RunRecord:
    """Run the pipeline of a folder, with some texts in its file replaced."""
    return run_pipeline(read_pipeline(write_definition(place, changes)), **options)


def write_definition(folder: Path, changes: Iterable[tuple[str, str]] = (), name: str = "pipeline.toml") -> Path:
    """A pipeline file, with some texts in it replaced."""
    text = DEFINITION
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
