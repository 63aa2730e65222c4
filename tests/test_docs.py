"""Generated documentation is what the code says now; links lead somewhere; a script does what its page says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api_pages
import httpx
import numpy as np
import pytest
from cli_pages import page_names
from click.testing import CliRunner
from engine_stand_in import StandIn
from shop import PRODUCTS, word_score

import cldrank as cr
import docs
from cldrank.cli import app
from cldrank.errors import CldrankError, CldrankWarning
from cldrank.methods import methods

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [name for name in docs.GENERATED if name.endswith(".md")])
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == docs.GENERATED[name](), f"{name} is stale: run `make docs`"


def test_every_command_has_a_page() -> None:
    folder = ROOT / "docs" / "reference" / "cli"
    assert {f"docs/reference/cli/{page.name}" for page in folder.iterdir()} == set(page_names())


def test_what_methods_share_is_said_once_and_nothing_is_lost() -> None:
    whole = CliRunner().invoke(app, ["train", "ips", "--help"], env={"COLUMNS": "400", "TERM": "dumb"}).output
    offered = set(re.findall(r"(?<![^ │])(--[a-z][a-z0-9-]+)", whole))
    page = (ROOT / "docs" / "reference" / "cli" / "train.md").read_text(encoding="utf-8")
    (shared,) = re.findall(r"^## Options of every method$.*?(?=^## `)", page, re.MULTILINE | re.DOTALL)
    (own,) = re.findall(r"^## `cldrank train ips`$.*?(?=^## `)", page, re.MULTILINE | re.DOTALL)
    for option in offered - {"--help"}:
        assert len(re.findall(rf"^\* `[^`]*{option}[ `]", shared + own, re.MULTILINE)) == 1, option


def test_every_method_has_its_place() -> None:
    table = (ROOT / "docs" / "reference" / "methods.md").read_text(encoding="utf-8")
    commands = (ROOT / "docs" / "reference" / "cli" / "train.md").read_text(encoding="utf-8")
    for name, kind in methods().items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| {kind.label} | `{name}` |")]
        assert kind.sentence in row
        for bias in kind.corrects:
            assert bias in row
        assert commands.count(f"\n## `cldrank train {name}`\n") == 1


# -- the API pages -------------------------------------------------------------------------------------------------

INNER = ("clicks.aggregate", "clicks.imports", "clicks.simulate", "data.synthetic")
ROOMS = ("errors", "experiment", "scoring", "spark", *(name for name in dir(cr) if inspect.ismodule(getattr(cr, name))))
PUBLIC = {
    f"{room}.{name}": getattr(importlib.import_module(room), name)
    for room in ("cldrank", *(f"cldrank.{name}" for name in dict.fromkeys((*ROOMS, *INNER))))
    for name in (dir(cr) if room == "cldrank" else importlib.import_module(room).__all__)
    if name != "__version__"
}
DOCUMENTED = [name for page in sorted(api_pages.PAGES.glob("*.md")) for name in api_pages.names_on(page)]


def test_every_public_name_is_on_one_api_page() -> None:
    shown = [id(api_pages.found(name)) for name in DOCUMENTED]
    public = {name: what for name, what in PUBLIC.items() if not inspect.ismodule(what)}
    assert [name for name, what in public.items() if shown.count(id(what)) != 1] == []
    assert [name for name in DOCUMENTED if name not in public] == []


def test_names_are_documented_where_they_are_shortest() -> None:
    for name in DOCUMENTED:
        others = [other for other, what in PUBLIC.items() if what is api_pages.found(name)]
        assert name.count(".") == min(other.count(".") for other in others), name


@pytest.mark.parametrize("page", sorted(api_pages.PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_an_api_page_begins_with_a_list_of_its_names(page: Path) -> None:
    listed = re.findall(r"^   (cldrank\.[\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == api_pages.names_on(page)


ELSEWHERE = {  # whose example takes more than a docstring: it is run on a page
    "cldrank.SparkDataset": "how-to/scale.md",
    "cldrank.pipeline.run_pipeline": "how-to/pipeline.md",
    "cldrank.experiment.save_report": "how-to/experiments.md",
    "cldrank.evaluation.ClickComparison": "explanation/verdict.md",
    "cldrank.evaluation.ClickEvaluation": "explanation/verdict.md",
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_an_example(name: str) -> None:
    if name in ELSEWHERE:
        assert name.rpartition(".")[2] in (ROOT / "docs" / ELSEWHERE[name]).read_text(encoding="utf-8")
        return
    what = api_pages.found(name)
    if inspect.isclass(what) and issubclass(what, CldrankError | CldrankWarning):
        return  # an example of an error is what raises it
    about = inspect.getdoc(what) or ""
    own = [about, *(inspect.getdoc(one) or "" for one in vars(what).values())] if inspect.isclass(what) else [about]
    assert any(doctest.DocTestParser().get_examples(text) for text in own)


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(<?(?!https?:|#|<)([^)#\s>]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.fixture
def engine() -> Iterator[str]:
    with StandIn("opensearch") as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.address
        server.shutdown()


def test_the_walk_logs_the_features_that_it_defined(engine: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "opensearch.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL))
    features = json.loads(written["features.json"])["featureset"]["features"]
    features[1]["template"] = {"match": {"body": "{{keywords}}"}}  # not every document has a value
    derived = {
        "name": "scaled",
        "params": [],
        "template_language": "derived_expression",
        "template": "title_bm25 * 2.0",
    }
    (tmp_path / "features.json").write_text(json.dumps({"featureset": {"features": features}}), encoding="utf-8")
    (tmp_path / "log_features.py").write_text(written["log_features.py"], encoding="utf-8")
    wanted = {
        "q1": {"keywords": "red shoes", "documents": ["p1", "p3"]},
        "q2": {"keywords": "hat", "documents": ["p1"]},
    }
    (tmp_path / "candidates.json").write_text(json.dumps(wanted), encoding="utf-8")
    for method, path, body in [
        ("PUT", "/_ltr", None),
        ("POST", "/_ltr/_featureset/shop", {"featureset": {"features": features}}),
        ("POST", "/_ltr/_featureset/shop/_addfeatures?merge=true", {"features": [derived]}),  # as of a linear ranker
    ]:
        assert httpx.request(method, engine + path, json=body).status_code == 200
    script = [sys.executable, "log_features.py", "candidates.json", "out.parquet"]
    subprocess.run(script, cwd=tmp_path, check=True, env={**os.environ, "ENGINE": engine})
    data = cr.load(tmp_path / "out.parquet", missing=-1)
    assert data.feature_names == ("title_bm25", "body_bm25", "popularity")
    assert list(data.query_ids) == ["q1", "q2"]
    texts = [(PRODUCTS[one], words) for one, words in (("p1", "red shoes"), ("p3", "red shoes"), ("p1", "hat"))]
    expected = [
        [word_score(one["title"], words) or 0, word_score(one["body"], words) or -1, one["popularity"] or 0]
        for one, words in texts
    ]
    assert data.features == pytest.approx(np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/_ltr/_featureset/shop", {"featureset": {"features": []}}, 404),  # there is no store yet
        ("GET", "/_ltr", None, 404),
        ("POST", "/products/_search", {"query": {"matches": {"title": "x"}}, "rescore": {}}, 400),
        ("POST", "/products/_search", b"{", 406),
    ],
)
def test_the_stand_in_refuses_what_an_engine_refuses(
    engine: str, method: str, path: str, body: dict[str, Any] | bytes | None, status: int
) -> None:
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    assert httpx.request(method, engine + path, **content).status_code == status
