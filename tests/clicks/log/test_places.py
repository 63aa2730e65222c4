"""Positions counted page by page, and grids: the cells are those of the list as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odd_logs import PLAIN, expected, plain_pages, plain_rows, read, write_parquet

from cldrank.errors import UsageError

PAGE, GRID = {"page": "page"}, {"row": "row", "column": "column"}


def paged(size: int, *, first: int = 1, first_page: int = 1) -> list[dict[str, Any]]:
    """The plain log on numbered pages of results; positions restart on each."""
    rows = []
    for row in plain_rows():
        page, place = divmod(row["position"] - 1, size)
        rows.append({**row, "page": page + first_page, "position": place + first})
    return rows


def grid(columns: int, first: int = 1) -> list[dict[str, Any]]:
    """The plain log in a grid; it has no position."""
    rows = []
    for row in plain_rows():
        place = row.pop("position") - 1
        rows.append({**row, "row": place // columns + first, "column": place % columns + first})
    return rows


class TestPages:
    def test_positions_restart(self, tmp_path: Path, engine: Any) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(2))
        found, result = read(path, engine, columns=PAGE, page_size=2)
        assert found == expected()
        assert result.account.layout == {"first_position": 1, "first_page": 1, "page_size": 2}

    @pytest.mark.parametrize("size", [1, 3, 6])
    @pytest.mark.parametrize(("first", "first_page"), [(0, 0), (0, 1), (1, 0)])
    def test_pages_and_positions_from_0(self, tmp_path: Path, size: int, first: int, first_page: int) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(size, first=first, first_page=first_page))
        found, _ = read(path, columns=PAGE, page_size=size, first_position=first, first_page=first_page)
        assert found == expected()

    def test_lists_of_results_on_pages(self, tmp_path: Path, engine: Any) -> None:
        rows = [
            {
                "session_id": session,
                "query_id": query,
                "number": at // 4 + 1,
                "documents": documents[at : at + 4],
                "clicked": clicked[at : at + 4],
            }
            for session, query, documents, clicked in plain_pages()
            for at in (0, 4)
        ]
        path = write_parquet(tmp_path / "log.parquet", rows)
        assert read(path, engine, columns={"page": "number"}, page_size=4)[0] == expected()

    def test_a_column_called_page_is_not_asked(self, tmp_path: Path) -> None:
        rows = [{**row, "page": "https://example.org", "row": 7, "column": "x"} for row in plain_rows()]
        assert read(write_parquet(tmp_path / "log.parquet", rows))[0] == expected()

    def test_positions_beyond_the_page_are_set_aside(self, tmp_path: Path) -> None:
        rows = paged(3)
        rows.append({**rows[0], "session_id": 99, "doc_id": "z", "position": 9})
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), columns=PAGE, page_size=3)
        assert found == expected()
        assert result.account.rejected == {"off the page": 1}

    def test_no_first_page(self, tmp_path: Path) -> None:
        rows = [row for row in paged(3) if row["page"] > 1]
        found, _ = read(write_parquet(tmp_path / "log.parquet", rows), columns=PAGE, page_size=3)
        assert found == {key: counts for key, counts in expected().items() if key[2] > 3}

    def test_pages_that_are_none(self, tmp_path: Path, engine: Any) -> None:
        rows = [{**row, "page": str(row["page"])} for row in paged(3)]
        for place, value in enumerate(["two", "1.5", None, "", "-1", "0"]):
            rows[place]["page"] = value
        _, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, columns=PAGE, page_size=3)
        clicked = sum(PLAIN[place][4] for place in (2, 3))  # of those without a page
        reasons = {"null key": 2 - clicked, "not a number": 2, "off the page": 2, "click never shown": clicked}
        assert result.account.rejected == {name: n for name, n in reasons.items() if n}

    def test_options_without_pages(self) -> None:
        for options in ({"page_size": 10}, {"first_page": 0}):
            with pytest.raises(UsageError, match=f"`{next(iter(options))}` is for logs with numbered pages"):
                read(Path("log.parquet"), **options)
        for options in ({}, {"page_size": 0}):
            with pytest.raises(UsageError, match="`page_size"):
                read(Path("log.parquet"), columns=PAGE, **options)
        with pytest.raises(UsageError, match="`first_page"):
            read(Path("log.parquet"), columns=PAGE, page_size=3, first_page=2)


class TestGrids:
    @pytest.mark.parametrize("first", [0, 1])
    def test_reading_order(self, tmp_path: Path, engine: Any, first: int) -> None:
        path = write_parquet(tmp_path / "log.parquet", grid(4, first))
        found, result = read(path, engine, columns=GRID, grid_columns=4, first_position=first)
        assert found == expected()
        assert result.account.layout == {"first_position": first, "grid_columns": 4}

    def test_a_wider_grid_than_was_seen(self, tmp_path: Path) -> None:
        found, _ = read(write_parquet(tmp_path / "log.parquet", grid(2)), columns=GRID, grid_columns=3)
        assert {key[2] for key in found} == {1, 2, 4, 5, 7, 8}

    def test_columns_beyond_the_grid_are_set_aside(self, tmp_path: Path) -> None:
        rows = grid(3)
        rows[0]["column"] = 4
        rows[1]["column"] = None
        _, result = read(write_parquet(tmp_path / "log.parquet", rows), columns=GRID, grid_columns=3)
        without = "click never shown" if PLAIN[1][4] else "null key"
        assert result.account.rejected == {without: 1, "off the page": 1}

    def test_a_grid_on_each_page(self, tmp_path: Path) -> None:
        rows = []
        for row in plain_rows():
            place = row.pop("position") - 1
            rows.append({**row, "page": place // 4, "row": place % 4 // 2, "column": place % 2})
        given: dict[str, Any] = {"page_size": 4, "grid_columns": 2, "first_position": 0, "first_page": 0}
        path = write_parquet(tmp_path / "log.parquet", rows)
        assert read(path, columns={**GRID, **PAGE}, **given)[0] == expected()

    def test_half_a_grid(self) -> None:
        cases: list[dict[str, Any]] = [{"columns": {"row": "a"}}, {"columns": {"column": "a"}}, {"grid_columns": 3}]
        for options in cases:
            with pytest.raises(UsageError, match="a grid has rows and columns"):
                read(Path("log.parquet"), **options)
        with pytest.raises(UsageError, match="`grid_columns`"):
            read(Path("log.parquet"), columns=GRID)
        with pytest.raises(UsageError, match="the row and the column are the position"):
            read(Path("log.parquet"), columns={**GRID, "position": "rank"}, grid_columns=3)
