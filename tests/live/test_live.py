"""Engines in containers rank MSRD's test candidates as we do: see `examples/compose`. Run weekly, by live.yml.

docker compose --file examples/compose/compose.yaml up --detach --wait opensearch
CLDRANK_LIVE_OPENSEARCH=http://localhost:9200 python -m pytest tests/live
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import check as compose
import numpy as np
import pyarrow.parquet
import pytest

import cldrank as cr
from cldrank.clicks.imports import import_log

FEATURES = (
    "title.bm25", "overview.bm25", "tags.bm25", "actors.bm25", "whole.bm25", "whole.covered_ratio", "q_terms", "year",
    "log_votes", "rating", "log_popularity", "jaccard_title",
)  # fmt: skip  # none is negative, which no engine of Lucene's takes


def live(name: str) -> str:
    """The address of an engine."""
    variable = f"CLDRANK_LIVE_{name.upper()}"
    if variable not in os.environ:
        pytest.skip(f"{variable} names no running engine: see examples/compose")
    return os.environ[variable]


def msrd(folder: Path, split: str) -> cr.RankingDataset:
    whole = cr.load(folder / "msrd" / f"{split}.parquet")
    at = [whole.feature_names.index(name) for name in FEATURES]
    queries = np.repeat(whole.query_ids, np.diff(whole.offsets))
    return cr.RankingDataset.from_arrays(whole.features[:, at], queries, whole.labels, feature_names=FEATURES)


@pytest.mark.parametrize("kind", ["linear", "trees"])
@pytest.mark.parametrize("name", compose.ENGINES)
def test_every_score_is_ours(name: str, kind: str, real_data: Path) -> None:
    address = live(name)
    if (name, kind) == ("elasticsearch", "linear"):
        pytest.skip("Elasticsearch itself takes trees alone")
    model = cr.Linear(scaling="standard:clip=none") if kind == "linear" else cr.Trees(rounds=50)
    ranker = cr.Oracle(model=model).fit(msrd(real_data, "train")).ranker_
    assert compose.check(name, address, ranker, msrd(real_data, "test")) < compose.TOLERANCE


@pytest.mark.parametrize("name", compose.ENGINES)
def test_features_are_collected_as_they_were_indexed(name: str, real_data: Path, tmp_path: Path) -> None:
    address = live(name)
    data = msrd(real_data, "test")[:20]
    compose.check(name, address, cr.Oracle(model=cr.Trees(rounds=2)).fit(data).ranker_, data)
    wanted = {}
    for query, start, end in zip(data.query_ids, data.offsets[:-1], data.offsets[1:], strict=True):
        wanted[str(query)] = {"keywords": "", "documents": [f"{query}_{at}" for at in range(start, end)]}
    (tmp_path / "queries.json").write_text(json.dumps(wanted))
    command = ["features", "collect", "--from", name, address, "--queries", str(tmp_path / "queries.json")]
    given = ["--featureset", compose.MODEL, "--out", str(tmp_path / "collected.parquet")]
    subprocess.run([sys.executable, "-m", "cldrank", *command, *given], check=True)
    collected = cr.load(tmp_path / "collected.parquet")
    fields = list(compose.field_names(data).values())
    at = [collected.feature_names.index(field) for field in fields if field in collected.feature_names]
    assert at  # those that the trees use
    rows = [int(str(document).rpartition("_")[2]) for document in collected.doc_ids]
    ours = [fields.index(collected.feature_names[column]) for column in at]
    np.testing.assert_array_equal(collected.features[:, at], data.features[rows][:, ours])


def test_what_opensearch_keeps_of_ubi_is_imported(tmp_path: Path) -> None:
    address = live("opensearch")
    for index in ("ubi_queries", "ubi_events"):
        compose.call("DELETE", f"{address}/{index}")
    compose.call("POST", f"{address}/_plugins/ubi/initialize")
    compose.call("DELETE", f"{address}/movies")
    movies = {one: {"title": f"Alien {one}"} for one in ("a", "b", "c")}
    for one, movie in movies.items():
        compose.call("PUT", f"{address}/movies/_doc/{one}?refresh=true", movie)
    ubi = {"query_id": "page-1", "user_query": "Alien", "client_id": "u1", "application": "live"}
    body = {"query": {"match": {"title": "alien"}}, "ext": {"ubi": ubi}}
    shown = [hit["_id"] for hit in compose.call("POST", f"{address}/movies/_search", body)["hits"]["hits"]]
    assert sorted(shown) == sorted(movies)
    for position, document in enumerate(shown, start=1):
        for action in ("impression", "click")[: 1 + (position == 2)]:
            seen = {"object": {"object_id": document}, "position": {"ordinal": position}}
            event = {"action_name": action, "query_id": "page-1", "timestamp": f"2026-05-06T10:00:0{position}Z"}
            compose.call("POST", f"{address}/ubi_events/_doc?refresh=true", {**event, "event_attributes": seen})
    for index in ("ubi_queries", "ubi_events"):
        for _ in range(60):  # queries are indexed in the background
            hits = compose.call("POST", f"{address}/{index}/_search", {"size": 100})["hits"]["hits"]
            if hits:
                break
            time.sleep(1)
        (tmp_path / f"{index}.jsonl").write_text("".join(json.dumps(hit) + "\n" for hit in hits))
    queries, events = tmp_path / "ubi_queries.jsonl", tmp_path / "ubi_events.jsonl"
    import_log("ubi", out=tmp_path / "log.parquet", queries=queries, events=events)
    log = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [(row["query_id"], row["doc_id"], row["position"], bool(row["clicked"])) for row in log] == [
        ("alien", document, position, position == 2) for position, document in enumerate(shown, start=1)
    ]
