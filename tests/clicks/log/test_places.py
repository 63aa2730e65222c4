"""Positions counted page by page, and grids: the cells are those of the list as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_logs import PLAIN, expected, plain_pages, plain_rows, read, write_parquet

from cldrank.errors import DataError, UsageError

PAGE, GRID = {"page": "page"}, {"row": "row", "column": "column"}


def paged(size: int, *, restarts: bool, first: int = 1, first_page: int = 1) -> list[dict[str, Any]]:
    """The plain log on numbered pages of results."""
    return [
        {
            **row,
            "page": (row["position"] - 1) // size + first_page,
            "position": ((row["position"] - 1) % size if restarts else row["position"] - 1) + first,
        }
        for row in plain_rows()
    ]


def grid(columns: int, first: int = 1) -> list[dict[str, Any]]:
    """The plain log in a grid; it has no position."""
    rows = []
    for row in plain_rows():
        place = row.pop("position") - 1
        rows.append({**row, "row": place // columns + first, "column": place % columns + first})
    return rows


class TestPages:
    def test_positions_restart(self, tmp_path: Path, engine: Any) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(2, restarts=True))
        found, result = read(path, engine, columns=PAGE)
        assert found == expected()
        assert result.account.found == ("positions restart on each page of 2",)
        assert result.account.layout == {"first_position": 1, "first_page": 1, "page_size": 2, "paging": "restarts"}
        assert "found: positions restart on each page of 2" in str(result.account)

    def test_positions_continue(self, tmp_path: Path, engine: Any) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(4, restarts=False))
        found, result = read(path, engine, columns=PAGE)
        assert found == expected()
        assert result.account.found == ("positions continue from page to page of 4",)
        assert result.account.layout == {"first_position": 1, "first_page": 1, "page_size": 4, "paging": "continues"}
        assert read(path, engine, columns=PAGE, paging="continues")[1].account.layout["paging"] == "continues"

    @pytest.mark.parametrize("restarts", [True, False])
    def test_pages_and_positions_from_0(self, tmp_path: Path, restarts: bool) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(3, restarts=restarts, first=0, first_page=0))
        found, result = read(path, columns=PAGE, first_position=0)
        assert found == expected()
        assert result.account.found[0] == "pages count from 0"
        with pytest.raises(DataError, match="positions from 0|not counted in one way"):
            read(path, columns=PAGE)

    def test_one_page_of_results(self, tmp_path: Path) -> None:
        path = write_parquet(tmp_path / "log.parquet", paged(6, restarts=True))
        found, result = read(path, columns=PAGE)
        assert found == expected()
        assert result.account.found == ("all results are on the first page",)

    def test_lists_of_results_on_pages(self, tmp_path: Path, engine: Any) -> None:
        rows = [
            {
                "session_id": s,
                "query_id": q,
                "number": at // 4 + 1,
                "documents": docs[at : at + 4],
                "clicked": hits[at : at + 4],
            }
            for s, q, docs, hits in plain_pages()
            for at in (0, 4)
        ]
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, columns={"page": "number"})
        assert found == expected()
        assert result.account.found == ("positions restart on each page of 4",)

    def test_a_column_called_page_is_not_asked(self, tmp_path: Path) -> None:
        rows = [{**row, "page": "https://example.org", "row": 7, "column": "x"} for row in plain_rows()]
        assert read(write_parquet(tmp_path / "log.parquet", rows))[0] == expected()

    @pytest.mark.exhaustive
    def test_a_mixed_log_is_refused_with_examples(self, tmp_path: Path, engine: Any) -> None:
        restarting, continuing = (paged(3, restarts=restarts) for restarts in (True, False))
        rows = [*restarting[:24], *continuing[24:]]
        path = write_parquet(tmp_path / "log.parquet", rows)
        message = r"the first page has positions 1 to 3, page 2 positions 1 \(session \d\) to 6 \(session \d\)"
        with pytest.raises(DataError, match=message):
            read(path, engine, columns=PAGE)
        with pytest.raises(DataError, match=r"Set page_size and paging='restarts'"):
            read(path, engine, columns=PAGE, page_size=3)
        _, result = read(path, engine, columns=PAGE, page_size=3, paging="restarts")
        assert result.account.rejected == {"off the page": 12}

    def test_a_page_deeper_than_the_first(self, tmp_path: Path) -> None:
        rows = [row for row in paged(3, restarts=True) if (row["page"], row["position"]) != (1, 3)]
        path = write_parquet(tmp_path / "log.parquet", rows)
        with pytest.raises(DataError, match="first page has positions 1 to 2, page 2 positions 1 .* to 3"):
            read(path, columns=PAGE)
        found, _ = read(path, columns=PAGE, page_size=3)
        assert found == {key: counts for key, counts in expected().items() if key[2] != 3}

    def test_one_stray_row_does_not_decide(self, tmp_path: Path, engine: Any) -> None:
        """Positions are not those of pages as large as the largest position."""
        for restarts, stray in ((True, 73), (False, 6)):
            rows = [{**row, "session_id": n} for n in range(60) for row in paged(3, restarts=restarts)[:6]]
            rows.append({**rows[0], "session_id": 199, "page": 1, "position": stray})
            rows.append({**rows[0], "session_id": 200, "page": 2, "position": 80})
            found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, columns=PAGE)
            assert {position: n for (_, _, position), (n, _) in found.items()} == dict.fromkeys(range(1, 7), 60)
            assert result.account.rejected == {"off the page": 2}
            paging = "restarts" if restarts else "continues"
            assert result.account.layout == {"first_position": 1, "first_page": 1, "page_size": 3, "paging": paging}

    def test_too_few_rows_to_call_one_stray(self, tmp_path: Path) -> None:
        rows = paged(3, restarts=False)
        rows.append({**rows[0], "session_id": 99, "doc_id": "z", "position": 9})
        path = write_parquet(tmp_path / "log.parquet", rows)
        message = (
            r"two ways: positions restart on each page of 9 \(0 of 49 rows do not fit\), or continue from page to page "
            r"of 3 \(1 do not\). Choose with page_size=9 and paging='restarts', or page_size=3 and paging='continues'"
        )
        with pytest.raises(DataError, match=message):
            read(path, columns=PAGE)
        found, result = read(path, columns=PAGE, page_size=3, paging="continues")
        assert found == expected()
        assert result.account.rejected == {"off the page": 1}
        found, result = read(path, columns=PAGE, page_size=9, paging="restarts")
        assert {position for _, _, position in found} == {1, 2, 3, 9, 13, 14, 15}
        restarting = paged(3, restarts=True)
        restarting.append({**rows[0], "session_id": 99, "doc_id": "z", "position": 9})
        with pytest.raises(DataError, match=r"restart on each page of 9 .*, or restart on each page of 3"):
            read(write_parquet(path, restarting), columns=PAGE)

    def test_results_seen_less_and_less(self, tmp_path: Path) -> None:
        """The last place of a page is rare where only results that came into view are logged, and no mistake."""
        rows = [
            {**plain_rows()[0], "session_id": session, "doc_id": f"{page}{place}", "page": page, "position": place}
            for page in (1, 2)
            for place in range(1, 6)
            for session in range(4 ** (5 - place))
        ]
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), columns=PAGE)
        assert {position for _, _, position in found} == set(range(1, 11))
        assert result.account.layout["page_size"] == 5

    def test_no_first_page(self, tmp_path: Path) -> None:
        rows = [row for row in paged(3, restarts=True) if row["page"] > 1]
        path = write_parquet(tmp_path / "log.parquet", rows)
        with pytest.raises(DataError, match="no result is on the first page, .* set page_size"):
            read(path, columns=PAGE)
        found, _ = read(path, columns=PAGE, page_size=3)
        assert found == {key: counts for key, counts in expected().items() if key[2] > 3}

    @pytest.mark.exhaustive
    def test_pages_that_are_none(self, tmp_path: Path, engine: Any) -> None:
        rows = [{**row, "page": str(row["page"])} for row in paged(3, restarts=True)]
        for place, value in enumerate(["two", "1.5", None, "", "-1", "0"]):
            rows[place]["page"] = value
        _, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, columns=PAGE)
        clicked = sum(PLAIN[place][4] for place in (2, 3))  # of those without a page
        expected_reasons = {"null key": 2 - clicked, "not a number": 2, "off the page": 2, "click never shown": clicked}
        assert result.account.rejected == {name: n for name, n in expected_reasons.items() if n}

    def test_options_without_pages(self) -> None:
        for options in ({"page_size": 10}, {"paging": "restarts"}):
            with pytest.raises(UsageError, match=r"is for logs with numbered pages .* columns=\{'page': NAME\}"):
                read(Path("log.parquet"), **options)
        for options, message in (
            ({"page_size": 0}, "page_size must be a whole number of at least 1"),
            ({"paging": "sometimes"}, "paging must be 'restarts' or 'continues'"),
        ):
            with pytest.raises(UsageError, match=message):
                read(Path("log.parquet"), columns=PAGE, **options)


class TestGrids:
    def test_reading_order(self, tmp_path: Path, engine: Any) -> None:
        found, result = read(write_parquet(tmp_path / "log.parquet", grid(4)), engine, columns=GRID)
        assert found == expected()
        assert result.account.found == ("the grid has 4 columns, the largest in the log",)
        assert result.account.layout == {"first_position": 1, "grid_columns": 4}

    @pytest.mark.exhaustive
    def test_from_0(self, tmp_path: Path, engine: Any) -> None:
        path = write_parquet(tmp_path / "log.parquet", grid(3, first=0))
        assert read(path, engine, columns=GRID, first_position=0)[0] == expected()
        with pytest.raises(DataError, match="counts positions from 0"):
            read(path, engine, columns=GRID)
        with pytest.raises(DataError, match=r"begin at 1 and 1, not at 0; leave out first_position=0"):
            read(write_parquet(tmp_path / "log.parquet", grid(3)), engine, columns=GRID, first_position=0)

    def test_one_stray_row_does_not_widen_the_grid(self, tmp_path: Path, engine: Any) -> None:
        rows = [{**row, "session_id": f"{n}-{row['session_id']}"} for n in range(5) for row in grid(3)]
        rows.append({**rows[0], "session_id": "z", "column": 40})
        found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, columns=GRID)
        assert found == {key: (5 * n, 5 * c) for key, (n, c) in expected().items()}
        assert result.account.rejected == {"off the page": 1}
        assert result.account.found == ("the grid has 3 columns, as all but 1 result show",)

    def test_too_few_rows_to_tell_the_width(self, tmp_path: Path) -> None:
        rows = [*grid(3), {**grid(3)[0], "session_id": 99, "column": 40}]
        path = write_parquet(tmp_path / "log.parquet", rows)
        message = (
            r"may have 3 or 40 columns: 1 of 49 results are beyond the first 3. Set grid_columns=3, .* grid_columns=40"
        )
        with pytest.raises(DataError, match=message):
            read(path, columns=GRID)
        assert read(path, columns=GRID, grid_columns=3)[0] == expected()

    def test_a_wider_grid_than_was_seen(self, tmp_path: Path) -> None:
        found, result = read(write_parquet(tmp_path / "log.parquet", grid(2)), columns=GRID, grid_columns=3)
        assert {key[2] for key in found} == {1, 2, 4, 5, 7, 8}
        assert result.account.found == ()
        assert result.account.layout["grid_columns"] == 3

    def test_columns_beyond_the_grid_are_set_aside(self, tmp_path: Path) -> None:
        rows = grid(3)
        rows[0]["column"] = 4
        rows[1]["column"] = None
        _, result = read(write_parquet(tmp_path / "log.parquet", rows), columns=GRID, grid_columns=3)
        assert result.account.rejected in (
            {"null key": 1, "off the page": 1},
            {"click never shown": 1, "off the page": 1},
        )

    def test_a_grid_on_each_page(self, tmp_path: Path) -> None:
        rows = []
        for row in plain_rows():
            place = row.pop("position") - 1
            rows.append({**row, "page": place // 4, "row": place % 4 // 2, "column": place % 2})
        found, _ = read(write_parquet(tmp_path / "log.parquet", rows), columns={**GRID, **PAGE}, first_position=0)
        assert found == expected()

    def test_half_a_grid(self) -> None:
        cases: list[dict[str, Any]] = [{"columns": {"row": "a"}}, {"columns": {"column": "a"}}, {"grid_columns": 3}]
        for options in cases:
            with pytest.raises(UsageError, match="a grid has rows and columns"):
                read(Path("log.parquet"), **options)
        with pytest.raises(UsageError, match="the row and the column are the position"):
            read(Path("log.parquet"), columns={**GRID, "position": "rank"})


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    size=st.integers(1, 6),
    restarts=st.booleans(),
    first=st.sampled_from([0, 1]),
    first_page=st.sampled_from([0, 1]),
    kept=st.sets(st.integers(0, len(PLAIN) - 1), min_size=1),
)
def test_any_pages(
    tmp_path_factory: pytest.TempPathFactory, size: int, restarts: bool, first: int, first_page: int, kept: set[int]
) -> None:
    """With its size and its counting said, any part of a paged log is that part of the plain one."""
    rows = paged(size, restarts=restarts, first=first, first_page=first_page)
    page_1 = [row for row in rows if row["page"] == first_page]  # tells where pages begin
    chosen = [rows[place] for place in sorted(kept)]
    path = write_parquet(tmp_path_factory.mktemp("log") / "log.parquet", [*chosen, *page_1])
    paging = "restarts" if restarts else "continues"
    found, _ = read(path, columns=PAGE, page_size=size, paging=paging, first_position=first)
    plain = [row for row, odd in zip(plain_rows(), rows, strict=True) if odd in [*chosen, *page_1]]
    assert found == read(write_parquet(path, plain), first_position=1)[0]
