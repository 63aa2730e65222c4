from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cldrank as cr

Run = Callable[..., Any]


def test_train_evaluate_compare(run: Run, letor: Path, folder: Path) -> None:
    trained = run("train", "oracle", "--features", letor, "--out", "ranker", "--json")
    assert trained.code == 0
    assert trained.json["constant_features"] == ["f3"]

    result = run("evaluate", "ranker", "-f", letor, "-m", "nDCG@3,AP", "-m", "P(rel=2)@1", "--json").json
    assert list(result["measures"]) == ["nDCG@3", "AP", "P(rel=2)@1"]
    expected = cr.evaluate(cr.load_ranker("ranker"), cr.load(letor), "nDCG@3")["nDCG@3"]
    assert result["measures"]["nDCG@3"]["mean"] == expected > 0.95
    assert result["measures"]["nDCG@3"]["low"] <= expected <= result["measures"]["nDCG@3"]["high"]

    data = cr.load(letor)
    (folder / "random.txt").write_text("\n".join(map(str, data.features[:, 1])))
    compared = run("compare", "ranker", "random.txt", "-f", letor, "-m", "nDCG@3", "--json").json
    assert compared["measures"]["nDCG@3"]["difference"] > 0.1
    assert compared["measures"]["nDCG@3"]["p_value"] < 0.01


def test_scores_of_a_file_with_scattered_queries_follow_its_rows(run: Run, folder: Path) -> None:
    (folder / "scattered.txt").write_text("1 qid:a 1:0\n0 qid:b 1:0\n0 qid:a 1:0\n1 qid:b 1:0\n")
    for name in ("right.txt", "right.parquet"):
        scores = np.array([2.0, 1.0, 1.0, 2.0])
        if name.endswith("txt"):
            np.savetxt(folder / name, scores)
        else:
            pq.write_table(pa.table({"score": scores}), folder / name)
        found = run("evaluate", name, "-f", "scattered.txt", "-m", "RR", "--json").json
        assert found["measures"]["RR"]["mean"] == 1.0
    (folder / "wrong.txt").write_text("2\n2\n1\n1\n")  # right if the rows had been taken query by query
    found = run("evaluate", "wrong.txt", "-f", "scattered.txt", "-m", "RR", "--json").json
    assert found["measures"]["RR"]["mean"] == 0.75


def test_refusals_are_in_the_words_of_the_shell(run: Run, letor: Path) -> None:
    run("train", "oracle", "-f", letor, "-o", "ranker")
    refused = run("score", letor, "-f", letor, "-o", "scores.csv")
    assert "train.txt is a file, not the folder of a ranker" in _line(refused.err)
    refused = run("evaluate", "absent", "-f", letor)
    assert "absent: no such file or folder; name the folder of a ranker" in _line(refused.err)
    pq.write_table(pa.table({"query_id": [1], "f1": [0.0], "f2": [1.0], "f3": [1.0]}), "bare.parquet")
    refused = run("evaluate", "ranker", "-f", "bare.parquet").err
    assert "bare" in refused
    assert "has no labels" in refused
    description = Path("ranker/ranker.json")
    description.write_bytes(b"\xff" + description.read_bytes())
    assert "ranker/ranker.json: not JSON" in _line(run("score", "ranker", "-f", letor, "-o", "a.csv").err)


def _line(text: str) -> str:
    return " ".join(text.split())
