from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.decoding import keys_of
from cldrank.errors import DataError, UsageError
from cldrank.pipeline import read_pipeline, run_pipeline
from cldrank.pipeline.pipeline_file import SECTIONS
from cldrank.pipeline.template import pipeline_template


def written(place: Path) -> Path:
    path = place / "new.toml"
    files = [str(place / "log.parquet")], [str(place / "train.parquet")]
    path.write_text(pipeline_template(*files, place), encoding="utf-8")
    return path


def test_the_file_runs_as_it_is(place: Path) -> None:
    record = run_pipeline(read_pipeline(written(place)))
    assert record.status == "shipped"


def test_every_key_is_there_with_its_sentence(place: Path) -> None:
    text = written(place).read_text()
    for kind in SECTIONS.values():
        for key, known in keys_of(kind).items():
            assert f"{key} = " in text
            assert known.about in text


def test_every_comment_is_toml(place: Path) -> None:
    """Whatever is commented out can be uncommented, line by line."""
    for line in written(place).read_text().splitlines():
        if line.startswith("# ") and line[2:3].islower() and " = " in line.partition("  #")[0]:
            assert len(tomllib.loads(line.removeprefix("# "))) == 1


def test_paths_are_relative_to_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    files = ["place/log.parquet"], ["place/train.parquet"]
    assert 'files = ["log.parquet"]' in pipeline_template(*files, Path("place"))
    assert 'files = ["place/log.parquet"]' in pipeline_template(*files, Path())
    with pytest.raises(UsageError, match=r"other\.parquet"):
        pipeline_template(["other.parquet"], files[1], Path())


def test_a_position_inside_a_column_and_one_that_is_wrong(place: Path) -> None:
    """A row with position 0 among positions from 1 is set aside; it does not make the file say that all begin at 0."""
    table = pq.read_table(place / "log.parquet")
    positions = table["position"].to_pylist()
    events = pa.array([{"rank": 0 if row == 7 else position} for row, position in enumerate(positions)])
    pq.write_table(table.drop_columns("position").append_column("event", events), place / "log.parquet")
    path = written(place)
    path.write_text(path.read_text().replace("[log]\n", '[log]\ncolumns.position = "event.rank"\n'), encoding="utf-8")
    record = run_pipeline(read_pipeline(path))
    assert record.status == "shipped"
    assert record.step("aggregate").facts["set_aside"] == 1  # type: ignore[union-attr]


def test_missing_values_can_be_filled_in(place: Path) -> None:
    table = pq.read_table(place / "train.parquet")
    ages = [None if row % 8 == 5 else age for row, age in enumerate(table["age"].to_pylist())]
    with_gaps = table.set_column(table.column_names.index("age"), "age", pa.array(ages, pa.float32()))
    pq.write_table(with_gaps, place / "train.parquet")
    path = written(place)
    with pytest.raises(DataError, match=r"fill in missing values with `missing=0"):
        run_pipeline(read_pipeline(path))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("[features]", "[features]\nmissing = 0"), encoding="utf-8")
    assert run_pipeline(read_pipeline(path)).status == "shipped"
