"""Engines in containers rank MSRD's test candidates as we do: see `examples/compose`. Run weekly, by live.yml.

docker compose --file examples/compose/compose.yaml up --detach --wait opensearch
CLDRANK_LIVE_OPENSEARCH=http://localhost:9200 python -m pytest tests/live
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import check as compose
import numpy as np
import pyarrow.parquet
import pytest

import cldrank as cr
from cldrank.scaling import Standard

FEATURES = (
    "title.bm25", "overview.bm25", "tags.bm25", "actors.bm25", "whole.bm25", "whole.covered_ratio", "q_terms", "year",
    "log_votes", "rating", "log_popularity", "jaccard_title",
)  # fmt: skip  # none is negative, which no engine of Lucene's takes
COLLECTED = {  # the definitions that `check` leaves, and what finds the candidates of a query by its id
    "opensearch": ("featureset.json", '{"term": {"query_s": "{{query}}"}}'),
    "elasticsearch": ("features.json", '{"term": {"query_s": "{{query}}"}}'),
    "solr": ("features.json", "{!term f=query_s v=$qq}"),
    "vespa": ("logged.profile", f"select * from {compose.INDEX} where userQuery()"),
}


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
def test_every_score_is_ours(name: str, kind: str, real_data: Path, tmp_path: Path) -> None:
    address = live(name)
    if (name, kind) == ("elasticsearch", "linear"):
        pytest.skip("Elasticsearch itself takes trees alone")
    model = cr.Linear(scaling=Standard(clip=None)) if kind == "linear" else cr.Trees(rounds=50)
    ranker = cr.Oracle(model=model).fit(msrd(real_data, "train")).ranker_
    difference = compose.check(name, address, ranker, msrd(real_data, "test"), tmp_path / "export")
    assert difference < compose.TOLERANCE


@pytest.mark.parametrize("name", compose.ENGINES)
def test_features_are_collected_as_they_were_indexed(name: str, real_data: Path, tmp_path: Path) -> None:
    address = live(name)
    data = msrd(real_data, "test")[:20]
    ranker = cr.Oracle(model=cr.Trees(rounds=20)).fit(msrd(real_data, "train")).ranker_
    compose.check(name, address, ranker, data, tmp_path / "export")
    (tmp_path / "queries.csv").write_text("\n".join(["query_id", *map(str, data.query_ids)]))
    definitions, search = COLLECTED[name]
    index = f"/{compose.INDEX}" if "search" in name else ""
    command = ["features", "collect", "--from", name, "--url", address + index, "--search", search]
    command += ["--queries", str(tmp_path / "queries.csv"), "--featureset", str(tmp_path / "export" / definitions)]
    subprocess.run([sys.executable, "-m", "cldrank", *command, "--out", str(tmp_path / "found.parquet")], check=True)
    found = cr.load(tmp_path / "found.parquet")
    fields = list(compose.field_names(data).values())
    columns = [fields.index(re.sub(r"attribute\((\w+)\)", r"\1", name)) for name in found.feature_names]
    assert found.doc_ids is not None
    rows = [int(str(document).rpartition("_")[2]) for document in found.doc_ids]
    assert sorted(rows) == list(range(data.n_rows))
    np.testing.assert_array_equal(found.features, data.features[rows][:, columns])


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
    for _ in range(60):  # the plugin writes in the background
        if compose.call("POST", f"{address}/ubi_queries/_search", {})["hits"]["hits"]:
            break
        time.sleep(1)
    command = ["clicks", "import", "--from", "ubi", "--url", address, "--out", str(tmp_path / "log.parquet")]
    subprocess.run([sys.executable, "-m", "cldrank", *command], check=True)
    log = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [(row["query_id"], row["doc_id"], row["position"], bool(row["clicked"])) for row in log] == [
        ("alien", document, position, position == 2) for position, document in enumerate(shown, start=1)
    ]
