from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cldrank.report.published import published
from cldrank.report.result_tables import tables
from cldrank.report.sections import Section


class TestPublished:
    def test_stands_beside_the_paper_s_data_only(self, found: dict[tuple[str, str], Section]) -> None:
        beside = published(found["table1", "web10k"], "{}")
        assert beside["CLD", "nDCG@1"] == 0.434
        assert beside["Oracle", "AP"] == 0.332
        assert published(found["table1", "msrd"], "{}") == {}
        assert published(found["table1", "web10k-like"], "{}") == {}

    @pytest.mark.parametrize(
        ("data", "fold", "eta", "known"),
        [("yahoo", "set1", 0.1, True), ("yahoo", "set2", 0.1, False), ("web10k", "fold1", 1.0, False)],
    )
    def test_needs_the_paper_s_fold_and_simulation(
        self, made: Any, tmp_path: Path, data: str, fold: str, eta: float, known: bool
    ) -> None:
        simulation = {**made.simulation, "eta": eta}
        section = made.only(tmp_path, "table1", data=data, fold=fold, simulation=simulation)
        assert bool(published(section, "{}")) is known
        assert any(not group.ours for group in tables(section)[0].groups) is known

    def test_needs_methods_that_know_the_true_curve(self, made: Any, tmp_path: Path) -> None:
        simulation = {**made.simulation, "eta": 0.1}
        settings = [{"simulation.assumed_eta": assumed} for assumed in (0.1, 1.0)]
        paper = {"data": "web10k", "fold": "fold1", "simulation": simulation}
        section = made.only(tmp_path / "two", "mine", settings=settings, **paper)
        assert [bool(published(section, json.dumps(setting))) for setting in settings] == [True, False]
        section = made.only(tmp_path / "one", "mine", settings=settings[1:], **paper)
        assert published(section, json.dumps(settings[1])) == {}

    def test_other_measures_have_none(self, made: Any, tmp_path: Path) -> None:
        measures = ("nDCG@3", "nDCG@10", "AP(rel=3)", "RR", "nDCG(gain=linear)@3")
        simulation = {**made.simulation, "eta": 0.1}
        section = made.only(tmp_path, "t", data="web10k", fold="fold1", measures=measures, simulation=simulation)
        assert {measure for _, measure in published(section, "{}")} == {"nDCG@3", "AP(rel=3)"}
