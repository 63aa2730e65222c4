from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_worlds import TINY, TINY_SCORES, every_world

from cldrank.clicks import simulate
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.clicks.simulate.truth import save_truth
from cldrank.errors import CldrankError, FormatError, UsageError


class TestTruth:
    def test_content(self, tmp_path: Path) -> None:
        simulation = Simulation(
            TINY, TINY_SCORES, PositionBased(eta=2, noise=0.3), depth=3, production={"kind": "column", "source": "f1"}
        )
        told = simulate.truth_of(simulation, 1e4, 9)
        assert save_truth(told, tmp_path / "cells.parquet") == tmp_path / "cells.parquet.json"
        truth = simulate.load_truth(tmp_path / "cells.parquet")
        assert truth == json.loads(json.dumps(told))
        assert (truth["sessions"], truth["seed"], truth["depth"], truth["drawn"]) == (10_000, 9, 3, "counted")
        assert truth["propensities"] == [1, 1 / 4, 1 / 9]
        assert truth["attraction"] == {"relevant": [1, 1, 1], "irrelevant": [0.3, 0.3, 0.3]}
        assert truth["model"] == {"name": "pbm", "eta": 2, "noise": 0.3}
        assert truth["policy"] == {"name": "top"}
        assert truth["relevance"] == {"relevant_from": 3, "relevant_rows": 3}
        assert truth["production"] == {"kind": "column", "source": "f1"}
        assert truth["data"]["name"] == "tiny"
        assert truth["data"]["synthetic"] is False

    @every_world
    def test_every_world_can_be_told(self, world: dict[str, Any]) -> None:
        told = simulate.truth_of(Simulation(TINY, TINY_SCORES, **world), 10, 0, by_session=True)
        assert json.loads(json.dumps(told, allow_nan=False))["drawn"] == "by session"

    def test_what_is_no_truth(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no such file"):
            simulate.load_truth(tmp_path / "x")
        (tmp_path / "x.json").write_text("{")
        with pytest.raises(FormatError, match="x.json"):
            simulate.load_truth(tmp_path / "x")
        (tmp_path / "x.json").write_text("{}")
        with pytest.raises(CldrankError, match="does not describe a simulation"):
            simulate.load_truth(tmp_path / "x")
