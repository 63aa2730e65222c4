"""What ONNX Runtime and Vespa make of rankers on real features; other formats have tests of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import cldrank as cr
from cldrank.export import export_ranker
from cldrank.models import MLP, Linear, Trees


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("to", "bound"), [("onnx", 1.2e-7), ("vespa", 1e-6)])
@pytest.mark.parametrize("name", ["mq2008:fold1/test", "web10k-sample:test"])
def test_scores_and_order(name: str, to: str, bound: float, tmp_path: Path) -> None:
    data = cr.load(name)[:150]
    for model in (Linear(), MLP(hidden=(16,), epochs=1, validation=0.0), Trees(rounds=10, validation=0.0)):
        ranker = cr.Oracle(model=model).fit(data).ranker_
        found = export_ranker(ranker, to, tmp_path / f"{type(model).__name__}.{to}", check=data).parity
        assert found is not None
        assert found.largest <= bound * max(found.scale, 1)
        assert found.swapped == 0
