from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import made_rankers
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cldrank import segments
from cldrank.rankers import LinearRanker, ranker_fingerprint
from cldrank.scaling import fit
from cldrank.service import app as app_module
from cldrank.service import served as served_module

Client = Callable[..., Any]
TOKEN = "0123456789abcdef"  # noqa: S105  that of the clients made here
ARROW = "application/vnd.apache.arrow.stream"
ROWS = made_rankers.FEATURES[:40].tolist()
IDS = [f"d{place}" for place in range(40)]
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def ask(service: Any, **body: Any) -> Any:
    return service.post("/rank", json=body)


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_candidates_come_back_in_the_order_of_the_ranker(client: Client, kind: str) -> None:
    ranker = getattr(made_rankers, kind)()
    found = ask(client(ranker), query_id="q1", ids=IDS, features=ROWS, top=7).json()
    scores = ranker.predict(ROWS)
    order = segments.descending_order(scores, np.array([0, 40]))[:7]
    assert found["query_id"] == "q1"
    assert found["ranker"] == {"kind": kind, "fingerprint": ranker_fingerprint(ranker)}
    assert found["ranked"] == [
        {"id": IDS[row], "score": scores[row], "rank": rank} for rank, row in enumerate(order.tolist(), 1)
    ]


def test_ties_are_broken_as_everywhere(client: Client) -> None:
    found = ask(client(), ids=IDS, features=[ROWS[0]] * 40).json()["ranked"]
    order = segments.descending_order(np.zeros(40), np.array([0, 40]))
    assert [one["id"] for one in found] == [IDS[row] for row in order.tolist()]
    assert [one["rank"] for one in found] == list(range(1, 41))


