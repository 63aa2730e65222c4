"""What engines make of rankers on real features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cldrank as cr
from cldrank.export import export_ranker
from cldrank.models import MLP, Linear, Trees
from cldrank.scaling import Standard

TREES = Trees(rounds=10, validation=0.0)
PLAIN = Linear(scaling=Standard(clip=None))
EVERY = (Linear(), MLP(hidden=(16,), epochs=1, validation=0.0), TREES)


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ["mq2008:fold1/test", "web10k-sample:test"])
@pytest.mark.parametrize(
    ("to", "bound", "models"),
    [
        ("onnx", 1.2e-7, EVERY),
        ("vespa", 1e-6, EVERY),
        ("elasticsearch", 1e-6, (TREES,)),
        ("opensearch", 2e-6, (Linear(), PLAIN, TREES)),
        ("solr", 2e-5, (PLAIN, TREES)),
    ],
)
def test_scores_and_order(name: str, to: str, bound: float, models: tuple[Any, ...], tmp_path: Path) -> None:
    data = cr.load(name)[:150]
    for number, model in enumerate(models):
        ranker = cr.Oracle(model=model).fit(data).ranker_
        parity = export_ranker(ranker, to, tmp_path / f"{number}.{to}", check=data).parity
        assert parity is not None
        assert parity.largest <= bound * max(parity.scale, 1), model
        assert parity.swapped == 0
