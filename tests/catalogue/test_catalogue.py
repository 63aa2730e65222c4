from __future__ import annotations

import re
from pathlib import Path

import pytest

from cldrank import catalogue
from cldrank.catalogue import DataSource
from cldrank.errors import DataError, UsageError

ALL = pytest.mark.parametrize("source", [catalogue.get(name) for name in catalogue.names()], ids=catalogue.names())


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The data folder and the data folder of the cache, both empty."""
    monkeypatch.setenv("CLDRANK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache" / "data"


def place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


# -- every entry -------------------------------------------------------------------------------------------------------


@ALL
def test_every_entry_is_complete(source: DataSource) -> None:
    for text in (source.title, source.summary, source.licence, source.citation):
        assert text == text.strip() != ""
    assert re.match(r"https?://", source.homepage)
    assert len(source.instructions) >= 2
    assert source.kind in {"features", "clicks"}
    assert (source.kind == "features") == (source.grades is not None) == (source.features is not None)
    if source.key != "baidu-ultr":  # whose parts nobody has counted here
        assert source.queries
        assert source.rows
    assert all(split == split.lower() for split in source.splits)


@ALL
def test_every_entry_can_be_had_in_one_way(source: DataSource) -> None:
    assert source.gated == (not source.downloads)
    assert not (source.gated and source.acceptance)
    for file in source.downloads:
        assert file.size > 0
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert len({file.name for file in source.downloads}) == len(source.downloads)


@ALL
def test_layouts_name_all_splits_and_only_known_fields(source: DataSource) -> None:
    for layout in source.layouts:
        assert tuple(layout) == source.splits
        for pattern in (pattern for patterns in layout.values() for pattern in patterns):
            assert not Path(pattern).is_absolute()
            assert set(re.findall(r"{(\w+)}", pattern)) <= {"n", "fold", "p1", "p2", "p3", "p4", "p5"}
            assert ("{" in pattern) == bool(source.folds)


@ALL
@pytest.mark.parametrize("below", ["", "a/b"])
def test_every_split_is_found_at_any_depth(source: DataSource, below: str, folders: tuple[Path, Path]) -> None:
    assert source.find() is None
    for reference in source.references:
        for name in source._names(reference)[0]:
            place(folders[0] / source.key / below / name)
    assert source.find() == folders[0] / source.key
    assert source.present_in(folders[0] / source.key) == source.references
    for reference in source.references:
        assert all(path.is_file() for path in catalogue.resolve(reference))


def test_the_nearest_file_counts_and_hidden_ones_do_not(folders: tuple[Path, Path]) -> None:
    place(folders[0] / "msrd" / ".fetched.a1b2c3d4.part" / "train.parquet")
    assert catalogue.get("msrd").find() is None
    place(folders[0] / "msrd" / "a" / "train.parquet")
    nearest = place(folders[0] / "msrd" / "train.parquet")
    assert catalogue.resolve("msrd:train") == [nearest]


# -- looking things up -------------------------------------------------------------------------------------------------


def test_the_data_folder_comes_before_the_cache(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    cached = place(cache / "msrd" / "test.parquet")
    assert catalogue.resolve("msrd:test") == [cached]
    chosen = place(data / "msrd" / "test.parquet")
    assert catalogue.resolve("msrd:test") == [chosen]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_text_may_be_compressed(folders: tuple[Path, Path], suffix: str) -> None:
    path = place(folders[0] / "web10k" / "MSLR-WEB10K" / "Fold3" / f"vali.txt{suffix}")
    assert catalogue.get("web10k").files("vali", fold="fold3") == [path]


def test_the_five_parts_rotate(folders: tuple[Path, Path]) -> None:
    for part in (1, 2, 4, 5, 3):
        with pytest.raises(DataError, match=r"S1.txt \+ S2.txt \+ S3.txt"):
            catalogue.resolve("mq2008:train")
        place(folders[0] / "mq2008" / f"S{part}.txt.xz")
    expected = {1: "123 4 5", 2: "234 5 1", 3: "345 1 2", 4: "451 2 3", 5: "512 3 4"}  # Qin and Liu 2013
    for fold, parts in expected.items():
        splits = [catalogue.resolve(f"mq2008:fold{fold}/{split}") for split in ("train", "vali", "test")]
        assert " ".join("".join(path.name[1] for path in paths) for paths in splits) == parts


# -- what is told to someone who asks for something else ---------------------------------------------------------------


def test_absent_files_tell_what_was_looked_for_where_and_how_to_get_it(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    with pytest.raises(DataError) as caught:
        catalogue.resolve("web30k:fold2/test")
    for named in ("Fold2/test.txt", str(data / "web30k"), str(cache / "web30k"), "`cldrank data list web30k`"):
        assert named in str(caught.value)
    with pytest.raises(DataError, match="`cldrank data fetch istella-s`"):
        catalogue.resolve("istella-s:test")
    with pytest.raises(DataError, match="`cldrank data list msrd`"):
        catalogue.resolve("msrd:test")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("zzzzzz:train", "'zzzzzz'; it has web10k, web10k-sample"),
        ("mq2008:trian", "'trian'; it has train, vali, test"),
        ("mq2008:fold6/train", "'fold6'; it has fold1, fold2"),
        ("msrd:fold1/train", "'fold1'; its splits are train, vali, test"),
        ("ranklens", "ranklens:impressions or ranklens:items"),
        ("mq2008:fold1/", "'mq2008:fold1/'"),
        ("mq2008:/train", "'mq2008:/train'"),
    ],
)
def test_references_to_nothing(reference: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        catalogue.resolve(reference)


def test_paths_are_no_references() -> None:
    paths = ("train.txt", "a/b.txt", "C:\\x.txt", "C:/x.txt", "https://example.org/x", "a b:train", "")
    assert not any(map(catalogue.is_reference, paths))
    assert all(map(catalogue.is_reference, ["mq2008", *catalogue.get("mq2008").references]))


# -- the real thing ----------------------------------------------------------------------------------------------------


def test_the_environment_moves_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", "~/cache")
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    assert catalogue.data_folders() == [Path.home() / "cache" / "data"]
    monkeypatch.setenv("CLDRANK_DATA", "/sets")
    assert catalogue.data_folders() == [Path("/sets"), Path.home() / "cache" / "data"]
