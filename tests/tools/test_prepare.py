"""Which files `prepare` takes, and where it writes."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from prepare import MAKERS, main, prepare

from cldrank import catalogue
from cldrank.catalogue import DataSource
from cldrank.errors import CldrankWarning, DataError, UsageError

EVENTS = b'{"event": "ranking", "id": "r", "timestamp": "1636993834000", "user": "u", "items": [{"id": "7"}]}'


@pytest.fixture
def source(tmp_path: Path) -> DataSource:
    """RankLens, if its published file were the one that now lies in the folder `published`."""
    body = gzip.compress(EVENTS)
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "events.jsonl.gz").write_bytes(body)
    ranklens = catalogue.get("ranklens")
    return replace(ranklens, downloads=(replace(ranklens.downloads[0], sha256=hashlib.sha256(body).hexdigest()),))


def test_into_the_cache_where_names_find_it(
    source: DataSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    made = prepare(source, [tmp_path / "published"])
    assert catalogue.resolve("ranklens:impressions") == [made.folder / "impressions.parquet"]
    assert made.counts["rows"] == 1


def test_into_a_folder_and_again(source: DataSource, tmp_path: Path) -> None:
    for given in (tmp_path / "published", tmp_path / "published" / "events.jsonl.gz"):  # a folder, or the file
        assert prepare(source, [given], tmp_path / "out").folder == tmp_path / "out"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "impressions.parquet",
        "items.parquet",
        "prepared.json",
    ]


def test_a_folder_of_other_things_is_left_alone(source: DataSource, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"published holds other files \(events\.jsonl\.gz\)"):
        prepare(source, [tmp_path / "published"], tmp_path / "published")
    assert (tmp_path / "published" / "events.jsonl.gz").is_file()


def test_what_fails_leaves_what_was_there(source: DataSource, tmp_path: Path) -> None:
    prepare(source, [tmp_path / "published"], tmp_path / "out")
    before = (tmp_path / "out" / "impressions.parquet").read_bytes()
    broken = tmp_path / "broken" / "events.jsonl.gz"
    broken.parent.mkdir()
    broken.write_bytes(gzip.compress(EVENTS + b"\n{}"))
    with pytest.warns(CldrankWarning, match="is not the file on record"), pytest.raises(DataError, match="gz:2: "):
        prepare(source, [broken], tmp_path / "out")
    assert (tmp_path / "out" / "impressions.parquet").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "out", "published"]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no movies-corpus\.jsonl\.gz nor movies-judgments\.tsv\.gz in .*data list msrd"
    ):
        prepare("msrd", [tmp_path], tmp_path / "out")
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        prepare("msrd", [tmp_path / "nowhere"], tmp_path / "out")
    with pytest.raises(UsageError, match=r"no file ends in \.feather, \.arrow or \.parquet"):
        prepare("baidu-ultr", [tmp_path], tmp_path / "out")


@pytest.mark.filterwarnings("always:.* is not the file on record")
def test_the_script(source: DataSource, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ranklens", "--from", str(tmp_path / "published"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"ranklens is now in {tmp_path / 'out'}", "lists: 1, rows: 1"]
    assert "CC BY-SA 4.0" in printed.err
    assert main(["ranklens", "--from", str(tmp_path / "nowhere")]) == 1
    assert str(tmp_path / "nowhere") in capsys.readouterr().err


def test_every_set_that_is_prepared_has_its_maker() -> None:
    assert set(MAKERS) == {name for name in catalogue.names() if catalogue.get(name).prepared}
