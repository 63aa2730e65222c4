from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert (source.kind == "features") == (source.grades is not None) == (source.shape.features is not None)
    if source.key != "baidu-ultr":  # whose parts nobody has counted here
        assert source.shape.queries
        assert source.shape.rows
    assert all(split == split.lower() for split in source.splits)


@ALL
def test_every_entry_can_be_had_in_one_way(source: DataSource) -> None:
    assert source.gated == (not source.downloads)
    assert not (source.gated and source.acceptance)
    assert bool(source.into) == bool(source.downloads or source.prepared)
    assert not source.into or source.into in source.folders
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
def test_shapes_name_parts_that_exist_and_add_up(source: DataSource) -> None:
    parts = {reference.partition(":")[2] for reference in source.references} | set(source.folds)
    assert set(source.shapes) <= parts
    # the splits of one fold partition the whole set; those of `set1` and `set2` partition only their own set
    wholes = {fold: source.shapes[fold] for fold in source.folds if fold in source.shapes}
    wholes = wholes or {source.folds[0] if source.folds else "": source.shape}
    if source.kind == "clicks":
        return  # its tables are no splits
    for fold, whole in wholes.items():
        splits = [source.shapes.get(f"{fold}/{split}" if fold else split) for split in source.splits]
        for count in ("queries", "rows"):
            known = [getattr(shape, count) for shape in splits if shape is not None]
            if len(known) == len(source.splits) and None not in known:
                assert sum(known) == getattr(whole, count)
    if len(wholes) > 1:
        assert sum(whole.rows or 0 for whole in wholes.values()) == source.shape.rows
        assert sum(whole.queries or 0 for whole in wholes.values()) == source.shape.queries


@ALL
def test_every_split_is_found_where_the_layout_says(source: DataSource, folders: tuple[Path, Path]) -> None:
    assert source.find() is None
    assert source.available() == []
    for split in source.splits:
        for fold in source.folds or (None,):
            for names in source._names(split, fold):
                for name in names:
                    place(folders[0] / source.key / source.folders[-1] / name)
    assert source.find() == folders[0] / source.key
    assert source.available() == source.references
    assert source.holds_all(folders[0] / source.key)
    for reference in source.references:
        assert all(path.is_file() for path in catalogue.resolve(reference))


@ALL
def test_what_is_told_of_a_set(source: DataSource, folders: tuple[Path, Path]) -> None:
    text = source.describe()
    for told in (source.title, source.licence, source.citation, source.homepage, str(source.shape)):
        assert told in text
    assert str(folders[0] / source.key) in text
    told = json.loads(json.dumps(source.as_dict()))
    assert told["key"] == source.key
    assert told["shape"]["rows"] == source.shape.rows
    assert told["folder"] is None


def test_known_counts() -> None:
    """As published: Qin and Liu 2013, Chapelle and Chang 2011, the README of Istella-S."""
    shapes = {name: catalogue.get(name).shape for name in catalogue.names()}
    counts = {name: (shape.queries, shape.rows, shape.features) for name, shape in shapes.items()}
    assert counts["web10k"] == (10_000, 1_200_192, 136)
    assert counts["web30k"] == (31_531, 3_771_125, 136)
    assert counts["istella-s"] == (33_018, 3_408_630, 220)
    assert counts["mq2007"] == (1_692, 69_623, 46)
    assert counts["mq2008"] == (784, 15_211, 46)
    set1 = catalogue.get("yahoo").shapes["set1"]
    assert (set1.queries, set1.rows, set1.features) == (29_921, 709_877, 519)


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
    assert catalogue.get("web10k").files("vali", fold=3) == [path]
    assert catalogue.get("web10k").files("validation", fold="fold3") == [path]


def test_one_fold_is_enough_to_be_found(folders: tuple[Path, Path]) -> None:
    place(folders[0] / "yahoo" / "set2.valid.txt")
    source = catalogue.get("yahoo")
    assert source.find() == folders[0] / "yahoo"
    assert source.available() == ["yahoo:set2/vali"]
    assert not source.holds_all(folders[0] / "yahoo")


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
        "`cldrank data list web30k` says how to place the set by hand."
    )
    with pytest.raises(DataError, match="`cldrank data fetch istella-s` downloads it"):
        catalogue.resolve("istella-s:test")
    with pytest.raises(DataError, match="`cldrank data list msrd` says how to make it"):
        catalogue.resolve("msrd:test")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("mq208:train", "no data set 'mq208'; did you mean mq2008"),
        ("zzzzzz:train", "no data set 'zzzzzz'; it has web10k, web10k-sample"),
        ("mq2008:trian", "mq2008 has no split 'trian'; it has train, vali, test"),
        ("mq2008:fold6/train", "mq2008 has no fold 'fold6'; it has fold1, fold2"),
        ("msrd:fold1/train", "msrd has no folds, so no 'fold1'; its splits are train, vali, test"),
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


@pytest.mark.parametrize("fold", [0, 6, -1, "1", "Fold1"])
def test_folds_that_do_not_exist(fold: int | str) -> None:
    with pytest.raises(UsageError, match="mq2008 has no fold"):
        catalogue.get("mq2008").files("train", fold=fold)


@given(name=st.sampled_from(catalogue.names()), data=st.data())
def test_references_parse_back(name: str, data: st.DataObject) -> None:
    source = catalogue.get(name.upper().replace("-", "_"))
    reference = data.draw(st.sampled_from(source.references))
    parsed = catalogue.parse_reference(reference)
    assert parsed.source is source
    assert source.reference(parsed.split, parsed.fold) == reference
    assert catalogue.is_reference(reference)


@pytest.mark.parametrize(
    "text", ["train.txt", "a/b.txt", "C:\\x.txt", "C:/x.txt", "https://example.org/x", "a b:train", ""]
)
def test_paths_are_no_references(text: str) -> None:
    assert not catalogue.is_reference(text)


def test_a_bare_name_counts_as_a_reference() -> None:
    assert catalogue.is_reference("mq2008")


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from cldrank import catalogue; from cldrank.catalogue import download; catalogue.names(); "
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
    assert source.available() == source.references


@pytest.mark.data
@pytest.mark.parametrize("name", ["mq2008", "web10k-sample"])
def test_real_text_has_the_counts_of_the_catalogue(real_data: Path, name: str) -> None:
    source = catalogue.get(name)
    if source.find() is None:
        pytest.skip(f"CLDRANK_DATA holds no {name}")
    for part, shape in source.shapes.items():
        rows, queries = 0, set()
        for path in catalogue.resolve(f"{name}:{part}"):
            with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
                for line in file:
                    rows += 1
                    queries.add(line.split(maxsplit=2)[1])
        assert (len(queries), rows) == (shape.queries, shape.rows)


@pytest.mark.data
@pytest.mark.parametrize("name", ["msrd", "ranklens"])
def test_real_tables_have_the_counts_of_the_catalogue(real_data: Path, name: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    source = catalogue.get(name)
    if source.find() is None:
        pytest.skip(f"CLDRANK_DATA holds no {name}")
    for part, shape in source.shapes.items():
        (path,) = catalogue.resolve(f"{name}:{part}")
        assert parquet.read_metadata(path).num_rows == shape.rows


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLDRANK_CACHE", raising=False)
    assert catalogue.cache_folder().name == "cldrank"


def test_the_environment_moves_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", "~/cache")
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    assert catalogue.data_folders() == [Path.home() / "cache" / "data"]
    monkeypatch.setenv("CLDRANK_DATA", "/sets")
    assert catalogue.data_folders() == [Path("/sets"), Path.home() / "cache" / "data"]