def test_all_forms_give_the_same(client: Client) -> None:
    service = client(made_rankers.trees())
    expected = ask(service, ids=IDS, features=ROWS, query_id="q").json()
    named = [
        {"id": one, "features": dict(zip(made_rankers.NAMES, row, strict=True))}
        for one, row in zip(IDS, ROWS, strict=True)
    ]
    assert ask(service, candidates=named, query_id="q").json() == expected
    columns = dict(zip(made_rankers.NAMES, made_rankers.FEATURES[:40].T, strict=True))
    table, sink = pa.table({"id": IDS, **columns}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": ARROW}
    assert service.post("/rank?query_id=q", content=sink.getvalue(), headers=headers).json() == expected
    answer = service.post("/rank?query_id=q&top=3", content=sink.getvalue(), headers=headers)
    assert answer.json()["ranked"] == expected["ranked"][:3]


def test_a_large_body_is_ranked_in_a_thread_alike(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    service = client()
    expected = ask(service, features=ROWS).json()
    monkeypatch.setattr(app_module, "LARGE", 100)
    assert ask(service, features=ROWS).json() == expected
    assert ask(service, features=[[1]] * 100).status_code == 422


def post_raw(service: Any, path: str = "/rank", content: Any = b"{}", **headers: str) -> Any:
    named = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
    return service.post(path, content=content, headers=named)


def test_statuses_of_what_is_refused(client: Client) -> None:
    service = client(max_body=1000, max_candidates=3)
    cases = [
        (post_raw(service, content=b"{"), 400, "not JSON"),
        (post_raw(service, content=b"nothing", Content_Type=ARROW), 400, "not an Arrow IPC stream"),
        (post_raw(service, Content_Type="text/plain"), 415, "not text/plain"),
        (post_raw(service, Content_Encoding="gzip"), 415, "compressed ('gzip')"),
        (post_raw(service, content=b" " * 1001), 413, "larger than 1,000 bytes"),
        (ask(service, features=ROWS[:4]), 422, "there are 4 candidates"),
        (post_raw(service, "/rank?top=3"), 422, "into the JSON body"),
        (post_raw(service, "/rank?k=1", b"", Content_Type=ARROW), 422, "'k'"),
        (service.get("/rank"), 405, "/rank does not take GET"),
        (service.get("/nowhere"), 404, "there is no /nowhere"),
    ]
    for answer, status, words in cases:
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
        assert list(answer.json()) == ["error"]
        assert words in answer.json()["error"]
    assert (
        post_raw(service, content=b'{"features": []}', Content_Type="Application/JSON; charset=utf-8").status_code
        == 200
    )


def test_a_body_in_chunks_is_counted_and_timed(client: Client) -> None:
    async def chunks(stuck: bool) -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 100
            if stuck:
                await asyncio.Event().wait()

    large = post_raw(client(max_body=1000), content=chunks(stuck=False))
    assert (large.status_code, large.headers["connection"]) == (413, "close")
    slow = post_raw(client(body_timeout=0.05), content=chunks(stuck=True))
    assert (slow.status_code, slow.headers["connection"]) == (408, "close")
    assert "did not arrive within 0.05 seconds" in slow.json()["error"]


def test_a_connection_whose_body_was_not_read_is_closed(client: Client) -> None:
    service = client(max_body=1000)
    for unread in (
        post_raw(service, content=b" " * 1001),
        post_raw(service, Content_Type="text/plain"),
        post_raw(service, Content_Encoding="gzip"),
        post_raw(service, "/nowhere"),
        post_raw(service, "/health"),
        post_raw(service, "/reload"),
    ):
        assert unread.status_code >= 400
        assert unread.headers["connection"] == "close"
    for read in (
        post_raw(service),
        post_raw(service, content=b"{"),
        service.get("/nowhere"),
        ask(service, features=[]),
    ):
        assert "connection" not in read.headers


def test_a_fault_of_ours_shows_no_traceback(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "_ranked", lambda *_: 1 / 0)
    answer = ask(client(), features=ROWS)
    assert answer.status_code == 500
    assert answer.json() == {"error": "a fault in cldrank itself; the log of the service says more."}


def test_what_the_service_tells_of_itself(client: Client) -> None:
    ranker = made_rankers.linear()
    service, identity = client(ranker), {"kind": "linear", "fingerprint": ranker_fingerprint(ranker)}
    assert service.get("/health").json() == {"status": "ready", "ranker": identity}
    told = service.get("/ranker").json()
    assert told["features"] == list(made_rankers.NAMES)
    assert told["provenance"]["estimator"] == "Oracle"
    assert "command" not in told["provenance"]  # it names files
    assert (told["fingerprint"], told["takes_missing"]) == (identity["fingerprint"], False)


def test_metrics_count_requests_and_candidates(client: Client) -> None:
    service = client()
    for rows in (ROWS[:5], ROWS[:30], [[1]]):
        ask(service, features=rows)
    service.get("/anything")
    text = service.get("/metrics").text
    assert 'cldrank_requests_total{path="/rank",status="200"} 2.0' in text
    assert 'cldrank_requests_total{path="/rank",status="422"} 1.0' in text
    assert 'cldrank_requests_total{path="other",status="404"} 1.0' in text
    assert 'cldrank_rank_candidates_bucket{le="10.0"} 1.0' in text
    assert "cldrank_rank_candidates_sum 35.0" in text
    assert "cldrank_rank_seconds_count 2.0" in text
    assert re.search(r'cldrank_ranker_workers{fingerprint="\w{16}",kind="linear"} 1.0', text)


def test_every_example_of_the_description_works_as_it_is(client: Client) -> None:
    for ranker in (made_rankers.linear(), made_rankers.trees()):
        service = client(ranker)
        described = service.get("/openapi.json").json()
        page = service.get("/docs").text
        assert "openapi.json" in page
        assert "POST /rank" in page
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        content = described["paths"]["/rank"]["post"]["requestBody"]["content"]
        answer = service.post("/rank", json=content["application/json"]["example"])
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["ranked"]) == 1
        for path, methods in described["paths"].items():
            for method in methods:
                assert service.call(method.upper(), path).status_code not in (404, 405, 500)


def test_a_feature_unlike_the_training_data_is_logged_once_and_counted(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_module, "_JUDGED", 50)
    service = client(made_rankers.linear().with_ranges(made_rankers.FEATURES))
    usual, other = made_rankers.FEATURES[:200].copy(), made_rankers.FEATURES[:200].copy()
    other[:, 1] *= 100
    for _ in range(30):
        ask(service, features=usual.tolist())
    assert "cldrank_unlike_training_total{" not in service.get("/metrics").text
    for _ in range(60):
        ask(service, features=other.tolist())
    assert re.search(r'cldrank_unlike_training_total{feature="pagerank"} \d.0', service.get("/metrics").text)
    assert caplog.text.count("the feature pagerank goes from") == 1


# -- reloading -----------------------------------------------------------------------------------------------------


def test_another_ranker_is_swapped_in(client: Client, tmp_path: Path) -> None:
    service = client()
    old = ask(service, features=ROWS).json()
    other = made_rankers.network()
    other.save(tmp_path / "ranker")
    assert ask(service, features=ROWS).json() == old
    swapped = service.post("/reload", headers=BEARER)
    identity = {"kind": "network", "fingerprint": ranker_fingerprint(other)}
    assert (swapped.status_code, swapped.json()) == (200, {"status": "swapped", "ranker": identity})
    assert ask(service, features=ROWS).json()["ranker"] == identity
    text = service.get("/metrics").text
    assert f'cldrank_ranker_workers{{fingerprint="{identity["fingerprint"]}",kind="network"}} 1.0' in text
    assert f'cldrank_ranker_workers{{fingerprint="{old["ranker"]["fingerprint"]}",kind="linear"}} 0.0' in text
    assert 'cldrank_reloads_total{outcome="swapped"} 1.0' in text


def test_a_broken_ranker_is_refused_and_the_old_one_stays(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = client()
    old = ask(service, features=ROWS).json()
    huge = LinearRanker(
        feature_names=made_rankers.NAMES, scaling=fit(None, [[1] * 4]), coefficients=np.full(4, 1.7e308), intercept=0
    )
    for damage, words in (
        (lambda: (tmp_path / "ranker" / "weights.safetensors").write_bytes(b"x"), "damaged, or from another ranker"),
        (lambda: (tmp_path / "ranker" / "ranker.json").write_text("[]"), "does not describe a ranker"),
        (lambda: (tmp_path / "ranker" / "ranker.json").unlink(), "the file is missing"),
    ):
        damage()
        refused = service.post("/reload", headers=BEARER)
        assert refused.status_code == 409
        assert words in refused.json()["error"]
        assert str(tmp_path) not in refused.text
        assert words in caplog.text
        assert ask(service, features=ROWS).json() == old
    for file in (tmp_path / "ranker").iterdir():
        file.unlink()
    huge.save(tmp_path / "ranker")
    assert "cannot score a row of zeros" in service.post("/reload", headers=BEARER).json()["error"]
    assert ask(service, features=ROWS).json() == old
    assert 'cldrank_reloads_total{outcome="refused"} 4.0' in service.get("/metrics").text


@pytest.mark.parametrize(
    ("names", "words"),
    [(("bm25", "pagerank", "clicks", "new"), "(new: new; gone: länge)"), (made_rankers.NAMES[::-1], "another order")],
)
def test_a_ranker_with_other_features_is_refused(
    client: Client, tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    service = client()
    made_rankers.linear(feature_names=names).save(tmp_path / "ranker")
    refused = service.post("/reload", headers=BEARER)
    assert refused.status_code == 409
    assert words in refused.json()["error"]
    assert service.get("/ranker").json()["features"] == list(made_rankers.NAMES)


def test_a_reload_needs_the_token(client: Client) -> None:
    for header in (
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer é"},
    ):
        refused = client().post("/reload", headers={key: value.encode() for key, value in header.items()})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    closed = client(token=None).post("/reload", headers=BEARER)
    assert closed.status_code == 403
    assert "--token-file" in closed.json()["error"]


# -- anything at all -----------------------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
rows = st.lists(st.lists(anything, min_size=3, max_size=5) | anything, max_size=3)
nearly = st.fixed_dictionaries(
    {},
    optional={
        "features": rows | anything,
        "ids": st.lists(st.text(max_size=2) | anything, max_size=3) | anything,
        "candidates": st.lists(
            st.fixed_dictionaries({}, optional={"id": anything, "features": anything}) | anything, max_size=3
        ),
        "top": anything,
        "query_id": anything,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(body=(nearly | anything).map(json.dumps) | st.text(), trees=st.booleans())
def test_no_body_is_a_fault_of_ours(client: Client, services: dict[bool, Any], body: str, trees: bool) -> None:
    if trees not in services:
        services[trees] = client(made_rankers.trees() if trees else made_rankers.linear())
    answer = post_raw(services[trees], content=body.encode("utf-8", "surrogatepass"))
    assert answer.status_code in (200, 400, 422), answer.text


@pytest.fixture
def services() -> dict[bool, Any]:
    return {}
