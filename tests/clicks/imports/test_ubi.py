"""UBI: an export made by an independent script gives back the log that it was made from."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ubi_export
from small_logs import cells

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.imports import ImportReport, import_log
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.errors import DataError

SESSIONS = 120


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log, one row per impression."""
    rng = np.random.default_rng(1)
    queries = np.repeat([f"query {number}" for number in range(8)], 6)
    documents = [f"sku-{number}" for number in range(48)]
    data = RankingDataset.from_arrays(rng.random((48, 1)), queries, rng.integers(0, 5, 48), doc_ids=documents)
    world = Simulation(data, rng.random(48), model=PositionBased(eta=1, noise=0.2), policy=NeighbourSwaps(0.5))
    path = tmp_path_factory.mktemp("plain") / "log.parquet"
    world.save_log(path, SESSIONS, seed=3)
    return path


@pytest.fixture(scope="session")
def rows(log: Path) -> list[ubi_export.Row]:
    table = pq.read_table(log, columns=["session_id", "query_id", "doc_id", "position", "clicked"])
    return [tuple(row.values()) for row in table.to_pylist()]


def imported(paths: tuple[Path, Path], out: Path, **options: Any) -> ImportReport:
    return import_log("ubi", queries=paths[0], events=paths[1], out=out, **options)


def asides(report: ImportReport) -> Counter[tuple[str, str]]:
    return Counter({(aside.record, aside.reason): aside.count for aside in report.set_aside})


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_same_cells_as_the_direct_log(
    log: Path, rows: list[ubi_export.Row], tmp_path: Path, engine: Any, wrapped: bool
) -> None:
    made = ubi_export.with_noise(ubi_export.export(rows))
    if engine != "duckdb":
        (tmp_path / "log.parquet" / "part-0").mkdir(parents=True)  # of an earlier log, which is replaced
    report = imported(made.write(tmp_path, 5, wrapped), tmp_path / "log.parquet", engine=engine)
    assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
    assert report.came_in == made.came_in()
    assert asides(report) == made.aside
    assert (report.rows, report.pages) == (len(rows), SESSIONS)
    assert report.clicks == sum(row[4] for row in rows)
    assert list(report.joined.values()) == [1, 1]


def test_every_defect_is_accounted_for(rows: list[ubi_export.Row], tmp_path: Path, engine: Any) -> None:
    made, lost, unclicked = ubi_export.with_defects(ubi_export.export(rows), seed=2)
    paths = ubi_export.with_noise(made).write(tmp_path, 7, wrapped=True)
    options = {"engine": engine, "min_joined": 0, "rejects": tmp_path / "rejects.parquet"}
    report = imported(paths, tmp_path / "log.parquet", **options)
    assert report.came_in == made.came_in()
    assert asides(report) == +made.aside
    assert all(aside.example for aside in report.set_aside)
    expected: Counter[Any] = Counter()
    clicks: Counter[Any] = Counter()
    for session, query, document, position, clicked in rows:
        key = ubi_export.name_of(session), document
        if key not in lost:
            expected[query, document, position] += 1
            clicks[query, document, position] += clicked and key not in unclicked
    assert cells(ClickTable.read(tmp_path / "log.parquet")) == {
        key: (number, clicks[key]) for key, number in expected.items()
    }
    rejects = pq.read_table(tmp_path / "rejects.parquet").to_pylist()
    counted: Counter[tuple[str, str]] = Counter()
    for row in rejects:
        counted[row["record"], row["reason"]] += row["rows"]
    assert counted == asides(report)


