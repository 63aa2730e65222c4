"""The store of loaded data: the second load of a file comes from memory-mapped arrays in the user's cache.

An entry is a folder of `.npy` files, named by the content of the sources and by how they were read. It is filled under
a temporary name and renamed when complete, so that a reader sees all of it or nothing; of two processes that fill the
same entry, the first wins. The next writer removes what a killed process left behind. All entries together take at most
half of the disk that is free; those that were used longest ago go first.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.catalogue import cache_folder
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError
from cldrank.files import scratch
from cldrank.fingerprints import content_hash, file_fingerprint
from cldrank.reading import reading

_LOG = logging.getLogger(__name__)
_ARRAYS = ("features", "offsets", "labels", "query_ids", "doc_ids", "source_rows")
_NOTES = ("feature_names", "name", "synthetic", "featureset", "has_missing")
_LAYOUT = 5  # raise it when the files of an entry change their meaning

Read = Callable[[Path | None], RankingDataset]


def stored(read: Read, sources: Sequence[Path], options: Mapping[str, Any]) -> RankingDataset:
    """The dataset that `read` gives, from the store if it has these sources, read with these options.

    read   takes the folder for large arrays, or None where nothing is to be kept
    """
    files, plain = list(map(file_fingerprint, sources)), json.loads(json.dumps(options, default=str))
    key = content_hash({"layout": _LAYOUT, "version": __version__, "files": files, "options": plain})
    entry = cache_folder() / "loaded" / key[:40]
    dataset = _read_entry(entry)
    if dataset is not None:
        return dataset
    made = False
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with scratch(entry.parent, "new") as temporary:
            made = True
            dataset = read(temporary)
            _complete(dataset, temporary)
            temporary.rename(entry)  # fails if another process was first
            _keep_budget(entry)
    except (OSError, CldrankError) as error:  # a full disk or a read-only home must not stop the work
        if made and not isinstance(error, OSError):
            raise
        _LOG.info("not kept in the cache: %s", error)
    return read(None) if dataset is None else dataset


def _keep_budget(newest: Path) -> None:
    """Remove the entries that were used longest ago while all take more than half of what the disk could give them."""
    entries = [entry for entry in newest.parent.glob("*") if entry.is_dir() and entry != newest]
    entries.sort(key=lambda entry: entry.stat().st_mtime)
    every = [*entries, newest]
    sizes = {entry: sum(file.stat().st_size for file in entry.glob("*") if file.exists()) for entry in every}
    free = shutil.disk_usage(newest).free
    for entry in entries:
        if sum(sizes.values()) <= (free + sum(sizes.values())) / 2:
            return
        shutil.rmtree(entry, ignore_errors=True)
        free += sizes.pop(entry)


def _read_entry(entry: Path) -> RankingDataset | None:
    """The dataset of an entry; None if there is none, or it is damaged, or it is being removed."""
    if not entry.is_dir():
        return None
    try:
        with reading(entry, "a whole cache entry"):
            dataset = _dataset(entry)
    except CldrankError as error:
        _LOG.info("%s Reading the source again.", error)
        shutil.rmtree(entry, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(entry)  # used now
    return dataset


def _dataset(entry: Path) -> RankingDataset:
    described = json.loads((entry / "dataset.json").read_text())
    arrays: dict[str, Any] = dict.fromkeys(_ARRAYS)
    for key in described["arrays"]:
        arrays[key] = np.asarray(np.load(entry / f"{key}.npy", mmap_mode="r"))
    notes = {key: described[key] for key in _NOTES} | {"feature_names": tuple(described["feature_names"])}
    rows, width = arrays["features"].shape
    lengths = {"offsets": len(arrays["query_ids"]) + 1, "labels": rows, "doc_ids": rows, "source_rows": rows}
    fits = len(notes["feature_names"]) == width and arrays["offsets"][-1] == rows
    if not fits or any(arrays[key] is not None and len(arrays[key]) != length for key, length in lengths.items()):
        raise DataError(f"{entry}: the arrays do not fit together.")
    return RankingDataset._trusted(**arrays, **notes)


def _complete(dataset: RankingDataset, folder: Path) -> None:
    """Write what is not yet in the folder of an entry."""
    present = [key for key in _ARRAYS if getattr(dataset, key) is not None]
    for key in present:
        if not (folder / f"{key}.npy").exists():
            np.save(folder / f"{key}.npy", getattr(dataset, key), allow_pickle=False)
    described = {"arrays": present, **{key: getattr(dataset, key) for key in _NOTES}}
    (folder / "dataset.json").write_text(json.dumps(described))
