from __future__ import annotations

import re
import subprocess
import sys
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
@pytest.mark.parametrize("below", ["", "MSLR-WEB10K", "a/b"])
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


def test_known_counts() -> None:
    """As published: Qin and Liu 2013, Chapelle and Chang 2011, the README of Istella-S."""
    sources = [catalogue.get(name) for name in catalogue.names()]
    counts = {source.key: (source.queries, source.rows, source.features) for source in sources}
    assert counts["web10k"] == (10_000, 1_200_192, 136)
    assert counts["web30k"] == (31_531, 3_771_125, 136)
    assert counts["istella-s"] == (33_018, 3_408_630, 220)
    assert counts["mq2007"] == (1_692, 69_623, 46)
    assert counts["mq2008"] == (784, 15_211, 46)


# -- looking things up -------------------------------------------------------------------------------------------------


def test_the_data_folder_comes_before_the_cache(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    cached = place(cache / "msrd" / "test.parquet")
    assert catalogue.resolve("msrd:test") == [cached]
    chosen = place(data / "msrd" / "test.parquet")
    assert catalogue.resolve("msrd:test") == [chosen]


def test_without_a_data_folder_the_cache_is_enough(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLDRANK_DATA")
    assert catalogue.get("msrd").places == [folders[1] / "msrd"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_text_may_be_compressed(folders: tuple[Path, Path], suffix: str) -> None:
    path = place(folders[0] / "web10k" / "MSLR-WEB10K" / "Fold3" / f"vali.txt{suffix}")
    assert catalogue.get("web10k").files("vali", fold="fold3") == [path]


def test_one_fold_is_enough_to_be_found(folders: tuple[Path, Path]) -> None:
    place(folders[0] / "yahoo" / "set2.valid.txt")
    source = catalogue.get("yahoo")
    assert source.find() == folders[0] / "yahoo"
    assert source.present_in(folders[0] / "yahoo") == ["yahoo:set2/vali"]


def test_the_five_parts_rotate(folders: tuple[Path, Path]) -> None:
    for part in range(1, 6):
        place(folders[0] / "mq2008" / f"S{part}.txt.xz")
    expected = {1: "123 4 5", 2: "234 5 1", 3: "345 1 2", 4: "451 2 3", 5: "512 3 4"}  # Qin and Liu 2013
    for fold, parts in expected.items():
        found = [catalogue.resolve(f"mq2008:fold{fold}/{split}") for split in ("train", "vali", "test")]
        assert " ".join("".join(path.name[1] for path in paths) for paths in found) == parts


def test_half_of_the_parts_are_not_a_split(folders: tuple[Path, Path]) -> None:
    place(folders[0] / "mq2008" / "S1.txt")
    place(folders[0] / "mq2008" / "S2.txt")
    with pytest.raises(DataError, match=r"no Fold1/train.txt nor S1.txt \+ S2.txt \+ S3.txt in"):
        catalogue.resolve("mq2008:train")


# -- what is told to someone who asks for something else ---------------------------------------------------------------


def test_absent_files_tell_what_was_looked_for_where_and_how_to_get_it(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    with pytest.raises(DataError) as caught:
        catalogue.resolve("web30k:fold2/test")
    assert str(caught.value) == (
        f"web30k:fold2/test is not on this machine: no Fold2/test.txt in {data / 'web30k'} nor in {cache / 'web30k'}; "
        "`cldrank data list web30k` says how to get it."
    )
    with pytest.raises(DataError, match="`cldrank data fetch istella-s` downloads it"):
        catalogue.resolve("istella-s:test")
    with pytest.raises(DataError, match="`cldrank data list msrd` says how to get it"):
        catalogue.resolve("msrd:test")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("mq208:train", "no data set 'mq208'; it has web10k, "),
        ("zzzzzz:train", "no data set 'zzzzzz'; it has web10k, web10k-sample"),
        ("mq2008:trian", "mq2008 has no split 'trian'; it has train, vali, test"),
        ("mq2008:fold6/train", "mq2008 has no fold 'fold6'; it has fold1, fold2"),
        ("msrd:fold1/train", "msrd has no fold 'fold1'; its splits are train, vali, test"),
        ("ranklens", "names no split; choose ranklens:impressions or ranklens:items"),
        ("ranklens:", "names no split"),
        ("mq2008:fold1/", "names no split"),
        ("mq2008:/train", "names no split"),
        ("web10k-sample:vali", "no split 'vali'; it has train, test"),
    ],
)
def test_references_to_nothing(reference: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        catalogue.resolve(reference)


@pytest.mark.parametrize("fold", ["fold6", "1", "Fold1"])
def test_folds_that_do_not_exist(fold: str) -> None:
    with pytest.raises(UsageError, match="mq2008 has no fold"):
        catalogue.get("mq2008").files("train", fold=fold)


def test_names_in_other_spellings() -> None:
    assert all(catalogue.get(name.upper().replace("-", "_")) is catalogue.get(name) for name in catalogue.names())
    assert all(catalogue.is_reference(reference) for reference in catalogue.get("mq2008").references)


@pytest.mark.parametrize(
    "text", ["train.txt", "a/b.txt", "C:\\x.txt", "C:/x.txt", "https://example.org/x", "a b:train", ""]
)
def test_paths_are_no_references(text: str) -> None:
    assert not catalogue.is_reference(text)


def test_a_bare_name_counts_as_a_reference() -> None:
    assert catalogue.is_reference("mq2008")


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from cldrank import catalogue; catalogue.names(); "
        "print(*{'pyarrow', 'numba', 'scipy', 'sklearn', 'torch', 'pandas'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


# -- the real thing ----------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", ["msrd", "ranklens", "mq2008", "web10k-sample"])
def test_real_sets_are_found(real_data: Path, name: str) -> None:
    source = catalogue.get(name)
    if not (real_data / name).is_dir():
        pytest.skip(f"CLDRANK_DATA holds no {name}")
    assert source.find() == real_data / name
    assert source.present_in(real_data / name) == source.references


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLDRANK_CACHE", raising=False)
    assert catalogue.cache_folder().name == "cldrank"


def test_the_environment_moves_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", "~/cache")
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    assert catalogue.data_folders() == [Path.home() / "cache" / "data"]
    monkeypatch.setenv("CLDRANK_DATA", "/sets")
    assert catalogue.data_folders() == [Path("/sets"), Path.home() / "cache" / "data"]
