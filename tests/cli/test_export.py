from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import cldrank as cr

Run = Callable[..., Any]


def features_of(path: str) -> list[str]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names: list[str] = json.loads(session.get_modelmeta().custom_metadata_map["features"])
    return names


@pytest.fixture
def ranker(folder: Path) -> cr.RankingDataset:
    data = cr.load(folder / "train.parquet")
    cr.Oracle(model=cr.Trees(rounds=5, min_weight=0.5)).fit(data).ranker_.save("ranker")
    return data


@pytest.mark.usefixtures("ranker")
class TestExport:
    def test_json_for_programs(self, run: Run) -> None:
        told = run("export", "ranker", "--to", "onnx", "--out", "o.onnx", "--check", "train.parquet", "--json").json
        assert told["parity"]["same_order"] is True
        assert told["format"] == "onnx"
        assert told["losses"] == []

    def test_features_can_have_other_names(self, run: Run, ranker: cr.RankingDataset) -> None:
        first = ranker.feature_names[0]
        assert run("export", "ranker", "--to", "onnx", "--out", "o.onnx", "--rename", f"{first}=title=x").code == 0
        assert features_of("o.onnx")[0] == "title=x"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--to", "pmml", "--out", "x"], "--to takes"),
            (["--to", "onnx", "--out", "x", "--approximate"], "--approximate needs features"),
            (["--to", "onnx", "--out", "x", "--rename", "a"], "must be OURS=THEIRS"),
            (["--to", "onnx", "--out", "x", "--rename", "zz=a"], "--rename names 'zz', which is not a feature"),
            (["--to", "onnx", "--out", "nowhere/x"], "does not exist"),
            (["--to", "onnx", "--out", "x/"], "--out x/ranker.onnx"),
            (["--to", "onnx", "--out", "train.parquet", "--check", "train.parquet"], "is an input"),
        ],
    )
    def test_a_wrong_call_is_refused(self, run: Run, arguments: list[str], words: str) -> None:
        refused = run("export", "ranker", *arguments)
        assert refused.code == 2
        assert words in refused.err
        assert not Path("x").exists()
