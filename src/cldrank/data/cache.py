"""The second load of a file, from memory-mapped arrays kept in the user's cache.

An entry is a folder of `.npy` files, named by the sources (paths and options) and their fingerprint (size, times,
inode). It is written under a temporary name and renamed when complete, so a reader sees all of it or nothing; of two
processes that write the same entry at once, the first wins and the second discards its copy. The next write removes
what a killed process left behind.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.data.dataset import RankingDataset
from cldrank.data.folders import cache_folder
from cldrank.errors import CldrankError, DataError
from cldrank.files import scratch
from cldrank.reading import reading

_LOG = logging.getLogger(__name__)
_ARRAYS = ("features", "offsets", "labels", "query_ids", "doc_ids", "source_rows")
_PER_ROW = ("labels", "doc_ids", "source_rows")
_LAYOUT = 2  # raise it when the files of an entry change their meaning


def cached(read: Callable[[], RankingDataset], sources: Sequence[Path], options: Mapping[str, Any]) -> RankingDataset:
    """The dataset that `read` gives, from the cache if it holds the same sources read with the same options."""
    dataset = stored(sources, options)
    if dataset is None:
        entry = _entry(sources, options)
        dataset = read()
        try:
            _write_entry(dataset, entry)
        except (OSError, CldrankError) as error:  # a full disk or a read-only home must not stop the work
            _LOG.info("not cached: %s", error)
    return dataset


def stored(sources: Sequence[Path], options: Mapping[str, Any]) -> RankingDataset | None:
    """The dataset that was read from these sources with these options, if the cache holds it."""
    return _read_entry(_entry(sources, options))


def usage() -> tuple[int, int]:
    """How many loaded datasets are cached, and their bytes."""
    entries = _entries()
    return len(entries), sum(file.stat().st_size for entry in entries for file in entry.glob("*") if file.exists())


def clear() -> int:
    """Remove every cached load; the number removed. Downloaded data sets stay."""
    entries = _entries()
    for entry in entries:
        shutil.rmtree(entry, ignore_errors=True)
    return len(entries)


def _entries() -> list[Path]:
    folder = cache_folder() / "loaded"
    return [entry for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []


def _entry(sources: Sequence[Path], options: Mapping[str, Any]) -> Path:
    return cache_folder() / "loaded" / f"{_identity(sources, options)}-{_fingerprint(sources)}"


def _identity(sources: Sequence[Path], options: Mapping[str, Any]) -> str:
    described = [_LAYOUT, __version__, [str(path.resolve()) for path in sources], sorted(options.items())]
    return hashlib.sha256(json.dumps(described, default=str).encode()).hexdigest()[:20]


def _fingerprint(sources: Sequence[Path]) -> str:
    states = [path.stat() for path in sources]
    described = [(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino) for state in states]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:20]


def _read_entry(entry: Path) -> RankingDataset | None:
    """The dataset of an entry; None if there is none, or it is damaged, or it is being removed."""
    if not entry.is_dir():
        return None
    try:
        with reading(entry, "a whole cache entry"):
            return _dataset(entry)
    except CldrankError as error:
        _LOG.info("%s Reading the source again.", error)
        shutil.rmtree(entry, ignore_errors=True)
        return None


def _dataset(entry: Path) -> RankingDataset:
    described = json.loads((entry / "dataset.json").read_text())
    arrays: dict[str, Any] = {
        key: np.asarray(np.load(entry / f"{key}.npy", mmap_mode="r")) if key in described["arrays"] else None
        for key in _ARRAYS
    }
    rows, width = arrays["features"].shape
    names, offsets = tuple(described["feature_names"]), arrays["offsets"]
    fits = len(names) == width and offsets[-1] == rows and len(arrays["query_ids"]) == len(offsets) - 1
    if not fits or any(arrays[key] is not None and len(arrays[key]) != rows for key in _PER_ROW):
        raise DataError(f"{entry}: the arrays do not fit together.")
    return RankingDataset._trusted(
        **arrays,
        feature_names=names,
        name=described["name"],
        synthetic=described["synthetic"],
        has_missing=described["has_missing"],
    )


def _write_entry(dataset: RankingDataset, entry: Path) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    with scratch(entry.parent, "new") as temporary:
        present = [key for key in _ARRAYS if getattr(dataset, key) is not None]
        for key in present:
            np.save(temporary / f"{key}.npy", getattr(dataset, key), allow_pickle=False)
        described = {
            "arrays": present,
            "feature_names": dataset.feature_names,
            "name": dataset.name,
            "synthetic": dataset.synthetic,
            "has_missing": dataset.has_missing,
        }
        (temporary / "dataset.json").write_text(json.dumps(described))
        try:
            temporary.rename(entry)
        except OSError:
            if not entry.is_dir():  # else another process was first, with the same content
                raise
    identity = entry.name.partition("-")[0]
    for other in entry.parent.glob(f"{identity}-*"):  # the same sources as they were before
        if other != entry:
            shutil.rmtree(other, ignore_errors=True)
