"""One row per page: lists of results in every shape give the cells of the log with one row per result."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_logs import expected, plain_pages, read, write_json, write_parquet

from cldrank.errors import FormatError, UsageError

RESULTS = {"doc_id": "results.id", "clicked": "results.clicked"}


def pages(**more: Any) -> list[dict[str, Any]]:
    """A row per page; each of `more` says what else it holds, given its documents and clicks."""
    return [
        {"session_id": session, "query_id": query, **{name: make(docs, hits) for name, make in more.items()}}
        for session, query, docs, hits in plain_pages()
    ]


def structs(docs: list[str], hits: list[int]) -> list[dict[str, Any]]:
    return [{"id": doc, "clicked": bool(hit)} for doc, hit in zip(docs, hits, strict=True)]


def documents(docs: list[str], hits: list[int]) -> list[str]:
    del hits
    return docs


class TestShapes:
    @pytest.mark.parametrize("write", [write_parquet, write_json])
    def test_a_list_of_structs(self, tmp_path: Path, engine: Any, write: Any) -> None:
        path = write(tmp_path / f"log.{'parquet' if write is write_parquet else 'jsonl'}", pages(results=structs))
        assert read(path, engine, columns=RESULTS)[0] == expected()

    @pytest.mark.exhaustive
    def test_with_positions_in_any_order(self, tmp_path: Path, engine: Any) -> None:
        def backwards(docs: list[str], hits: list[int]) -> list[dict[str, Any]]:
            placed = [{**result, "place": place} for place, result in enumerate(structs(docs, hits))]
            return placed[::-1]

        path = write_parquet(tmp_path / "log.parquet", pages(results=backwards))
        columns = {**RESULTS, "position": "results.place"}
        assert read(path, engine, columns=columns, first_position=0)[0] == expected()

    def test_clicked_documents_by_id(self, tmp_path: Path, engine: Any) -> None:
        rows = pages(
            documents=documents,
            clicked_documents=lambda docs, hits: [d for d, hit in zip(docs, hits, strict=True) if hit],
        )
        rows[1]["clicked_documents"].append("elsewhere")
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine)
        assert found == expected()
        assert result.account.rejected == {"click never shown": 1}
        assert result.rejects.to_pylist()[0]["doc_id"] == "elsewhere"


@pytest.mark.parametrize(
    "clicked", [{"clicked_positions": [1, 1, 2]}, {"clicked_documents": ["a", "b", "a"]}], ids=["places", "ids"]
)
def test_several_clicks_in_a_list(tmp_path: Path, engine: Any, clicked: dict[str, list[Any]]) -> None:
    rows = [{"session_id": s, "query_id": "q", "documents": ["a", "b", "c"], **clicked} for s in range(5)]
    path = write_parquet(tmp_path / "log.parquet", rows)
    places = [("q", "a", 1), ("q", "b", 2), ("q", "c", 3)]
    found, result = read(path, engine)
    assert found == {place: (5, clicks) for place, clicks in zip(places, (5, 5, 0), strict=True)}
    assert result.account.rejected == {}


class TestUnequalLists:
    def test_the_page_is_set_aside(self, tmp_path: Path, engine: Any) -> None:
        rows = pages(documents=documents, clicked=lambda _, hits: list(hits))
        rows[0]["clicked"].pop()
        rows[1]["clicked"].append(1)
        rows[2]["documents"] = []
        rows[3]["clicked"] = []
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine)
        assert result.account.rejected == {"unequal lists": 6 + 6 + 1 + 6}
        assert sum(n for n, _ in found.values()) == 4 * 6

    @pytest.mark.exhaustive
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(
            st.tuples(
                st.none() | st.lists(st.sampled_from("abcd"), max_size=4, unique=True),
                st.none() | st.lists(st.sampled_from([0, 1, None]), max_size=4),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_any_lists(
        self, tmp_path_factory: pytest.TempPathFactory, engine: Any, lists: list[tuple[Any, Any]]
    ) -> None:
        shown: Counter[tuple[str, str, int]] = Counter()
        clicks: Counter[tuple[str, str, int]] = Counter()
        aside = 0
        for docs, hits in lists:
            n = len(docs or ())
            if hits is not None and len(hits) != n:
                aside += max(n, 1)
                continue
            for place, doc in enumerate(docs or (), start=1):
                shown["q", doc, place] += 1
                clicks["q", doc, place] += (hits[place - 1] if hits is not None else 0) or 0
        if not shown and not aside:
            return
        path = tmp_path_factory.mktemp("log") / "log.parquet"
        columns: dict[str, Any] = {"session_id": list(range(len(lists))), "query_id": ["q"] * len(lists)}
        columns["documents"] = pa.array([docs for docs, _ in lists], pa.list_(pa.string()))
        columns["clicked"] = pa.array([hits for _, hits in lists], pa.list_(pa.int64()))
        pq.write_table(pa.table(columns), path)
        found, result = read(path, engine)
        assert found == {key: (n, clicks[key]) for key, n in shown.items()}
        assert result.account.rejected == ({"unequal lists": aside} if aside else {})


def test_what_is_not_a_list(tmp_path: Path) -> None:
    rows = pages(documents=documents, clicked=lambda _, hits: any(hits))
    path = write_parquet(tmp_path / "log.parquet", rows)
    with pytest.raises(FormatError, match=r"'clicked' \(clicked\) holds bool"):
        read(path)
    structured = write_parquet(tmp_path / "a.parquet", pages(results=structs))
    with pytest.raises(FormatError, match="'results.hit'.*results.clicked"):
        read(structured, columns={**RESULTS, "clicked": "results.hit"})
    with pytest.raises(UsageError, match="clicked_positions and clicked both"):
        read(path, columns={"clicked": "clicked", "clicked_positions": "clicked"})


def test_a_position_of_the_page_is_not_one_of_its_results(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", pages(results=structs, position=lambda *_: 7))
    assert read(path, columns=RESULTS)[0] == expected()
    with pytest.raises(FormatError, match=r"\(position\) holds int64, not lists"):
        read(path, columns={**RESULTS, "position": "position"})
