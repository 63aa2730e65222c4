from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cldrank import RankingDataset
from cldrank.data import load
from cldrank.errors import DataError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("cldrank.data.loading._WORTH_KEEPING", 0)
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("2 qid:b 1:1 2:2 #docid = x\n0 qid:a 1:3 #docid = y\n1 qid:b 2:5 #docid = z\n")
    return path


def is_mapped(data: RankingDataset) -> bool:
    base: object = data.features
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)


def entries(cache: Path) -> list[Path]:
    return list(cache.glob("loaded/[!.]*"))


def test_the_second_load_is_mapped_and_equal(source: Path) -> None:
    first, second = load(source), load(source)
    assert not is_mapped(first)
    assert is_mapped(second)
    assert repr(first) == repr(second)
    for key in first.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first, key), getattr(second, key))
    with pytest.raises(ValueError, match="read-only"):
        second.features[0, 0] = 1


def test_a_changed_source_is_read_again(source: Path) -> None:
    load(source)
    times = source.stat()
    source.write_text("2 qid:b 1:9 2:2 #docid = x\n0 qid:a 1:3 #docid = y\n1 qid:b 2:5 #docid = z\n")  # same size
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert load(source).features[0, 0] == 9
    assert is_mapped(load(source))


def test_entries_that_were_used_long_ago_go_when_the_disk_is_full(
    source: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(source)
    (old,) = (own_cache / "loaded").iterdir()
    os.utime(old, (1, 1))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    load(source, n_features=5)
    assert [entry for entry in (own_cache / "loaded").iterdir() if entry == old] == []
    assert len(entries(own_cache)) == 1


def test_an_entry_that_is_read_again_outlives_a_newer_one(
    source: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(source)
    (first,) = entries(own_cache)
    load(source, n_features=5)
    (second,) = set(entries(own_cache)) - {first}
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    load(source)
    room_for_two = 2 * sum(file.stat().st_size for file in first.iterdir())
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=room_for_two))
    load(source, n_features=6)
    assert len(entries(own_cache)) == 2
    assert (first.exists(), second.exists()) == (True, False)


@pytest.mark.parametrize("keep", [True, False])
def test_large_features_are_mapped_from_a_file(
    source: Path, own_cache: Path, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(source, cache=False)
    monkeypatch.setattr("cldrank.data.new_array._KEPT_IN_MEMORY", 0)
    monkeypatch.setattr("cldrank.data.new_array.BLOCK_VALUES", 1)
    monkeypatch.setattr("cldrank.data.new_array.spare_memory", lambda: 0)
    data = load(source, cache=keep)
    assert is_mapped(data)
    assert data.features.tolist() == expected.features.tolist()  # the rows of a query are brought together on disk, too
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["x", "z", "y"]
    assert is_mapped(data[np.array([True, False])])
    assert load(source, cache=keep).fingerprint == expected.fingerprint
    assert [path.name for path in own_cache.rglob("*.npy")].count("features.npy") == int(keep)


def test_no_room_for_features_in_memory_or_on_disk(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = source.with_name("file-in-the-way")
    blocked.write_text("")
    monkeypatch.setenv("CLDRANK_CACHE", str(blocked))
    assert load(source).n_rows == 3  # a cache that cannot be written does not stop the load
    monkeypatch.setattr("cldrank.data.new_array.spare_memory", lambda: 0)
    with pytest.raises(DataError, match="CLDRANK_CACHE"):
        load(source)


def test_other_options_are_other_entries(source: Path, own_cache: Path) -> None:
    load(source)
    assert load(source, n_features=5).n_features == 5
    assert load(source).n_features == 2
    assert len(entries(own_cache)) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("features.npy", b""),
        ("offsets.npy", b"\x93NUMPY\x01\x00garbage"),
        ("dataset.json", None),
        ("dataset.json", b"[" * 100_000),
        ("dataset.json", b'{"arrays": ["features"], "feature_names": 3, "name": ""}'),
    ],
)
def test_a_damaged_entry_is_read_again(source: Path, own_cache: Path, name: str, content: bytes | None) -> None:
    load(source)
    (file,) = own_cache.glob(f"loaded/*/{name}")
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert load(source).n_rows == 3
    again = load(source)
    assert is_mapped(again)
    assert again.query_ids.tolist() == ["b", "a"]


def test_many_threads_at_once(source: Path, own_cache: Path) -> None:
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.append(float(load(source).features.sum()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [11.0] * 8
    assert len(entries(own_cache)) == 1