def test_a_poor_join_is_refused_with_examples(rows: list[ubi_export.Row], tmp_path: Path) -> None:
    made = ubi_export.export(rows)
    made.queries = made.queries[: SESSIONS // 2]
    paths = made.write(tmp_path)
    with pytest.raises(DataError, match=r"only [45]\d\.\d% .* 80.0% .* query_id 0000"):
        imported(paths, tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()
    assert imported(paths, tmp_path / "log.parquet", min_joined=0.4).pages == SESSIONS // 2


class TestWhatCountsAsShown:
    def test_without_impressions_what_was_returned(
        self, log: Path, rows: list[ubi_export.Row], tmp_path: Path, engine: Any
    ) -> None:
        made = ubi_export.with_noise(ubi_export.export(rows, impressions=False))
        report = imported(made.write(tmp_path), tmp_path / "log.parquet", engine=engine)
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
        assert report.came_in["result"] == len(rows)
        assert report.returned_only
        assert "hover (60), login (60)" in report.notes[0]

    def test_hit_ids_of_another_kind_are_refused(self, rows: list[ubi_export.Row], tmp_path: Path) -> None:
        made = ubi_export.export(rows, impressions=False)
        for query in made.queries:
            name = next(name for name in query if name.startswith("query_response"))
            query[name] = [f"_{document}" for document in query[name]]
        paths = made.write(tmp_path)
        with pytest.raises(DataError, match=r"only 0.0% of those clicks .*`object_id`"):
            imported(paths, tmp_path / "log.parquet")
        report = imported(paths, tmp_path / "log.parquet", object_id="internal_id")
        assert report.clicks == sum(row[4] for row in rows)

    def test_returned_on_request_leaves_impressions_aside(self, rows: list[ubi_export.Row], tmp_path: Path) -> None:
        made = ubi_export.export(rows)
        report = imported(made.write(tmp_path), tmp_path / "log.parquet", impressions="returned")
        assert report.aside("other", "other action") == report.came_in["result"] == len(rows)


class TestPositions:
    @pytest.mark.parametrize("hits", [True, False])
    def test_ordinals_from_0(self, log: Path, rows: list[ubi_export.Row], tmp_path: Path, hits: bool) -> None:
        paths = ubi_export.export(rows, first=0, hits=hits).write(tmp_path)
        report = imported(paths, tmp_path / "log.parquet")
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
        assert "from 0" in report.notes[0]

    def test_without_ordinals_the_place_among_the_hits(
        self, log: Path, rows: list[ubi_export.Row], tmp_path: Path
    ) -> None:
        imported(ubi_export.export(rows, ordinals=False).write(tmp_path), tmp_path / "log.parquet")
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))

    def test_without_any_position_there_is_no_log(self, rows: list[ubi_export.Row], tmp_path: Path) -> None:
        paths = ubi_export.export(rows, ordinals=False, hits=False).write(tmp_path)
        with pytest.raises(DataError, match="nothing was shown.*no position"):
            imported(paths, tmp_path / "log.parquet", min_joined=0)

    def test_of_a_mixture_of_starts_the_places_count(
        self, log: Path, rows: list[ubi_export.Row], tmp_path: Path
    ) -> None:
        half = [row for row in rows if row[0] % 2], [row for row in rows if not row[0] % 2]
        made, other = ubi_export.export(half[0]), ubi_export.export(half[1], first=0)
        made.queries, made.events = made.queries + other.queries, made.events + other.events
        paths = made.write(tmp_path)
        report = imported(paths, tmp_path / "log.parquet")
        assert "60 are at 0 and 60 at 1" in report.notes[0]
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
        report = imported(paths, tmp_path / "log.parquet", first_position=1, min_joined=0)
        assert report.aside("impression", "position out of range") == 60

    def test_each_program_counts_its_own_way(self, tmp_path: Path) -> None:
        """As in OpenSearch's published sample: one program counts from 0, another turns its 0 into 1."""
        hits, text = {"query_response_hit_ids": ["a", "b", "c"]}, {"user_query": "x"}
        made: list[dict[str, Any]] = [
            {"query_id": "1", **text, "application": "demo"},
            *({"index": {}}, {"query_id": "2", **text, "application": "shop", "timestamp": "2025-01-01T00:00:01Z"}),
            {"query_id": "2", **text, **hits, "application": "shop", "timestamp": "2025-01-01T00:00:02Z"},
            {"query_id": "2", "user_query": "xy", "application": "shop", "timestamp": "2025-01-01T00:00:00Z"},
            *(_event("impression", "1", document, place) for place, document in enumerate("abc")),
            *(_event("impression", "2", document, max(place, 1)) for place, document in enumerate("ab")),
            {**_event("impression", "2", "c", 2), "user_query": "xy"},
            *(_event("click", page, document) for page in "12" for document in "ac"),
            _event("purchase", "2", "a"),
        ]
        (tmp_path / "bulk.ndjson").write_text("".join(json.dumps(line) + "\n" for line in made))
        report = import_log("ubi", tmp_path / "bulk.ndjson", out=tmp_path / "log.parquet", min_joined=0.7)
        table = pq.read_table(tmp_path / "log.parquet").to_pylist()
        assert sorted((row["session_id"], row["doc_id"], row["position"], row["clicked"]) for row in table) == [
            *(("1", "a", 1, 1), ("1", "b", 2, 0), ("1", "c", 3, 1), ("2", "a", 1, 1), ("2", "b", 2, 0)),
        ]
        assert [note.split(" (")[0] for note in report.notes] == [
            "ordinals of demo count from 0: 1 impressions are at 0, 1 at 1",
            "ordinals of shop contradict themselves",
        ]
        assert asides(report) == {
            ("bulk", "bulk line"): 1,
            ("query", "repeated"): 1,
            ("query", "another query"): 1,
            ("impression", "another query"): 1,
            ("click", "not logged"): 1,
        }
        assert report.actions == {"purchase": 1}

    def test_features_logged_with_impressions_are_kept(self, tmp_path: Path, engine: Any) -> None:
        shown = _event("impression", "1", "a", 1)
        shown["event_attributes"]["features"] = {"bm25": 1.5, "age": None}
        acted = _event("click", "1", "a"), _event("Features", "1", "a")
        (tmp_path / "q.jsonl").write_text(json.dumps({"query_id": "1", "user_query": "x"}) + "\n")
        (tmp_path / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (shown, *acted)))
        imported((tmp_path / "q.jsonl", tmp_path / "e.jsonl"), tmp_path / "log.parquet", engine=engine)
        (row,) = pq.read_table(tmp_path / "log.parquet").to_pylist()
        assert json.loads(row["features"]) == {"bm25": 1.5, "age": None}
        assert "features_1" not in row  # of an action with this name, which is set aside


