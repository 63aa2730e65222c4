"""Collecting from stand-ins of all engines: values, resumption, what a log adds, and engines that fail."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_stand_in import Handler, StandIn
from shop import PRODUCTS, features, searches

import cldrank as cr
from cldrank.collect import Collected, FeatureSet, collect_features, collecting
from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.web import Client

TEXTS = {f"q{number}": searches()[f"q{number}"]["keywords"] for number in range(1, 13)}
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
SEARCHES = {
    "opensearch": '{"multi_match": {"query": "{{keywords}}", "fields": ["title", "body"]}}',
    "elasticsearch": '{"multi_match": {"query": "{{query}}", "fields": ["title", "body"]}}',
    "solr": "{!edismax qf='title body' v=$qq}",
    "vespa": "select * from product where userQuery()",
}
PATHS = {"opensearch": "/products", "elasticsearch": "/products", "solr": "/solr/products", "vespa": ""}
LISTS = {"opensearch": ("featureset", "features"), "elasticsearch": ("learning_to_rank", "feature_extractors")}


def feature_file(engine: str) -> str:
    """The features that the page of an engine defines."""
    found = re.search(r"<!-- file: \S+ -->\n```\w+\n(.*?)```", (PAGES / f"{engine}.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def definitions(engine: str, text: str) -> list[Any]:
    content = json.loads(text)
    for key in LISTS.get(engine, ()):
        content = content[key]
    return list(content)


class Shop:
    """A stand-in with its features uploaded, and the arguments that collect from it."""

    def __init__(self, engine: str, folder: Path, server: StandIn) -> None:
        self.engine, self.folder, self.server = engine, folder, server
        text = feature_file(engine)
        (folder / "features").write_text(text)
        pq.write_table(pa.table({"query_id": list(TEXTS), "query": list(TEXTS.values())}), folder / "queries.parquet")
        stand_in = server.engine
        if engine == "opensearch":
            stand_in.store = True
            stand_in.define("shop", [], definitions(engine, text))
        elif engine == "solr":
            stand_in.features["shop"] = definitions(engine, text)
        elif engine == "vespa":
            stand_in.files = {"schemas/product/log_features.profile": text.encode()}

    def collect(self, out: str = "out.parquet", **options: Any) -> Collected:
        arguments = {"queries": self.folder / "queries.parquet", "search": SEARCHES[self.engine], "size": 8, **options}
        path = self.folder / "features"
        return collect_features(
            self.engine, self.server.address + PATHS[self.engine], featureset=path, out=self.folder / out, **arguments
        )

    def rows(self, out: str = "out.parquet") -> dict[tuple[str, str], list[float | None]]:
        table = pq.read_table(self.folder / out).to_pylist()
        return {(row.pop("query_id"), row.pop("doc_id")): list(row.values()) for row in table}


@contextmanager
def serving(engine: str) -> Iterator[StandIn]:
    server = StandIn(engine)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    engine = getattr(request, "param", "opensearch")
    with serving(engine) as server:
        yield Shop(engine, tmp_path, server)


@pytest.mark.parametrize("shop", list(PATHS), indirect=True)
class TestEngines:
    def test_values_are_those_of_the_engine(self, shop: Shop) -> None:
        result = shop.collect()
        assert (result.queries, result.rows) == (len(TEXTS), len(TEXTS) * 8)
        true = {(row.pop("query_id"), row.pop("doc_id")): list(row.values()) for row in features().to_pylist()}
        for (query, document), values in shop.rows().items():
            expected = true.get((query, document))
            if expected is not None:
                if shop.engine == "vespa" and PRODUCTS[document]["popularity"] is None:
                    expected[2] = None  # missing, and left so
                np.testing.assert_allclose(np.array(values, float), np.array(expected, float), rtol=1e-6)
        assert result.missing == (
            sum(values[2] is None for values in shop.rows().values()) if shop.engine == "vespa" else 0
        )

    def test_what_was_shown_is_asked_for_by_id(self, shop: Shop) -> None:
        pq.write_table(
            pa.table({"query_id": ["q1", "q1", "q1"], "doc_id": ["p1", "p126", "p999"]}), shop.folder / "log.parquet"
        )
        result = shop.collect(log=shop.folder / "log.parquet")
        assert (result.shown, result.not_found, result.gone) == (3, 2, 1)
        assert ("q1", "p126") in shop.rows()
        assert "1 that are gone" in str(result)


@pytest.mark.parametrize("shop", list(PATHS), indirect=True)
class TestServing:
    def test_the_export_defines_features_as_they_were_collected(self, shop: Shop) -> None:
        shop.collect(size=4)
        data = cr.load(shop.folder / "out.parquet")
        labelled = replace(data, labels=np.arange(data.n_rows, dtype=np.float32) % 3)
        ranker = cr.Oracle(model=cr.Trees(rounds=3, min_weight=0.1)).fit(labelled).ranker_
        assert ranker.provenance.featureset == data.featureset
        wanted: dict[str, Any] = {"name": "shop", "check": data}
        shipped = cr.export_ranker(
            ranker, shop.engine, shop.folder / "a", featureset=shop.folder / "features", **wanted
        )
        assert not shipped.to_do
        files = {name: text.decode() for name, text in shipped.exported.files.items()}
        if shop.engine == "vespa":
            assert set(files) == {"shop.profile", "models/shop.json", "README.md"}
        else:
            own = definitions(shop.engine, files["featureset.json" if shop.engine == "opensearch" else "features.json"])
            assert own
            assert all(one in definitions(shop.engine, feature_file(shop.engine)) for one in own)
        other = feature_file(shop.engine).replace("body_bm25", "other").replace("bm25(body)", "bm25(other)")
        (shop.folder / "features").write_text(other)
        with pytest.raises(UsageError, match="was trained on"):
            cr.export_ranker(ranker, shop.engine, shop.folder / "b", featureset=shop.folder / "features", **wanted)


def test_logged_features_go_first(shop: Shop) -> None:
    shop.collect()
    before = shop.rows()
    own = [{"popularity": 7.5}, {"title_bm25": None, "body_bm25": 1.0, "popularity": 2.0}]
    rows = {"query_id": ["q1"] * 4, "doc_id": ["p1", "p1", "p999", "p2"], "timestamp": [2, 1, 1, 1]}
    rows["features"] = [json.dumps(values) for values in (own[0], {"popularity": 1.0}, own[1], {"other": 1})]
    pq.write_table(pa.table(rows), shop.folder / "log.parquet")
    result = shop.collect(log=shop.folder / "log.parquet")
    after = shop.rows()
    assert after["q1", "p1"] == [*before["q1", "p1"][:2], 7.5]
    assert after["q1", "p999"] == [None, 1.0, 2.0]
    assert after["q1", "p2"] == before["q1", "p2"]
    assert (result.shown, result.logged, result.changed, result.gone) == (3, 2, 1, 0)


def test_ids_of_a_log_may_be_numbers_and_what_it_misses_counts(shop: Shop) -> None:
    queries, rows = pa.table({"query_id": [1], "query": ["red shoes"]}), {"query_id": [1.0, None], "doc_id": [5.0, 6.0]}
    rows["features"] = ['{"title_bm25": NaN, "body_bm25": 1, "popularity": 2}', None]
    pq.write_table(queries, shop.folder / "queries.parquet")
    pq.write_table(pa.table(rows), shop.folder / "log.parquet")
    result = shop.collect(log=shop.folder / "log.parquet")
    assert (result.shown, result.logged, result.missing) == (1, 1, 1)
    assert shop.rows()["1", "5"] == [None, 1.0, 2.0]
    assert cr.load(shop.folder / "out.parquet").has_missing


def test_a_rank_profile_may_have_a_dash(tmp_path: Path) -> None:
    (tmp_path / "a.profile").write_text("rank-profile log-features { match-features: bm25(title) }")
    assert FeatureSet.read(tmp_path / "a.profile", "vespa").name == "log-features"


def test_an_interrupted_run_goes_on_and_ends_in_the_same_file(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_PART", 4)
    shop.collect("whole.parquet")
    seen: list[int] = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.collect(progress=stop)
    assert not (shop.folder / "out.parquet").exists()
    with pytest.raises(UsageError, match="another `size`"):
        shop.collect(size=7)
    result = shop.collect()
    assert result.resumed == 8
    assert (shop.folder / "out.parquet").read_bytes() == (shop.folder / "whole.parquet").read_bytes()
    assert not (shop.folder / "out.parquet.parts").exists()


class Failing:
    """Answers of a stand-in, some of them replaced: (status, headers, content) or None to leave it as it is."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int], tuple[int, dict[str, str], Any] | None]
    ) -> None:
        self.calls, self.headers = 0, []  # type: ignore[var-annotated]
        whole = Handler.handle_any

        def handle(handler: Handler) -> None:
            self.calls += 1
            self.headers.append(handler.headers.get("Authorization"))
            replaced = answer(self.calls)
            if replaced is None:
                return whole(handler)
            status, headers, content = replaced
            handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            handler.send_response(status)
            text = json.dumps(content).encode()
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(text)
            return None

        monkeypatch.setattr(Handler, "do_POST", handle)


