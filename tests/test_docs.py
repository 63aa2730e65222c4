"""Generated documentation is what the code says now; links lead somewhere; a script does what its page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import cldrank as cr
import docs
from cldrank.estimators import methods

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["docs/cli.md", "docs/datasets.md", "docs/methods.md", "docs/propensity-methods.md"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == docs.GENERATED[name](), f"{name} is stale: run `make docs`"


def test_every_method_has_its_place() -> None:
    table = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    commands = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, kind in methods().items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| {kind.label} | `{name}` |")]
        assert kind.sentence in row
        for bias in kind.corrects:
            assert bias in row
        assert commands.count(f"### `cldrank train {name}`\n") == 1


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


class PluginStandIn(BaseHTTPRequestHandler):
    """Answers a search as the Learning to Rank plugin does; a linear ranker's derived features are in its set too."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        terms, logging = body["query"]["bool"]["filter"]
        assert logging["sltr"]["featureset"] == "shop"
        assert body["ext"]["ltr_log"]["log_specs"]["named_query"] == logging["sltr"]["_name"]
        size = float(len(logging["sltr"]["params"]["keywords"]))
        hits = []
        for number, document in enumerate(terms["terms"]["_id"]):
            entries = [
                {"name": "title_bm25", "value": size},
                {"name": "body_bm25"} if number else {"name": "body_bm25", "value": 0.5},  # the others do not match
                {"name": "popularity", "value": float(number)},
                {"name": "title_bm25_scaled", "value": -1.5},
            ]
            hits.append(
                {"_id": document, "fields": {"_ltrlog": [{body["ext"]["ltr_log"]["log_specs"]["name"]: entries}]}}
            )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"hits": {"hits": hits[: body["size"]]}}).encode())

    def log_message(self, *_: object) -> None:
        """Nothing, instead of a line per request."""


@pytest.fixture
def plugin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), PluginStandIn) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_walk_logs_the_features_that_it_defined(plugin: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "shipping.md").read_text(encoding="utf-8")
    (features,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (script,) = re.findall(r"```python\n(\"\"\"Log features.*?)```", page, re.DOTALL)
    (tmp_path / "features.json").write_text(features, encoding="utf-8")
    (tmp_path / "log_features.py").write_text(script.replace("http://localhost:9200", plugin), encoding="utf-8")
    wanted = {"q1": {"keywords": "red shoes", "documents": ["a", "b"]}, "q2": {"keywords": "hat", "documents": ["a"]}}
    (tmp_path / "candidates.json").write_text(json.dumps(wanted), encoding="utf-8")
    subprocess.run([sys.executable, "log_features.py", "candidates.json", "out.parquet"], cwd=tmp_path, check=True)
    data = cr.load(tmp_path / "out.parquet", missing=-1)
    assert data.feature_names == ("title_bm25", "body_bm25", "popularity")
    assert data.features.tolist() == [[9, 0.5, 0], [9, -1, 1], [3, 0.5, 0]]
    assert list(data.query_ids) == ["q1", "q2"]
