"""What a log may look like: which paths, columns and values are taken, and which are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank import RankingDataset
from cldrank.auditing import audit
from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
from cldrank.errors import CldrankError, DataError, FormatError, UsageError

COLUMNS = ("session_id", "query_id", "doc_id", "position", "clicked")


def write(path: Path, n: int = 20, /, **columns: Any) -> Path:
    """A log of `n` pages with one result, each clicked or not, and with other columns where they are given."""
    plain: dict[str, Any] = {
        "session_id": list(range(n)),
        "query_id": ["q"] * n,
        "doc_id": ["d"] * n,
        "position": [1] * n,
        "clicked": [place % 2 for place in range(n)],
    }
    pq.write_table(pa.table({**plain, **columns}), path)
    return path


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


class TestIds:
    @pytest.mark.exhaustive
    def test_types_of_ids(self, tmp_path: Path, engine: Any) -> None:
        cases = [
            (pa.uint64(), [2**64 - 1, 2**63], ["18446744073709551615", "9223372036854775808"]),
            (pa.float64(), [1.0, 2.0], ["1", "2"]),
            (pa.decimal128(30, 0), [Decimal(1), Decimal(10**25)], ["1", str(10**25)]),
            (pa.date32(), [dt.date(2024, 1, 2), dt.date(2024, 1, 3)], ["2024-01-02", "2024-01-03"]),
        ]
        for kind, values, expected in cases:
            columns = {name: pa.array(values, kind) for name in COLUMNS[:3]}
            result = aggregate(write(tmp_path / "log.parquet", 2, **columns), engine=engine)
            assert set(map(str, result.clicks.candidates.doc_ids)) == set(expected), kind
            assert set(map(str, result.clicks.candidates.query_ids)) == set(expected), kind

    def test_an_endless_id_is_set_aside(self, tmp_path: Path, engine: Any) -> None:
        """Repeated in 200,000 rows, an id of 20,000 letters once took 4 GiB."""
        queries = pa.array(["q", "q" * 4096, "q" * 4097, "q" * 20_000])
        result = aggregate(write(tmp_path / "log.parquet", 4, query_id=queries), engine=engine, max_rejected=1)
        assert result.account.rejected == {"long id": 2}
        assert result.clicks.impressions.sum() == 2

    def test_an_id_that_is_missing(self, tmp_path: Path) -> None:
        ids = pa.array([1.0, None, float("nan"), 3.0])
        result = aggregate(write(tmp_path / "log.parquet", 4, doc_id=ids), max_rejected=1)
        assert result.clicks.candidates.doc_ids.tolist() == [1, 3]
        assert result.account.rejected == {"null key": 2}

    def test_ids_that_are_none(self, tmp_path: Path, engine: Any) -> None:
        cases = [
            (pa.array([1.0, 1.5]), "holds 1.5, as double"),
            (pa.array([1.0, 2.0**53]), "holds 9007199254740992"),
            (pa.array([{"a": 1}, {"a": 2}]), "holds struct"),
            (pa.array([b"a", b"b"]), "holds binary"),
        ]
        for values, message in cases:
            with pytest.raises(FormatError, match=rf"'doc_id' \(doc_id\) .*{message}"):
                aggregate(write(tmp_path / "log.parquet", 2, doc_id=values), engine=engine)


class TestNumbers:
    @pytest.mark.exhaustive
    def test_positions_beyond_every_type(self, tmp_path: Path, engine: Any) -> None:
        for kind, odd in (
            (pa.uint64(), [2**63, 2**64 - 1]),
            (pa.int64(), [2**63 - 1, -(2**63)]),
            (pa.float64(), [np.inf, 1e300]),
            (pa.string(), ["1e300", "-inf"]),
        ):
            for first in (0, 1) if engine == "duckdb" else (0,):
                values: list[Any] = [str(first) if kind == pa.string() else first] * 18
                path = write(tmp_path / "log.parquet", position=pa.array([*values, *odd], kind))
                result = aggregate(path, engine=engine, max_rejected=1, first_position=first)
                assert result.account.n_rejected == 2, kind
                assert result.clicks.position.tolist() == [1], kind

    @pytest.mark.exhaustive
    def test_spellings_of_true_and_false(self, tmp_path: Path, engine: Any) -> None:
        spelled = ["Y", "yes", "T", "true", "TRUE", "1", "1.0", " y "], ["N", "no", "f", "False", "0", "", "0.0"]
        lines = [f"{s},q,d{int(hit)},1,{text}" for hit in (0, 1) for s, text in enumerate(spelled[1 - hit])]
        result = aggregate(csv(tmp_path / "log.csv", *lines), engine=engine)
        assert result.clicks.candidates.doc_ids.tolist() == ["d0", "d1"]
        assert result.clicks.clicks.tolist() == [0, len(spelled[0])]
        words = [f"{s},q,d,1,{word}" for s, word in enumerate(["ja", "nein", "on", "clicked"])]
        with pytest.raises(TooManyRejectsError, match="log.csv: .*column 'clicked' .* all 4 rows"):
            aggregate(csv(tmp_path / "log.csv", *words), engine=engine)


class TestPages:
    def pages(self, path: Path, clicked: pa.Array) -> Path:
        n = len(clicked)
        columns = {"session_id": list(range(n)), "query_id": ["q"] * n, "documents": [["a", "b", "c"]] * n}
        pq.write_table(pa.table({**columns, "clicked_positions": clicked}), path)
        return path

    @pytest.mark.exhaustive
    def test_types_of_clicked_positions(self, tmp_path: Path, engine: Any) -> None:
        lists = [[1], [1, 3], None, [], [7]]
        for kind in (pa.int64(), pa.uint64(), pa.float32(), pa.string()):
            written: list[Any] = [page and [str(p) if kind == pa.string() else p for p in page] for page in lists]
            path = self.pages(tmp_path / "log.parquet", pa.array(written, pa.list_(kind)))
            result = aggregate(path, engine=engine, max_rejected=1)
            assert result.clicks.clicks.tolist() == [2, 0, 1], kind
            assert result.account.rejected == {"click never shown": 1}, kind


class TestColumns:
    def test_two_roles_of_one_column(self, tmp_path: Path) -> None:
        path = write(tmp_path / "log.parquet", user_id=list(range(20)), rank=[1] * 20)
        for columns in ({"clicked": "doc_id"}, {"position": "rank", "clicked": "rank"}, {"surface": "position"}):
            with pytest.raises(UsageError, match="cannot be both"):
                aggregate(path, columns=columns)
        assert aggregate(path, columns={"session_id": "user_id"}).account.rows == 20  # one page of each user
        assert aggregate(path, columns={"position": "rank"}).account.rows == 20

    def test_a_column_that_tells_no_clicks(self, tmp_path: Path, engine: Any) -> None:
        path = write(tmp_path / "log.parquet", item=list(range(1, 21)))
        with pytest.raises(DataError, match=r"'item' \(clicked\) .* 20"):
            aggregate(path, columns={"clicked": "item"}, engine=engine)
        for values in ([0, *range(1, 20)], [None, *range(1, 20)], [1] * 20):
            path = write(tmp_path / "log.parquet", clicked=pa.array(values, pa.int64()))
            assert aggregate(path, engine=engine).account.rows == 20

    def test_a_log_without_rows(self, tmp_path: Path) -> None:
        empty = [csv(tmp_path / "a.csv"), write(tmp_path / "a.parquet", 0)]
        for path in empty:
            with pytest.raises(DataError, match="a.(csv|parquet)"):
                aggregate(path)
        assert aggregate([*empty, csv(tmp_path / "b.csv", "1,q,a,1,0")]).account.rows == 1


class TestOneQuery:
    def test_the_only_query_of_the_dataset(self, tmp_path: Path, engine: Any) -> None:
        path = write(tmp_path / "log.parquet", doc_id=["a", "b"] * 10)
        for name in ("home page", 7):
            data = RankingDataset.from_arrays(np.eye(3), [name] * 3, doc_ids=["a", "b", "c"])
            result = aggregate(path, data, one_query=True, engine=engine)
            assert result.account.rejected == {}
            assert result.clicks.impressions.sum() == 20

    def test_several_queries(self, tmp_path: Path) -> None:
        data = RankingDataset.from_arrays(np.eye(2), ["all", "q"], doc_ids=["d", "d"])
        for read in (aggregate, audit):
            with pytest.raises(UsageError, match="the dataset has 2 queries"):
                read(write(tmp_path / "log.parquet"), data, one_query=True)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.time64("ns"), pa.null()])
def test_every_column_may_be_of_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    for name in (*COLUMNS, "timestamp", "user_id", "propensity", "surface"):
        path = write(tmp_path / "log.parquet", **{name: pa.nulls(20, kind)})
        said = ""
        try:
            aggregate(path, max_rejected=1)
        except CldrankError as error:  # any other error is a fault
            said = str(error)
        assert not said or name in said or "log.parquet" in said
