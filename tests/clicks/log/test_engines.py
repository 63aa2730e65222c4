"""What engines are given, and what they say when memory or disk are used up."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.log.engines import connected, memory_bytes, querying
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