def _event(action: str, page: str, document: str, ordinal: Any = None, time: Any = None) -> dict[str, Any]:
    attributes = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
    return {"action_name": action, "query_id": page, "timestamp": time, "event_attributes": attributes}


class TestRows:
    def test_what_a_row_says(self, rows: list[ubi_export.Row], tmp_path: Path, engine: Any) -> None:
        paths = ubi_export.export(rows[:40]).write(tmp_path)
        imported(paths, tmp_path / "log.parquet", engine=engine)
        for row in pq.read_table(tmp_path / "log.parquet").to_pylist():
            session = int(row["session_id"][-12:])
            assert row["user_id"] == f"client {session // 3}"
            assert row["surface"] == "shop"
            assert row["timestamp"].isoformat() == f"2024-06-01T00:{session:02d}:00+00:00"
        imported(paths, tmp_path / "log.parquet", engine=engine, surface="client_id", normalise=False)
        typed = pq.read_table(tmp_path / "log.parquet").to_pylist()
        assert all(row["surface"] == row["user_id"] for row in typed)
        assert any(row["query_id"] != row["query_id"].lower().strip() for row in typed)

    def test_several_clicks_and_several_actions(self, tmp_path: Path) -> None:
        (tmp_path / "q.jsonl").write_text(json.dumps({"query_id": "1", "user_query": "x"}) + "\n")
        made = [
            _event("impression", "1", "a", 1),
            _event("impression", "1", "b", 2),
            _event("click", "1", "a", time=5),
            _event("click", "1", "a", time=9),
            _event("click", "1", "a", time=9),
            _event("Add to cart", "1", "a", time=9),
            _event("Add to cart", "1", "z", time=9),  # on nothing that was shown
            _event("2nd look", "1", "b", time=9),  # no name that a column could have
        ]
        (tmp_path / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
        paths = tmp_path / "q.jsonl", tmp_path / "e.jsonl"
        report = imported(paths, tmp_path / "log.parquet")
        assert (report.clicks, report.clicked) == (2, 1)
        assert asides(report) == {("click", "repeated"): 1, ("other", "other action"): 2}
        assert report.actions == {"add_to_cart": 1}
        rows = pq.read_table(tmp_path / "log.parquet").sort_by("doc_id")
        assert rows["add_to_cart"].to_pylist() == [True, False]
        report = imported(paths, tmp_path / "log.parquet", click_action=["click", "Add to cart"], min_joined=0)
        assert (report.clicks, report.clicked) == (3, 1)
        assert pq.read_table(tmp_path / "log.parquet")["clicked"].to_pylist().count(0) == 1


class TestFiles:
    @pytest.mark.parametrize("form", ["nested", "flat"])
    def test_parquet(self, log: Path, rows: list[ubi_export.Row], tmp_path: Path, engine: Any, form: str) -> None:
        made = ubi_export.export(rows)
        for query in made.queries:
            query["timestamp"] = str(query["timestamp"])
            query["query_response_hit_ids"] = (
                query.pop("query_response_objects_ids", None) or query["query_response_hit_ids"]
            )
        events = made.events
        if form == "flat":
            events = [
                {
                    **{name: event[name] for name in ("action_name", "query_id", "timestamp")},
                    "event_attributes.object.object_id": event["event_attributes"]["object"]["object_id"],
                    "event_attributes.position.ordinal": event["event_attributes"]["position"]["ordinal"],
                }
                for event in events
            ]
        pq.write_table(pa.Table.from_pylist(made.queries), tmp_path / "q.parquet")
        pq.write_table(pa.Table.from_pylist(events), tmp_path / "e.parquet")
        imported((tmp_path / "q.parquet", tmp_path / "e.parquet"), tmp_path / "log.parquet", engine=engine)
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))

    def test_a_bulk_file_of_both(self, log: Path, rows: list[ubi_export.Row], tmp_path: Path) -> None:
        made = ubi_export.export(rows)
        lines: list[dict[str, Any]] = []
        for record in (*made.queries, *made.events):
            lines += [{"index": {"_index": "ubi_events" if "action_name" in record else "ubi_queries"}}, record]
        both = tmp_path / "bulk.ndjson"
        both.write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = import_log("ubi", both, out=tmp_path / "log.parquet")
        assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
        assert asides(report) == {("bulk", "bulk line"): len(lines) // 2}


class TestTimes:
    def times(self, tmp_path: Path, stamps: list[Any], **options: Any) -> list[str]:
        queries = [
            {"query_id": str(at), "user_query": "x", "timestamp": stamp, "query_response_hit_ids": ["a"]}
            for at, stamp in enumerate(stamps)
        ]
        (tmp_path / "q.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
        (tmp_path / "e.jsonl").write_text(json.dumps(_event("click", "0", "a")) + "\n")
        imported((tmp_path / "q.jsonl", tmp_path / "e.jsonl"), tmp_path / "log.parquet", **options)
        rows = sorted(pq.read_table(tmp_path / "log.parquet").to_pylist(), key=lambda row: int(row["session_id"]))
        return [row["timestamp"].isoformat() for row in rows]

    def test_times_that_name_no_zone_are_in_utc_and_a_mix_is_refused(self, tmp_path: Path) -> None:
        stamps = ["2024-06-01T02:00:00", "2024-06-01T00:00:00Z"]
        with pytest.raises(DataError, match="1 times that name their zone and 1 that do not"):
            self.times(tmp_path, stamps)
        assert self.times(tmp_path, stamps[:1]) == ["2024-06-01T02:00:00+00:00"]
        assert self.times(tmp_path, ["1717200000000000"]) == ["2024-06-01T00:00:00+00:00"]  # microseconds
        assert self.times(tmp_path, stamps, time_zone="Europe/Berlin") == ["2024-06-01T00:00:00+00:00"] * 2


def test_excluded_users_are_set_aside_with_their_events(
    rows: list[ubi_export.Row], tmp_path: Path, engine: Any
) -> None:
    paths = ubi_export.export(rows).write(tmp_path)
    (tmp_path / "robots.txt").write_text("client 0\nclient 7\n")
    report = imported(paths, tmp_path / "log.parquet", exclude_users=tmp_path / "robots.txt", engine=engine)
    theirs = [row for row in rows if row[0] // 3 in (0, 7)]
    assert report.aside("query", "excluded user") == 6
    assert report.aside("impression", "excluded user") == len(theirs)
    assert report.aside("click", "excluded user") == sum(row[4] for row in theirs)
    assert report.rows == len(rows) - len(theirs)
    again = imported(paths, tmp_path / "log.parquet", exclude_users=["client 0", "client 7"], engine=engine)
    assert again.set_aside == report.set_aside


class _Indices(BaseHTTPRequestHandler):
    """Two indices in pages of 100, by a scroll."""

    server: Any

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.answer(address.path, json.loads(text or "{}"))
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/_search/scroll":
            return self.page(*json.loads(body["scroll_id"]))
        return self.page(path.split("/")[1], 0)

    def page(self, index: str, start: int) -> tuple[int, Any]:
        chosen = self.server.indices[index][start : start + 100]
        hits = [{"_id": str(n), "_source": own} for n, own in enumerate(chosen, start + 1)]
        return 200, {"hits": {"hits": hits}, "_scroll_id": json.dumps([index, start + 100])}

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_live_indices(log: Path, rows: list[ubi_export.Row], tmp_path: Path) -> None:
    made = ubi_export.export(rows)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Indices)
    server.indices = {"ubi_queries": made.queries, "clicks": made.events}
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    import_log("ubi", url=f"http://127.0.0.1:{server.server_port}", events="clicks", out=tmp_path / "log.parquet")
    server.shutdown()
    server.server_close()
    assert cells(ClickTable.read(tmp_path / "log.parquet")) == cells(ClickTable.read(log))
    assert len((tmp_path / "log.clicks.jsonl").read_text().splitlines()) == len(made.events)
