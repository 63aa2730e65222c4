"""Aggregation, on DuckDB and on Spark: the same body, the same results, and those of a plain loop."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_logs import CLEAN, COLUMNS, DEFECTS, cells, pages_from, write

from cldrank import ClickTable, load
from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
from cldrank.errors import CldrankError, DataError, FormatError, UsageError


class TestOnEachEngine:
    def test_csv_json_lines_and_partitioned_folders(self, tmp_path: Path) -> None:
        with (tmp_path / "log.csv").open("w") as file:
            csv.writer(file).writerows([COLUMNS, *CLEAN])
        (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(dict(zip(COLUMNS, r, strict=True))) for r in CLEAN))
        for day, part in (("1", CLEAN[:2]), ("2", CLEAN[2:])):
            (tmp_path / f"log/day={day}").mkdir(parents=True)
            write(tmp_path / f"log/day={day}/part.parquet", part)
        parts = [tmp_path / f"log/day={day}/part.parquet" for day in (1, 2)]
        for source in (tmp_path / "log.csv", tmp_path / "log.jsonl", tmp_path / "log", parts):
            result = aggregate(source)
            assert cells(result.clicks) == {("q", "a", 1): (2, 1), ("q", "b", 2): (2, 2), ("r", "a", 1): (1, 0)}
            assert (result.account.rows, result.account.rejected, len(result.rejects)) == (5, {}, 0)

    def test_values_that_are_no_numbers_are_set_aside(self, tmp_path: Path, engine: Any) -> None:
        lines = ["1,q,a,1,0", "1,q,b,2,true", "2,q,a,one,0", "2,q,b,2,maybe", "3,q,a,1.5,0", "3,q,b,2,-5"]
        lines += ["4,q,a,1,0.3", "text,q,a,1.0,FALSE", "5,q,a,nan,0", "5,q,b,99999999,0", "6,q,a,,", "7,q,a,1,"]
        (tmp_path / "log.csv").write_text("\n".join([",".join(COLUMNS), *lines]))
        result = aggregate(tmp_path / "log.csv", engine=engine, max_rejected=1)
        assert cells(result.clicks) == {("q", "a", 1): (3, 0), ("q", "b", 2): (1, 1)}
        assert result.account.rejected == {"null key": 1, "not a number": 7}
        assert result.account.rows == 12
        odd = [row["position"] for row in result.rejects.to_pylist() if row["reason"] == "not a number"]
        assert sorted(odd, key=str) == [1, 2, 2, 99_999_999, *[None] * 3]

    def test_a_file_that_was_written_again(self, tmp_path: Path, engine: Any) -> None:
        """An open Spark session once answered with the rows that it had kept of the file before."""
        for clicked in (0, 1):
            (tmp_path / "log.csv").write_text(f"{','.join(COLUMNS)}\n1,q,a,1,{clicked}\n")
            assert aggregate(tmp_path / "log.csv", engine=engine).clicks.clicks.tolist() == [clicked]

    def test_a_log_that_counts_from_zero(self, tmp_path: Path) -> None:
        path = write(tmp_path / "log.parquet", pages_from(0, sessions=5))
        with pytest.raises(DataError, match=r"5 rows .* `first_position=0`"):
            aggregate(path)
        assert aggregate(path, first_position=0).clicks.depth == 24
        path = write(tmp_path / "log.parquet", pages_from(1, sessions=5))
        with pytest.raises(DataError, match="does not count positions from 0: 0 rows are at position 0, 5 at"):
            aggregate(path, first_position=0)


class TestRefusing:
    def test_too_many_rejects(self, tmp_path: Path) -> None:
        path = write(tmp_path / "log.parquet", DEFECTS)
        with pytest.raises(TooManyRejectsError, match=r"50.0% of 18 rows .* more than the 10.0% allowed") as error:
            aggregate(path, max_rejected=0.1)
        assert error.value.account.rejected["null key"] == 4
        assert len(error.value.rejects) == 9
        with pytest.raises(UsageError, match="of at least 0 and up to 1"):
            aggregate(path, max_rejected=2)

    def test_logs_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "bad.parquet").write_text("not parquet")
        pq.write_table(pa.table({"session_id": [1]}), tmp_path / "few.parquet")
        pq.write_table(pa.table({name: ["x"] for name in COLUMNS}), tmp_path / "text.parquet")
        (tmp_path / "long.csv").write_text(",".join(COLUMNS) + "\n" + "1,q,a,1,0\n" * 50_000 + "1,q,a,1,0,9,9\n" * 9)
        good = write(tmp_path / "good.parquet", CLEAN)
        cases: list[tuple[type[CldrankError], str, Any, dict[str, Any]]] = [
            (DataError, "bad.parquet", tmp_path / "bad.parquet", {}),
            (FormatError, "'query_id', 'doc_id', 'clicked' or 'position'", tmp_path / "few.parquet", {}),
            (TooManyRejectsError, "'position'", tmp_path / "text.parquet", {}),
            (DataError, "long.csv", tmp_path / "long.csv", {}),
            (FormatError, "'zz'", good, {"columns": {"doc_id": "zz"}}),
            (UsageError, "docid", good, {"columns": {"docid": "position"}}),
            (DataError, "few.parquet has no column 'query_id'", [good, tmp_path / "few.parquet"], {}),
            (UsageError, "postgres", good, {"engine": "postgres"}),
            (UsageError, "lots", good, {"memory_limit": "lots"}),
        ]
        for kind, message, log, options in cases:
            with pytest.raises(kind, match=message):
                aggregate(log, **options)

    def test_a_log_that_is_not_utf8_is_refused_with_the_line(self, tmp_path: Path) -> None:
        lines = [",".join(COLUMNS), "1,q,a,1,0", "2,q,caf\xe9,1,0"]
        (tmp_path / "latin.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
        with pytest.raises(FormatError, match=r"latin\.csv.*line 3 is not text in UTF-8"):
            aggregate(tmp_path / "latin.csv")
        with pytest.raises(FormatError, match=r"latin\.csv.*line 3"):
            load(tmp_path / "latin.csv", columns={"features": ["position"]})


class TestFirstPosition:
    def test_a_few_zeros_are_set_aside(self, tmp_path: Path) -> None:
        rows = [*pages_from(1, sessions=50), (0, "q", "x", 0, 0), (1, "q", "x", 0, 1)]
        result = aggregate(write(tmp_path / "log.parquet", rows))
        assert result.account.rejected == {"position below 1": 1, "click never shown": 1}
        assert result.account.wrong_start is None

    def test_a_part_of_the_log_counts_from_zero(self, tmp_path: Path) -> None:
        rows = [*pages_from(1, sessions=60), *pages_from(0, sessions=10, start=60)]
        path = write(tmp_path / "log.parquet", rows)
        with pytest.raises(DataError, match="or a part of it, counts positions from 0: 10 rows .* 70 at position 1"):
            aggregate(path)
        assert aggregate(path, first_position=1).account.n_rejected == 10  # the caller insists

    def test_clicked_positions_that_count_from_zero(self, tmp_path: Path) -> None:
        path = tmp_path / "pages.parquet"
        clicked = [[0], [0, 1], []]
        pages = {"session_id": [1, 2, 3], "query_id": ["q"] * 3, "documents": [["a", "b"]] * 3}
        pq.write_table(pa.table({**pages, "clicked_positions": clicked}), path)
        with pytest.raises(DataError, match="counts positions from 0: 2 clicks are at position 0"):
            aggregate(path, max_rejected=1)
        assert cells(aggregate(path, first_position=0).clicks) == {("q", "a", 1): (3, 2), ("q", "b", 2): (3, 1)}
        pages = {"session_id": [*range(30)], "query_id": ["q"] * 30, "documents": [["a", "b"]] * 30}
        pq.write_table(pa.table({**pages, "clicked_positions": [[1]] * 30}), path)
        with pytest.raises(DataError, match="does not count positions from 0"):
            aggregate(path, first_position=0, max_rejected=1)


class TestSources:
    def test_cells_are_not_a_log(self, tmp_path: Path) -> None:
        path = write(tmp_path / "log.parquet", CLEAN)
        aggregate(path).clicks.save(tmp_path / "cells.parquet")
        for named in (tmp_path / "cells.parquet", [path, tmp_path / "cells.parquet"]):
            with pytest.raises(UsageError, match=r"cells\.parquet holds cells already, not a log"):
                aggregate(named)

    def test_cells_remember(self, tmp_path: Path) -> None:
        one = aggregate(write(tmp_path / "one.parquet", CLEAN[:2])).clicks
        one.save(tmp_path / "cells.parquet")
        earlier = ClickTable.read(tmp_path / "cells.parquet")
        assert earlier.sources == one.sources
        shutil.move(tmp_path / "one.parquet", tmp_path / "renamed.parquet")
        again = aggregate(tmp_path / "renamed.parquet").clicks
        with pytest.raises(DataError, match=r"renamed\.parquet went into both"):
            earlier.merge(again)
        both = earlier.merge(aggregate(write(tmp_path / "two.parquet", CLEAN[2:])).clicks)
        assert [source.name for source in both.sources] == ["one.parquet", "two.parquet"]
        with pytest.raises(DataError, match="went into both"):
            both.first(1).merge(again)  # what was made of cells remembers too
        halves = both.split([0.5, 0.5], seed=0)
        assert cells(halves[0].merge(halves[1])) == cells(both)  # no cell in common: nothing counts twice
