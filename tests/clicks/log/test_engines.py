"""What engines are given, and what they say when memory or disk are used up."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.log.engines import Engine, connected, memory_bytes, querying
from cldrank.errors import CldrankError, UsageError

HEADER = "session_id,query_id,doc_id,position,clicked\n"


@pytest.mark.parametrize("limit", ["-1", "0GB", "0", "lots", "", "3", "3XB", "-3GB", "1e3GB", "nanGB", "80%", None])
def test_memory_limits_that_are_none(tmp_path: Path, limit: str) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "1,q,a,1,0\n")
    for engine in ("duckdb", "spark"):
        with pytest.raises(UsageError, match="must be an amount of memory such as 3GB"):
            aggregate(tmp_path / "log.csv", memory_limit=limit, engine=engine)


def test_memory_limits() -> None:
    assert [memory_bytes(text) for text in ("500MB", "2 GiB", "1.5gb", "512b")] == [500 * 10**6, 2**31, 15 * 10**8, 512]


def test_out_of_memory_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "1,q,a,1,0\n")
    with pytest.raises(CldrankError, match=r"ran out of memory within the limit of 1KB, .* raise memory_limit") as e:
        aggregate(tmp_path / "log.csv", memory_limit="1KB")
    assert "log.csv" not in str(e.value)  # nothing is wrong with it


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = f"the disk is full: DuckDB spills to {tmp_path} what does not fit in the memory limit of 20MB.*TMPDIR"
    sort = "CREATE TEMP TABLE t AS SELECT random() AS a, random() AS b FROM range(5_000_000) ORDER BY a"
    with (
        pytest.raises(CldrankError, match=told),
        connected("duckdb", memory_limit="20MB", threads=1) as engine,
        files_of_at_most(1 << 20),
        querying([Path("log.csv")]),
    ):
        engine.connection.raw_sql(sort)
    said = "Out of Memory Error: failed to offload data block … set by the 'max_temp_directory_size' setting"
    with pytest.raises(CldrankError, match=told), connected("duckdb", memory_limit="20MB"):
        raise duckdb.OutOfMemoryException(said)  # as it says on a small disk


def test_what_a_killed_process_spilled_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / ".cldrank-spill.abcdefgh.part"
    left.mkdir()
    (left / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(b"x")
    with connected("duckdb") as engine:
        assert not left.exists()
        folder = engine.connection.raw_sql("SELECT current_setting('temp_directory')").fetchone()[0]
        assert Path(folder).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


class TestImports:
    """What imports ask of an engine."""

    def test_rows_differ_or_may_not(self) -> None:
        with connected() as engine:
            rows = engine.in_memory(pa.table({"page": [1, 1, 2], "doc": ["a", "b", "a"], "one": [1, 1, 1]}))
            assert engine.differ(rows, ["page", "doc"])
            assert not engine.differ(rows, ["page", "one"])
            assert not Engine.differ(engine, rows, ["page", "doc"])  # without a proof

    def test_keys_tell_rows_apart(self) -> None:
        with connected() as engine, engine.in_memory(pa.table({"page": ["a", "b"]})).cache() as rows:
            assert engine.keyed(rows, "page").to_pyarrow()["key"].to_pylist() == [0, 1]
            assert Engine.keyed(engine, rows, "page").to_pyarrow()["key"].to_pylist() == ["a", "b"]

    def test_a_join_that_streams_leaves_the_settings_as_they_were(self) -> None:
        with connected() as engine:
            setting = "SELECT current_setting('disabled_optimizers')"
            engine.connection.con.execute("SET disabled_optimizers = 'top_n'")
            with engine.streaming_left():
                (inside,) = engine.connection.con.execute(setting).fetchall()[0]
            assert set(inside.split(",")) == {"top_n", "build_side_probe_side"}
            assert engine.connection.con.execute(setting).fetchall() == [("top_n",)]
