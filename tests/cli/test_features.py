"""`cldrank features collect`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_stand_in import StandIn

import cldrank as cr
from cldrank.errors import CldrankError

Run = Callable[..., Any]
EXTRACTOR = {"feature_name": "title_bm25", "query": {"match": {"title": "{{query}}"}}}


@pytest.fixture
def words(folder: Path) -> Iterator[list[str]]:
    """A command that collects from a stand-in."""
    server = StandIn("elasticsearch")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    content = {"learning_to_rank": {"feature_extractors": [{"query_extractor": EXTRACTOR}]}}
    (folder / "features.json").write_text(json.dumps(content))
    (folder / "queries.csv").write_text("query_id,query\nq1,red shoes\nq2,blue hat\n")
    search = json.dumps({"multi_match": {"query": "{{query}}", "fields": ["title", "body"]}})
    own = ["--url", f"{server.address}/products", "--queries", "queries.csv", "--featureset", "features.json"]
    yield ["features", "collect", "--from", "elasticsearch", *own, "--search", search, "--out", "out.parquet"]
    server.shutdown()
    server.server_close()


def test_it_writes_candidates_with_features(run: Run, words: list[str]) -> None:
    ran = run(*words, "--size", "5")
    assert ran.code == 0, ran.err
    assert "10 candidates of 2 queries; 0 queries without any, " in ran.out
    assert cr.load("out.parquet").feature_names == ("title_bm25",)
    told = run(*words, "--size", "5", "--json").json
    assert (told["queries"], told["rows"], told["featureset"][:23]) == (2, 10, "elasticsearch:features@")


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        (("--url", "http://me:secret@localhost/products"), 2, "without a name or password"),
        (("--search", "red shoes"), 2, "--search must be a query in JSON"),
        (("--queries", "features.json"), 1, "there are no queries"),
        (("--featureset", "queries.csv"), 1, "not a feature set of elasticsearch"),
        (("--out", "out.csv"), 2, "must end in .parquet"),
    ],
)
def test_errors(run: Run, words: list[str], changed: tuple[str, str], code: int, said: str) -> None:
    words[words.index(changed[0]) + 1] = changed[1]
    ran = run(*words)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert "secret" not in ran.err


def test_what_is_there_is_kept_where_it_fails(run: Run, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CldrankError("the disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr("cldrank.collect.collecting._joined", fail)
        ran = run(*words)
    assert ran.code == 1
    assert "kept in out.parquet.parts; the same command goes on from there" in ran.err
    assert "another --size" in run(*words, "--size", "5").err
    assert run(*words).code == 0
