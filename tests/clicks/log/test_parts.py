"""Logs in several files, on DuckDB and on Spark: which files are read, and how their parts become one table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
from cldrank.clicks.log.engines import DuckDB, connected
from cldrank.errors import DataError, FormatError

COLUMNS = ("session_id", "query_id", "doc_id", "position", "clicked")
# names that some engine would take for something else than a file's name
HOSTILE = (
    *("log[1]", "star*", "what?", "br{a,b}", "back\\slash", "quo'te", 'dou"ble', "sp ace", "new\nline", "-lead"),
    *("ünï", "a,b", "day=1", "~home", "100%", "%20", "#hash", "$HOME", "]", "[!a]", "**"),
)
DECOYS = ("log1", "starling", "what1", "bra", "brb", "backslash", "a", "b")  # what they would match as patterns


def row(document: str, position: Any = 1, session: Any = 1, clicked: Any = 0) -> dict[str, Any]:
    return dict(zip(COLUMNS, (session, "q", document, position, clicked), strict=True))


def write(path: Path, rows: list[dict[str, Any]], **types: pa.DataType) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(rows)
        for name, kind in types.items():
            table = table.set_column(table.column_names.index(name), name, pa.array([r[name] for r in rows], kind))
        pq.write_table(table, path)
        return path
    if path.suffix == ".json":
        text = "".join(json.dumps(r) + "\n" for r in rows)
    else:
        separator = "\t" if ".tsv" in path.suffixes else ","
        text = "".join(separator.join(map(str, line)) + "\n" for line in (rows[0], *(r.values() for r in rows)))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def documents(*paths: Path, engine: Any = "duckdb", **options: Any) -> list[str]:
    found = aggregate(list(paths), engine=engine, **options).clicks.candidates.doc_ids
    return sorted(map(str, found))


class TestTheFilesThatAreNamed:
    @pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
    def test_a_name_is_no_pattern(self, tmp_path: Path, suffix: str) -> None:
        for place, name in enumerate((*HOSTILE, *DECOYS)):
            write(tmp_path / f"{name}.{suffix}", [row(f"d{place}")])
        with connected("duckdb") as engine:
            for place, name in enumerate(HOSTILE):
                table = engine.open([tmp_path / f"{name}.{suffix}"], lambda _: ["doc_id"])
                assert table.to_pyarrow()["doc_id"].to_pylist() == [f"d{place}"], name
        assert documents(tmp_path / f"star*.{suffix}") == ["d1"]

    def test_a_folder_is_no_pattern(self, tmp_path: Path) -> None:
        write(tmp_path / "dir[1]/a.parquet", [row("mine")])
        write(tmp_path / "dir1/a.parquet", [row("other")])
        assert documents(tmp_path / "dir[1]") == ["mine"]

    @pytest.mark.slow
    def test_names_and_separators_on_spark(self, tmp_path: Path, spark: Any) -> None:
        for suffix in ("parquet", "csv", "json"):
            folder = tmp_path / suffix
            for place, name in enumerate((*HOSTILE, *DECOYS)):
                write(folder / f"{name}.{suffix}", [row("d", position=place + 1)])
            files = [folder / f"{name}.{suffix}" for name in HOSTILE]
            found = aggregate(files, engine=spark, max_rejected=1)
            assert found.account.rows == len(HOSTILE)
        write(tmp_path / "dir[1]/a.parquet", [row("mine")])
        write(tmp_path / "dir1/a.parquet", [row("other")])
        assert documents(tmp_path / "dir[1]", engine=spark) == ["mine"]
        write(tmp_path / "one.tsv.gz", [row("tabs")])
        write(tmp_path / "tabs/a.tsv", [row("a"), row("b", 2)])
        assert documents(tmp_path / "one.tsv.gz", engine=spark) == ["tabs"]
        assert documents(tmp_path / "tabs", engine=spark) == ["a", "b"]
        with pytest.raises(DataError, match=r"_a.parquet: Spark does not read files whose names"):
            documents(write(tmp_path / "_a.parquet", [row("a")]), engine=spark)

    def test_hidden_files_and_folders_are_left_out(self, tmp_path: Path) -> None:
        for name in ("a.csv", "_a.csv", ".a.csv", "_temporary/0/a.csv", ".cache/a.csv", "day=1/b.csv"):
            write(tmp_path / "log" / name, [row(name)])
        assert documents(tmp_path / "log") == ["a.csv", "day=1/b.csv"]

    def test_what_folders_are_called_is_a_column(self, tmp_path: Path, engine: Any) -> None:
        for session, surface in enumerate(("web", "a%20b", "__HIVE_DEFAULT_PARTITION__")):
            write(tmp_path / f"env=x/log/surface={surface}/part.parquet", [row("d", session=session)])
        found = aggregate(tmp_path / "env=x/log", segment="surface", engine=engine)
        parts = found.clicks.by_segment()
        assert {name: part.impressions.sum() for name, part in parts.items()} == {"a b": 1, "web": 1, "(missing)": 1}
        assert found.account.rows == 3
        with pytest.raises(FormatError, match="no column 'env'"):  # above the folder that was named
            aggregate(tmp_path / "env=x/log", segment="env", engine=engine)

    def test_many_parts_of_many_kinds(self, tmp_path: Path) -> None:
        for place in range(400):
            part = {**row("d", session=place), f"extra_{place}": 1}
            write(tmp_path / f"log/{place}.parquet", [part])
        assert aggregate(tmp_path / "log").account.rows == 400


class TestReconciling:
    """The same however the parts are named: the folder, or one by one."""

    def named(self, folder: Path) -> list[list[Path]]:
        return [[folder], sorted(folder.iterdir())]

    @pytest.mark.exhaustive
    def test_numbers_widen(self, tmp_path: Path, engine: Any) -> None:
        for suffix in ("parquet", "json"):
            folder = tmp_path / suffix
            write(folder / f"1.{suffix}", [row("a", 1), row("b", 2)])
            write(
                folder / f"2.{suffix}", [row("a", 1.5, session=2), row("b", 2.5, session=2), row("c", 3.0, session=2)]
            )
            for paths in self.named(folder):
                result = aggregate(paths, engine=engine, max_rejected=1)
                assert result.account.rejected == {"not a number": 2}
                assert result.clicks.position.tolist() == [1, 2, 3]
            with pytest.raises(TooManyRejectsError, match="40.0% of 5 rows had to be set aside"):
                aggregate(folder, engine=engine)

    def test_ids_as_numbers_and_as_text(self, tmp_path: Path, engine: Any) -> None:
        for suffix in ("parquet", "json"):
            folder = tmp_path / suffix
            write(folder / f"1.{suffix}", [row(1), row(2, 2)])  # type: ignore[arg-type]
            write(folder / f"2.{suffix}", [row("1", session="s"), row("x", 2, session="s")])
            for paths in self.named(folder):
                assert documents(*paths, engine=engine) == ["1", "2", "x"]

    def test_whole_numbers_stored_as_floating_point(self, tmp_path: Path, engine: Any) -> None:
        write(tmp_path / "log/1.parquet", [row(1), row(2, 2)])  # type: ignore[arg-type]
        write(tmp_path / "log/2.parquet", [row(1.0, session=2.0), row(2.0, 2, session=2.0)])  # type: ignore[arg-type]
        write(tmp_path / "log/3.parquet", [row(None, clicked=True)], doc_id=pa.null())  # type: ignore[arg-type]
        for paths in self.named(tmp_path / "log"):
            result = aggregate(paths, engine=engine, max_rejected=1)
            assert result.clicks.candidates.doc_ids.tolist() == [1, 2]
            assert result.account.rejected == {"null key": 1}

    def test_parts_that_cannot_be_reconciled(self, tmp_path: Path, engine: Any) -> None:
        write(tmp_path / "log/1.parquet", [row("1")])
        write(tmp_path / "log/2.parquet", [row(1.0)])  # type: ignore[arg-type]
        for paths in self.named(tmp_path / "log"):
            with pytest.raises(DataError, match=r"'doc_id' is string in \S+1.parquet, float64 in \S+2.parquet"):
                aggregate(paths, engine=engine)
        few = {name: value for name, value in row("a").items() if name != "clicked"}
        write(tmp_path / "few/1.parquet", [row("a")])
        write(tmp_path / "few/2.parquet", [few])
        for paths in self.named(tmp_path / "few"):
            with pytest.raises(DataError, match=r"2.parquet has no column 'clicked', but \S+1.parquet has"):
                aggregate(paths, engine=engine)

    def test_columns_that_nobody_asks_for_may_differ(self, tmp_path: Path, engine: Any) -> None:
        write(tmp_path / "log/1.parquet", [{**row("a"), "price": 1.5}])
        write(tmp_path / "log/2.parquet", [{"device": "tv", **row("b", 2), "price": "n/a"}])
        write(tmp_path / "log/3.csv", [{"x": 1, **dict(reversed(row("c", 3).items()))}])
        for paths in self.named(tmp_path / "log"):
            assert documents(*paths, engine=engine) == ["a", "b", "c"]

    def test_json_leaves_out_what_is_missing(self, tmp_path: Path, engine: Any) -> None:
        write(tmp_path / "log/1.json", [{name: value for name, value in row("a").items() if name != "clicked"}])
        write(tmp_path / "log/2.json", [row("a", session=2, clicked=1)])
        for paths in self.named(tmp_path / "log"):
            assert aggregate(paths, engine=engine).clicks.clicks.tolist() == [1]

    def test_a_fraction_far_down_in_json(self, tmp_path: Path) -> None:
        rows = [row("a", 1, session) for session in range(30_000)] + [row("a", 1.5, 30_000)]
        assert aggregate(write(tmp_path / "log.json", rows)).account.rejected == {"not a number": 1}

    def test_keys_of_json_may_be_anything(self, tmp_path: Path, engine: Any) -> None:
        odd = {"a b": 1, "select": 2, "it's": {"x": 1}, 'q"': [1, "a"], "when": "2024-01-01T10:00:00+02:00"}
        assert documents(write(tmp_path / "log.json", [{**row("a"), **odd}]), engine=engine) == ["a"]


class TestRefusing:
    def test_a_column_that_is_there_twice(self, tmp_path: Path) -> None:
        arrays = [pa.array([value]) for value in row("a").values()]
        for again in ("position", "Position"):
            pq.write_table(pa.table([*arrays, pa.array([9])], names=[*COLUMNS, again]), tmp_path / "log.parquet")
            (tmp_path / "log.csv").write_text(f"{','.join(COLUMNS)},{again}\n1,q,a,1,0,9\n")
            for name in ("log.parquet", "log.csv"):
                with pytest.raises(FormatError, match=rf"'position' occurs 2 times \(position, {again}\)"):
                    aggregate(tmp_path / name)
        pq.write_table(pa.table([*arrays, *arrays[:1]] * 1, names=[*COLUMNS, "x"]), tmp_path / "log.parquet")
        assert documents(tmp_path / "log.parquet") == ["a"]

    def test_files_that_are_damaged(self, tmp_path: Path) -> None:
        good = write(tmp_path / "good.parquet", [row("a")]).read_bytes()
        (tmp_path / "cut.parquet").write_bytes(good[:-20])
        (tmp_path / "footer.parquet").write_bytes(good[:-60] + b"\xff" * 20 + good[-40:])
        (tmp_path / "empty.parquet").write_bytes(b"")
        (tmp_path / "empty.csv").write_bytes(b"")
        (tmp_path / "bad.csv.gz").write_bytes(b"session_id,query_id")
        (tmp_path / "bad.json").write_text('{"session_id": 1\n')
        for name in ("cut.parquet", "footer.parquet", "empty.parquet", "empty.csv", "bad.csv.gz", "bad.json"):
            with pytest.raises(DataError, match=name):
                aggregate(tmp_path / name)

    def test_a_connection_that_the_caller_keeps(self, tmp_path: Path) -> None:
        import ibis

        connection = ibis.duckdb.connect()
        assert documents(write(tmp_path / "a.csv", [row("a")]), engine=connection) == ["a"]
        assert isinstance(DuckDB(connection).open([tmp_path / "a.csv"]).count().to_pyarrow().as_py(), int)
