"""Pages of experiments over HTTP: /interleave and /swap."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_rankers
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cldrank.online import interleave, swap
from cldrank.online.interleaving import rows_best_first
from cldrank.rankers import ranker_fingerprint

Client = Callable[..., Any]
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
ROWS = made_rankers.FEATURES[:30].tolist()
IDS = [f"d{place}" for place in range(30)]
NEW, OLD = made_rankers.linear(), made_rankers.voter(1.0, -2.0, 0.5, 0.0)
PAGE = {"ids": IDS, "features": ROWS, "query_id": "q1", "depth": 10, "key": "ada q1"}


def arrow(rows: Any = ROWS, names: tuple[str, ...] = made_rankers.NAMES) -> bytes:
    columns = dict(zip(names, np.array(rows, np.float32).T, strict=True))
    table, sink = pa.table({"id": IDS[: len(rows)], **columns}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.fixture
def service(client: Client) -> Any:
    return client(NEW, against=OLD)


def test_an_interleaved_page_is_that_of_the_library(service: Any) -> None:
    answer = service.post("/interleave", json=PAGE).json()
    page = interleave(NEW.predict(ROWS), OLD.predict(ROWS), 10, "ada q1", ids=IDS)
    assert answer["results"] == page.records()
    names = {"new": ranker_fingerprint(NEW), "old": ranker_fingerprint(OLD)}
    assert {role: ranker["fingerprint"] for role, ranker in answer["rankers"].items()} == names
    assert answer["experiment"] == f"{names['new']}-{names['old']}"
    assert answer["query_id"] == "q1"


def test_a_reload_of_the_page_changes_nothing_and_another_key_does(service: Any) -> None:
    first, again = (service.post("/interleave", json=PAGE).json() for _ in range(2))
    assert first == again
    others = [service.post("/interleave", json={**PAGE, "key": f"p{person}"}).json() for person in range(20)]
    assert len({answer["page_id"] for answer in [first, *others]}) == 21
    assert len({json.dumps(answer["results"]) for answer in others}) > 1
    shorter = service.post("/interleave", json={**PAGE, "depth": 3}).json()
    assert shorter["results"] == first["results"][:3]
    assert shorter["page_id"] != first["page_id"]


def test_a_swapped_page_is_that_of_the_library(service: Any) -> None:
    order = [IDS[row] for row in rows_best_first(NEW.predict(ROWS)).tolist()][:10]
    for person in range(5):
        body = {**PAGE, "key": person, "share": 0.5}
        answer = service.post("/swap", json=body).json()
        assert answer["results"] == swap(order, 0.5, person).records()
        assert answer["ranker"]["fingerprint"] == ranker_fingerprint(NEW)


def test_arrow_gives_the_same_with_settings_in_the_address(service: Any) -> None:
    address = "/interleave?query_id=q1&depth=10&key=ada q1"
    answer = service.post(address, content=arrow(), headers=ARROW)
    assert answer.json() == service.post("/interleave", json=PAGE).json()
    swapped = service.post("/swap?depth=10&key=7&share=1", content=arrow(), headers=ARROW).json()
    assert swapped["results"] == service.post("/swap", json={**PAGE, "key": 7, "share": 1}).json()["results"]
    assert swapped["results"][0]["ranker_id"].startswith("swap-")


def test_rankers_with_different_features_share_the_candidates(client: Client) -> None:
    names = ("shown", *(made_rankers.NAMES[place] for place in (2, 0, 1)))
    old = made_rankers.linear(feature_names=names)
    service = client(NEW, against=old)
    together = (*made_rankers.NAMES, "shown")
    table = np.column_stack([made_rankers.FEATURES[:30], np.linspace(-1, 1, 30)]).astype(np.float32)
    page = interleave(NEW.predict(table[:, :4]), old.predict(table[:, [4, 2, 0, 1]]), 10, "ada q1", ids=IDS)
    answer = service.post("/interleave", json={**PAGE, "features": table.tolist()})
    assert answer.json()["results"] == page.records()
    lacking = [{"id": "d1", "features": dict.fromkeys(made_rankers.NAMES, 1)}]
    refused = service.post("/interleave", json={"candidates": lacking, "depth": 1, "key": 1})
    assert "shown" in refused.json()["error"]
    described = service.get("/openapi.json").json()["components"]["schemas"]
    assert set(described["InterleavedFeatures"]["properties"]) == set(together)
    assert set(described["Features"]["properties"]) == set(made_rankers.NAMES)


def test_what_is_refused(service: Any, client: Client) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("/interleave", {"key": None}, "key"),
        ("/interleave", {"key": [1]}, "key"),
        ("/interleave", {"depth": 0}, "depth"),
        ("/interleave", {"depth": 1001}, "depth"),
        ("/interleave", {"top": 3}, "top"),
        ("/interleave", {"share": 0.5}, "share"),
        ("/interleave", {"ids": ["d0"] * 30}, "'d0'"),
        ("/swap", {}, "share"),
        ("/swap", {"share": 1.5}, "share"),
        ("/rank", {}, "depth"),
    ]
    for path, change, word in cases:
        refused = service.post(path, json={**PAGE, **change})
        assert refused.status_code == 422, (path, change)
        assert word in refused.json()["error"]
    for address, word in (("/interleave?depth=3", "`key`"), ("/swap?key=1&depth=3&share=2", "share")):
        refused = service.post(address, content=arrow(), headers=ARROW)
        assert (refused.status_code, word in refused.json()["error"]) == (422, True)
    assert service.post("/swap?key=1", json=PAGE).status_code == 422
    assert client(NEW).post("/interleave", json=PAGE).status_code == 404


def test_limits_are_those_of_rank(client: Client) -> None:
    service = client(NEW, against=OLD, max_body=3000, max_candidates=3)
    shares: dict[str, dict[str, float]] = {"/interleave": {}, "/swap": {"share": 0.5}}
    for path, more in shares.items():
        body: dict[str, Any] = {"features": ROWS[:4], "depth": 3, "key": "k", **more}
        assert "there are 4 candidates" in service.post(path, json=body).json()["error"]
        assert service.post(path, json={**body, "features": ROWS[:3]}).status_code == 200
        assert service.post(path, json={**body, "features": []}).json()["results"] == []
        assert service.post(path, content=b" " * 3001, headers={"Content-Type": "application/json"}).status_code == 413
        assert service.post(path, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400


odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers())
row = st.lists(st.floats(-9, 9, width=32), min_size=len(made_rankers.NAMES), max_size=len(made_rankers.NAMES))
candidate = st.fixed_dictionaries({}, optional={"id": odd, "features": odd})
nearly = st.fixed_dictionaries(
    {"key": st.text(max_size=2) | st.integers() | odd, "depth": st.integers(-1, 1200) | odd},
    optional={
        "features": st.lists(row, max_size=4) | odd,
        "ids": st.lists(st.text(max_size=2) | st.integers(0, 3), max_size=4) | odd,
        "candidates": st.lists(candidate | odd, max_size=3) | odd,
        "share": st.floats(0, 1) | odd,
        "query_id": odd,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(path=st.sampled_from(["/interleave", "/swap"]), body=(nearly | odd).map(json.dumps) | st.text())
def test_no_body_is_a_fault_of_ours(service: Any, path: str, body: str) -> None:
    sent = body.encode("utf-8", "surrogatepass")
    answer = service.post(path, content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 413, 422), answer.text
    if answer.status_code == 200:
        asked = json.loads(body)
        assert len(answer.json()["results"]) == min(asked["depth"], len(asked["features"]))


def test_examples_of_the_description_work_as_they_are(client: Client) -> None:
    for service in (client(NEW, against=OLD), client(made_rankers.trees(), against=NEW)):
        described = service.get("/openapi.json").json()
        for path in ("/rank", "/interleave", "/swap"):
            example = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
            answer = service.post(path, json=example)
            assert answer.status_code == 200, answer.text
        assert "POST /interleave" in service.get("/docs").text


def test_either_ranker_may_be_swapped(service: Any, tmp_path: Path) -> None:
    bearer = {"Authorization": "Bearer 0123456789abcdef"}
    before = service.post("/interleave", json=PAGE).json()
    NEW.save(tmp_path / "against")
    told = service.post("/reload", headers=bearer).json()
    assert told["ranker"] == told["against"] == {"kind": "linear", "fingerprint": ranker_fingerprint(NEW)}
    after = service.post("/interleave", json=PAGE).json()
    assert after["experiment"] != before["experiment"]
    assert {result["team"] for result in after["results"]} == {"both"}
    health = service.get("/health").json()
    assert health["against"] == health["ranker"] == told["ranker"]
    metrics = service.get("/metrics").text
    assert f'cldrank_ranker_workers{{fingerprint="{ranker_fingerprint(NEW)}",kind="linear"}} 2.0' in metrics
    assert 'cldrank_requests_total{path="/interleave",status="200"} 2.0' in metrics
