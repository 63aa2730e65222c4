from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_worlds import TINY, TINY_SCORES, every_world

from cldrank.clicks import simulate
from cldrank.clicks.simulate import (
    PositionBased,
    Simulation,
)
from cldrank.clicks.simulate.truth import save_truth
from cldrank.errors import CldrankError, FormatError, UsageError


class TestTruth:
    def test_content(self, tmp_path: Path) -> None:
        simulation = Simulation(
            TINY, TINY_SCORES, PositionBased(eta=2, noise=0.3), depth=3, production={"kind": "column", "source": "f1"}
        )
        told = simulate.truth_of(simulation, 1e4, 9)
        assert save_truth(told, tmp_path / "cells.parquet") == tmp_path / "cells.parquet.json"
        found = simulate.load_truth(tmp_path / "cells.parquet")
        assert found == json.loads(json.dumps(told))
        assert (found["sessions"], found["seed"], found["depth"], found["drawn"]) == (10_000, 9, 3, "counted")
        assert found["propensities"] == [1, 1 / 4, 1 / 9]
        assert found["attraction"] == {"relevant": [1, 1, 1], "irrelevant": [0.3, 0.3, 0.3]}
        assert found["model"] == {"name": "pbm", "eta": 2, "noise": 0.3}
        assert found["policy"] == {"name": "top"}
        assert found["relevance"] == {"relevant_from": 3, "relevant_rows": 3}
        assert found["production"] == {"kind": "column", "source": "f1"}
        assert found["data"]["name"] == "tiny"
        assert found["data"]["synthetic"] is False

    @every_world
    def test_every_world_can_be_told(self, world: dict[str, Any]) -> None:
        told = simulate.truth_of(Simulation(TINY, TINY_SCORES, **world), 10, 0, by_session=True)
        assert json.loads(json.dumps(told, allow_nan=False))["drawn"] == "by session"

    def test_what_is_no_truth(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no such file"):
            simulate.load_truth(tmp_path / "x")
        for damaged in ("{", "[" * 100_000, '{"seed": ' + "9" * 5000 + "}"):
            (tmp_path / "x.json").write_text(damaged)
            with pytest.raises(FormatError, match="not a JSON file"):
                simulate.load_truth(tmp_path / "x")
        (tmp_path / "x.json").write_text("{}")
        with pytest.raises(CldrankError, match="does not describe a simulation"):
            simulate.load_truth(tmp_path / "x")
