"""Tables of several files and frames, on DuckDB and on Spark: how parts become one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.tables import Engine, connect, open_table
from cldrank.tables.duckdb_engine import json_type

HOSTILE = (  # names that some engine would take for something else than a file's name
    *("log[1]", "star*", "what?", "br{a,b}", "back\\slash", "quo'te", 'dou"ble', "sp ace", "new\nline", "-lead"),
    *("ünï", "a,b", "day=1", "~home", "100%", "%20", "#hash", "$HOME", "]", "[!a]", "**"),
)
DECOYS = ("log1", "starling", "what1", "bra", "brb", "backslash", "a", "b")  # what they would match as patterns


@pytest.fixture(scope="module", params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with connect(request.param, master="local[1]") as connected:
        yield connected


@pytest.fixture
def duckdb() -> Iterator[Engine]:
    with connect() as connected:
        yield connected


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in (rows[0], *(row.values() for row in rows))))
    return path


def values(engine: Engine, source: Any, column: str) -> list[Any]:
    table = engine.open(source, lambda _: [column])
    return sorted((row[column] for row in engine.rows(f"SELECT * FROM {table}")), key=str)


class TestFiles:
    @pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
    def test_a_name_is_no_pattern(self, tmp_path: Path, suffix: str, duckdb: Engine) -> None:
        for place, name in enumerate((*HOSTILE, *DECOYS)):
            write(tmp_path / f"{name}.{suffix}", [{"doc_id": f"d{place}"}])
        for place, name in enumerate(HOSTILE):
            assert values(duckdb, tmp_path / f"{name}.{suffix}", "doc_id") == [f"d{place}"], name

    def test_names_on_spark(self, tmp_path: Path, engine: Engine) -> None:
        for name in ("log[1]", "log1", "br{a,b}", "bra"):
            write(tmp_path / f"{name}.parquet", [{"doc_id": name}])
        assert values(engine, tmp_path / "log[1].parquet", "doc_id") == ["log[1]"]
        assert values(engine, tmp_path / "br{a,b}.parquet", "doc_id") == ["br{a,b}"]

    def test_folders_are_columns(self, tmp_path: Path, engine: Engine) -> None:
        for surface in ("web", "a%20b", "__HIVE_DEFAULT_PARTITION__"):
            write(tmp_path / f"env=x/log/surface={surface}/part.parquet", [{"doc_id": 1}])
        assert values(engine, tmp_path / "env=x/log", "surface") == [None, "a b", "web"]
        assert values(engine, tmp_path / "env=x/log", "doc_id") == [1, 1, 1]

    def test_many_parts_of_many_kinds(self, tmp_path: Path, duckdb: Engine) -> None:
        for place in range(100):
            write(tmp_path / f"{place}.parquet", [{"doc_id": place, f"extra_{place}": 1}])
        assert len(values(duckdb, tmp_path, "doc_id")) == 100


class TestParts:
    def test_numbers_widen_and_become_text_beside_text(self, tmp_path: Path, engine: Engine) -> None:
        for other, expected in ((1.5, [1.0, 1.5]), ("x", ["1", "x"])):
            for part, value in enumerate((1, other)):
                write(tmp_path / f"{other}/{part}.parquet", [{"id": value}])
            assert values(engine, tmp_path / str(other), "id") == expected

    def test_fractions_beside_text_are_refused(self, tmp_path: Path, engine: Engine) -> None:
        write(tmp_path / "1.parquet", [{"id": "1"}])
        write(tmp_path / "2.parquet", [{"id": 1.0}])
        with pytest.raises(DataError, match=r"'id'.*1\.parquet.*2\.parquet"):
            engine.open(tmp_path)

    def test_a_column_that_one_part_lacks(self, tmp_path: Path, engine: Engine) -> None:
        write(tmp_path / "1.parquet", [{"id": 1, "clicked": 1}])
        write(tmp_path / "2.parquet", [{"id": 2}])
        with pytest.raises(DataError, match=r"2\.parquet.*'clicked'.*1\.parquet"):
            engine.open(tmp_path)
        assert values(engine, tmp_path, "id") == [1, 2]  # nobody asks for the other one

    def test_json_lacks_what_is_missing(self, tmp_path: Path, engine: Engine) -> None:
        write(tmp_path / "1.json", [{"id": 1}])
        write(tmp_path / "2.json", [{"id": 2, "clicked": 1}])
        assert values(engine, tmp_path, "clicked") == [1, None]

    def test_a_fraction_far_down_in_json(self, tmp_path: Path, duckdb: Engine) -> None:
        file = write(tmp_path / "log.json", [*({"p": 1} for _ in range(30_000)), {"p": 1.5}])
        assert values(duckdb, file, "p")[-1] == 1.5

    def test_csv_is_text(self, tmp_path: Path, engine: Engine) -> None:
        file = write(tmp_path / "a.csv", [{"id": "007", "x": "1.0"}, {"id": "0x10", "x": "true"}])
        assert values(engine, file, "id") == ["007", "0x10"]
        assert values(engine, file, "x") == ["1.0", "true"]

    @pytest.mark.parametrize("again", ["id", "ID"])
    def test_a_column_that_is_there_twice(self, tmp_path: Path, again: str, duckdb: Engine) -> None:
        (tmp_path / "a.csv").write_text(f"id,{again}\n1,2\n")
        with pytest.raises(FormatError, match="'id'"):
            duckdb.open(tmp_path / "a.csv", lambda _: ["id"])

    def test_damaged_files(self, tmp_path: Path, duckdb: Engine) -> None:
        whole = write(tmp_path / "a.parquet", [{"id": 1}]).read_bytes()
        (tmp_path / "cut.parquet").write_bytes(whole[:-20])
        (tmp_path / "text.parquet").write_text("id\n1\n")
        (tmp_path / "a.json").write_text('{"id": 1}\n{"id": \n')
        for name in ("cut.parquet", "text.parquet", "a.json"):
            with pytest.raises(DataError, match=name):
                duckdb.rows(f"SELECT * FROM {duckdb.open(tmp_path / name)}")


class TestFrames:
    def test_kinds_of_frames(self, engine: Engine) -> None:
        columns = {"id": [2, 1], "text": ["b", "a"]}
        for frame in (pa.table(columns), pd.DataFrame(columns), pl.DataFrame(columns), pl.LazyFrame(columns)):
            assert values(engine, frame, "id") == [1, 2]
            assert values(engine, frame, "text") == ["a", "b"]

    def test_spark_frames_stay_in_spark(self) -> None:
        with connect("spark", master="local[1]") as engine:
            frame = engine.session.range(3)  # type: ignore[attr-defined]
            with open_table(frame) as table:  # whatever engine is asked for
                assert table.engine.name == "spark"
                assert table.engine.row(f"SELECT sum(id) AS total FROM {table}") == {"total": 3}


class TestQueries:
    def test_holding_computes_once(self, engine: Engine) -> None:
        held = engine.hold("SELECT random() AS x FROM (VALUES (1), (2)) AS t(y)")
        assert engine.rows(f"SELECT x FROM {held} ORDER BY x") == engine.rows(f"SELECT x FROM {held} ORDER BY x")

    def test_saving(self, tmp_path: Path, engine: Engine) -> None:
        engine.save("SELECT 1 AS a UNION ALL SELECT 2 AS a", tmp_path / "out.parquet")
        assert sorted(pq.read_table(tmp_path / "out.parquet")["a"].to_pylist()) == [1, 2]

    def test_running_out_of_memory_names_the_limit(self) -> None:
        query = "SELECT list(range) AS a FROM range(20000000)"
        with (
            connect(memory_limit="30MB", threads=1) as engine,
            pytest.raises(CldrankError, match="30MB.*`memory_limit`"),
        ):
            engine.rows(query)

    def test_wrong_settings(self) -> None:
        for limit in ("much", "-3GB"):
            with pytest.raises(UsageError, match=limit), connect(memory_limit=limit):
                pass


def test_what_json_holds_stays_text_at_any_depth() -> None:
    kind = 'STRUCT(id UUID, shown STRUCT("at" TIMESTAMP, n BIGINT)[])'
    assert json_type(kind) == 'STRUCT("id" VARCHAR, "shown" STRUCT("at" VARCHAR, "n" BIGINT)[])'