class TestFailures:
    def test_a_busy_engine_is_asked_again_and_partial_answers_too(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cldrank.web._FIRST_WAIT", 0.001)
        partial = {"_shards": {"failed": 1}, "hits": {"hits": []}}
        bad = {1: (429, {"Retry-After": "0"}, {}), 3: (503, {}, {}), 5: (200, {}, partial)}
        failing = Failing(monkeypatch, bad.get)
        assert shop.collect().rows == len(TEXTS) * 8
        assert failing.calls == len(TEXTS) + 3

    def test_a_refusal_ends_it_without_secrets(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLDRANK_ENGINE_API_KEY", "secret")
        failing = Failing(monkeypatch, lambda _: (401, {}, {"error": "who are you?"}))
        with pytest.raises(CldrankError, match=r"_search answers 401: .*who are you.*PASSWORD: not set") as error:
            shop.collect(threads=1)
        assert set(failing.headers) == {"ApiKey secret"}
        assert "secret" not in str(error.value)
        assert "secret" not in (shop.folder / "out.parquet.parts" / "run.json").read_text()

    def test_answers_of_another_form_are_refused(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        Failing(monkeypatch, lambda _: (200, {}, {"hits": {"hits": [{"_id": "p1"}]}}))
        with pytest.raises(DataError, match="not a search engine that answers as opensearch does"):
            shop.collect()

    def test_another_feature_set_in_the_engine_is_refused(self, shop: Shop) -> None:
        shop.server.engine.sets["shop"] = definitions("opensearch", feature_file("opensearch"))[:2]
        with pytest.raises(DataError, match="only one of them has popularity"):
            shop.collect()

    @pytest.mark.parametrize("shop", ["opensearch", "elasticsearch"], indirect=True)
    def test_documents_without_the_id_are_refused(self, shop: Shop) -> None:
        with pytest.raises(DataError, match="a document has no 'sku'; `id_field`"):
            shop.collect(id_field="sku")

    @pytest.mark.parametrize("url", ["http://[bad", "http://localhost:port", "http://localhost/products?a=1"])
    def test_what_is_no_address(self, url: str) -> None:
        with pytest.raises(UsageError, match="`url` must be an address"):
            Client(url)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("CLDRANK_ENGINE_TOKEN", "secr\net", "no header"),
            ("CLDRANK_ENGINE_TOKEN", "secré", "no header"),
            ("SSL_CERT_FILE", "nowhere.pem", "nowhere.pem: no such file"),
        ],
    )
    def test_what_the_environment_holds(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
    ) -> None:
        monkeypatch.setenv(name, value)
        with pytest.raises(UsageError, match=message) as error:
            Client("https://localhost:9")
        assert "secr" not in str(error.value)

    @pytest.mark.parametrize("wrong", [{"size": 0}, {"threads": 0}, {"retries": -1}, {"per_second": 0}])
    def test_numbers_out_of_range(self, shop: Shop, wrong: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match=f"`{next(iter(wrong))}` must be"):
            shop.collect(**wrong)

    def test_no_engine_there(self, shop: Shop) -> None:
        shop.server.shutdown()
        shop.server.server_close()
        with pytest.raises(CldrankError, match="does not answer"):
            shop.collect(retries=0)


class TestQueries:
    def collected(self, shop: Shop, lines: list[dict[str, Any]]) -> set[str]:
        path = shop.folder / "queries.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        shop.collect(queries=path)
        return {query for query, _ in shop.rows()}

    def test_of_ubi(self, shop: Shop) -> None:
        lines = [{"query_id": str(n), "user_query": text} for n, text in enumerate(["Red  Shoes", "red shoes", None])]
        assert self.collected(shop, lines) == {"red shoes"}

    def test_ids_that_are_texts(self, shop: Shop) -> None:
        assert self.collected(shop, [{"query_id": "blue hat"}, {"query_id": "blue hat"}]) == {"blue hat"}

    def test_several_texts_or_none_are_refused(self, shop: Shop) -> None:
        with pytest.raises(DataError, match="has 2 texts"):
            self.collected(shop, [{"query_id": "1", "query": "a"}, {"query_id": "1", "query": "b"}])
        with pytest.raises(DataError, match="'2' has 0 texts"):
            self.collected(shop, [{"query_id": "1", "query": "a"}, {"query_id": "2", "query": " "}])
