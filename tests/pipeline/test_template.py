from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cldrank.decoding import keys_of
from cldrank.errors import UsageError
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
    lines = [line.removeprefix("# ") for line in written(place).read_text().splitlines() if line.startswith("# ")]
    settings = [line for line in lines if line[:1].islower() and " = " in line.partition("  #")[0]]
    assert len(settings) > 10
    assert all(len(tomllib.loads(line)) == 1 for line in settings)


def test_paths_are_relative_to_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    files = ["place/log.parquet"], ["place/train.parquet"]
    assert 'files = ["log.parquet"]' in pipeline_template(*files, Path("place"))
    assert 'files = ["place/log.parquet"]' in pipeline_template(*files, Path())
    with pytest.raises(UsageError, match=r"other\.parquet"):
        pipeline_template(["other.parquet"], files[1], Path())
