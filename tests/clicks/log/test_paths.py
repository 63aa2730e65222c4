"""Which files a path names, and that none is counted twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from small_logs import CLEAN, COLUMNS, write

from cldrank import ClickTable
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.audit import audit
from cldrank.clicks.log.paths import existing, log_files
from cldrank.errors import DataError, UsageError


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


class TestPaths:
    def test_patterns(self, tmp_path: Path) -> None:
        for name in ("1/a.csv", "1/b.csv", "2/a.csv", "2/deep/a.csv", "1/_a.csv", "1/.a.csv", "_tmp/a.csv"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            csv(tmp_path / name)

        def found(pattern: str) -> list[str]:
            return [Path(path).relative_to(tmp_path).as_posix() for path in existing(tmp_path / pattern)]

        assert found("*/*.csv") == ["1/a.csv", "1/b.csv", "2/a.csv"]
        assert found("**/a.csv") == ["1/a.csv", "2/a.csv", "2/deep/a.csv"]
        assert found("[12]/b.???") == ["1/b.csv"]
        assert found("*/_*.csv") == ["1/_a.csv"]  # asked for
        assert found("_tmp/*") == ["_tmp/a.csv"]
        assert found("*") == ["1", "2"]
        assert found("2/**") == ["2"]  # the folder, not once more what is in it
        assert found("2/*") == ["2/a.csv", "2/deep"]

    def test_a_file_that_exists_is_that_file(self, tmp_path: Path) -> None:
        for name in ("star*.csv", "starx.csv", "log[1].csv", "log1.csv"):
            csv(tmp_path / name)
        assert existing(tmp_path / "star*.csv") == [tmp_path / "star*.csv"]
        assert existing([tmp_path / "log[1].csv"]) == [tmp_path / "log[1].csv"]
        assert existing(tmp_path / "log[0-9].csv") == [tmp_path / "log1.csv"]

    def test_a_log_of_the_catalogue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLDRANK_DATA", str(tmp_path))
        (tmp_path / "ranklens").mkdir()
        for name in ("impressions", "items"):
            (tmp_path / "ranklens" / f"{name}.parquet").touch()
        assert existing("ranklens:impressions") == [tmp_path / "ranklens" / "impressions.parquet"]
        with pytest.raises(UsageError, match="'nothing'"):
            existing("ranklens:nothing")

    def test_nothing_is_counted_twice(self, tmp_path: Path) -> None:
        (tmp_path / "log").mkdir()
        a = csv(tmp_path / "log/a.csv")
        (tmp_path / "link.csv").symlink_to(a)
        for paths in ([a, a], [a, tmp_path / "log"], [tmp_path / "log", a], [a, tmp_path / "l*.csv"]):
            with pytest.raises(UsageError, match="named twice"):
                existing(paths)

    def test_paths_that_are_none(self, tmp_path: Path) -> None:
        csv(tmp_path / "a.csv")
        os.mkfifo(tmp_path / "pipe.csv")
        for paths, message in (
            (tmp_path / "absent.csv", "absent.csv: no such log"),
            (tmp_path / ("x" * 300), "no such log"),
            ([tmp_path / "a.csv", tmp_path / "*.json"], r"\*.json: no log matches"),
            ([], "no log was given"),
            ("", "no log was given"),
            (tmp_path / "pipe.csv", "neither a file nor a folder"),
        ):
            with pytest.raises(UsageError, match=message):
                aggregate(paths)

    def test_what_is_neither_files_nor_a_frame_is_refused_with_what_to_do(self) -> None:
        table = pa.table({name: [1] for name in COLUMNS})
        tables: list[Any] = [table.to_pydict(), table.to_batches() * 2, [table, table], 7, None, b"x"]
        for given in tables:
            for read in (aggregate, audit, ClickTable.read):
                with pytest.raises(UsageError, match="write a table of another kind to a Parquet file first"):
                    read(given)


class TestFingerprints:
    def test_a_file_named_twice(self, tmp_path: Path) -> None:
        folder = tmp_path / "days"
        folder.mkdir()
        path = write(folder / "1.parquet", CLEAN)
        for named in ([path, path], [folder, path], [folder, folder / "*.parquet"]):
            with pytest.raises(UsageError, match="is named twice, and its rows would be counted twice"):
                aggregate(named)
        shutil.copy(path, folder / "2.parquet")
        with pytest.raises(DataError, match=r"2\.parquet has the same content as .*1\.parquet.* again=True"):
            aggregate(folder)
        assert aggregate(folder, again=True, max_rejected=1).account.rows == 10

    @pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst", "csv.bz2"])
    def test_a_small_compressed_log_is_remembered(self, tmp_path: Path, suffix: str) -> None:
        rows = [f"{session},q,a,1,{session % 2}" for session in range(6)]
        text = "\n".join(["session_id,query_id,doc_id,position,clicked", *rows]) + "\n"
        for place in range(20):  # some compressed bytes hold no line end
            with pa.output_stream(str(tmp_path / f"{place}.{suffix}"), compression="detect") as stream:
                stream.write(text.replace("q,", f"q{place},").encode())
            assert len(log_files([tmp_path / f"{place}.{suffix}"])) == 1

    def test_a_file_in_a_partition_is_the_same_file(self, tmp_path: Path) -> None:
        (tmp_path / "days" / "day=1").mkdir(parents=True)
        path = write(tmp_path / "days" / "day=1" / "part.parquet", CLEAN)
        earlier = aggregate(path).clicks
        with pytest.raises(DataError, match="went into both"):
            earlier.merge(aggregate(tmp_path / "days").clicks)

    def test_empty_parts_are_alike(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            write(tmp_path / f"{name}.parquet", [])
        write(tmp_path / "c.parquet", CLEAN)
        clicks = aggregate(tmp_path).clicks
        assert [source.name for source in clicks.sources] == ["c.parquet"]

    def test_large_files_are_sampled(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cldrank.clicks.log.paths._WHOLE", 640)
        (tmp_path / "a.csv").write_bytes(b"x\n" + b"0" * 9997 + b"\n")
        (tmp_path / "b.csv").write_bytes(b"x\n" + b"0" * 9996 + b"1\n")  # the last bytes are always read
        assert len(log_files([tmp_path / "a.csv", tmp_path / "b.csv"])) == 2
