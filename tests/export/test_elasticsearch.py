from __future__ import annotations

import base64
import gzip
import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import made_rankers as made
import numpy as np
import pytest
import tricky

from cldrank.errors import UsageError
from cldrank.export import Parity, export_ranker
from cldrank.export.format import Exported, ExportRequest, InexpressibleError
from cldrank.export.formats.elasticsearch import ElasticSearch
from cldrank.export.replay import NamedTable
from cldrank.export.replay import elasticsearch_replay as replay
from cldrank.rankers import Ranker

FORMAT = ElasticSearch()


def exported(ranker: Ranker, **request: Any) -> Exported:
    return FORMAT.export(ranker, ExportRequest(**request))


def compared(ranker: Ranker, rows: Any, **request: Any) -> Parity:
    return tricky.compared(FORMAT, ranker, rows, **request)


def definition_of(written: Exported) -> dict[str, Any]:
    """What eland makes of the files."""
    extractors = json.loads(written.files["features.json"])["learning_to_rank"]["feature_extractors"]
    names = [entry["query_extractor"]["feature_name"] for entry in extractors]
    return replay.definition_by_eland(written.files["model.json"], names)


class TestEland:
    """What eland makes of thresholds: nine digits, which as a double are not the float32."""

    @pytest.mark.parametrize("threshold", [0.7, 2.20631, 123456.79])
    def test_thresholds_survive_as_float32(self, threshold: float) -> None:
        ranker = tricky.stump(threshold)
        rows = np.array([[np.nextafter(np.float32(threshold), np.float32(side))] for side in (-1, 1e9)])
        rows = np.concatenate([rows, [[np.float32(threshold)]]]).astype(np.float32)
        table = NamedTable(("x",), rows)
        assert ranker.predict(rows).tolist() == [1, 2, 2]
        assert replay.ensemble_scores(definition_of(exported(ranker)), table).tolist() == [1, 2, 2]


@pytest.mark.parametrize("version", [None, "8.12"])
def test_trees_split_alike_at_thresholds_and_where_values_are_missing(version: str | None) -> None:
    ranker = made.trees(rounds=20)
    rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
    found = compared(ranker, rows, version=version)
    assert found.largest <= 5e-7 * found.scale  # XGBoost adds leaves up in float32, Elasticsearch in double
    assert found.swapped == 0


def test_features_that_the_trees_use_have_placeholders() -> None:
    files = exported(made.trees(), renamed={"bm25": "title_bm25"}).files
    extractors = json.loads(files["features.json"])["learning_to_rank"]["feature_extractors"]
    assert [one["query_extractor"]["feature_name"] for one in extractors] == [
        "title_bm25",
        "pagerank",
        "clicks",
    ]  # no split asks for länge, so Elasticsearch need not compute it
    assert extractors[0]["query_extractor"]["query"] == {"match": {"TODO": "{{query}}"}}
    assert exported(made.trees()).to_fill == {"features.json": ["bm25", "pagerank", "clicks"]}


class Recorder(BaseHTTPRequestHandler):
    """Stands in for Elasticsearch 9.2, and keeps what it is sent."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, body))  # type: ignore[attr-defined]
        content: dict[str, Any] = {"version": {"number": "9.2.0", "build_flavor": "default"}, "model_id": "mine"}
        text = json.dumps(content).encode()
        self.send_response(404 if self.command == "DELETE" else 200)
        for name, value in {"X-Elastic-Product": "Elasticsearch", "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture(name="server")
def _server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        server.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class TestUpload:
    """The script that is written, run by Python and eland themselves."""

    def folder(self, tmp_path: Path, *, complete: bool = True, reverse: bool = False) -> Path:
        export_ranker(made.trees(rounds=20), "elasticsearch", tmp_path / "out", name="mine")
        path = tmp_path / "out" / "features.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        if reverse:
            content["learning_to_rank"]["feature_extractors"].reverse()
        text = json.dumps(content)
        path.write_text(text.replace("TODO", "title") if complete else text, encoding="utf-8")
        return tmp_path / "out"

    def test_it_sends_the_exact_trees_and_the_completed_features(
        self, server: ThreadingHTTPServer, tmp_path: Path
    ) -> None:
        script = self.folder(tmp_path, reverse=True) / "upload.py"  # nor does the order of features.json matter
        words = [sys.executable, str(script), f"http://127.0.0.1:{server.server_address[1]}"]
        found = subprocess.run(words, capture_output=True, text=True)
        assert found.stdout == "uploaded: mine\n", found.stderr
        (put,) = [entry for entry in server.seen if entry[0] == "PUT"]  # type: ignore[attr-defined]
        assert put[1] == "/_ml/trained_models/mine"
        body = json.loads(put[2])
        assert "input" not in body
        extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
        assert extractors[0] == {
            "query_extractor": {"feature_name": "bm25", "query": {"match": {"title": "{{query}}"}}}
        }
        assert [one["query_extractor"]["feature_name"] for one in extractors] == list(tricky.ENGINE_NAMES)
        sent = json.loads(gzip.decompress(base64.b64decode(body["compressed_definition"])))
        assert sent == replay.definition_by_eland(made.trees(rounds=20).content, list(tricky.ENGINE_NAMES))
        rows = tricky.with_gaps(tricky.at_thresholds(made.trees(rounds=20), made.FEATURES))
        table = NamedTable(tricky.ENGINE_NAMES, rows)
        ours = definition_of(exported(made.trees(rounds=20)))
        assert np.array_equal(replay.ensemble_scores(sent, table), replay.ensemble_scores(ours, table))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["http://127.0.0.1:9"], "features.json still has a TODO; complete its queries first"),
            ([], "usage: python upload.py http://localhost:9200"),
        ],
    )
    def test_it_says_what_it_lacks(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], message: str
    ) -> None:
        script = self.folder(tmp_path, complete=False) / "upload.py"
        monkeypatch.setattr(sys, "argv", [str(script), *words])
        with pytest.raises(SystemExit, match=message):
            runpy.run_path(str(script), run_name="__main__")


class TestRefusals:
    @pytest.mark.parametrize(
        ("ranker", "words"),
        [
            (made.linear, "export it to ONNX Runtime, OpenSearch, Solr or Vespa, or train"),
            (made.borda, "it takes rankers of the kind trees; train such a ranker"),
        ],
    )
    def test_other_rankers_are_refused_with_a_way_out(self, ranker: Any, words: str) -> None:
        with pytest.raises(InexpressibleError, match=words):
            exported(ranker())

    @pytest.mark.parametrize("name", ["My-model", "x" * 65])
    def test_names_that_elasticsearch_does_not_take_are_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match="must be at most 64 lowercase letters"):
            exported(made.trees(), name=name)
        exported(made.trees(), name="a.b_c-1")
