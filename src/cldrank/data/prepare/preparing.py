"""`prepare`: which published files are meant, which module makes the data set of them, and where it goes."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from cldrank.data import catalogue
from cldrank.data.catalogue import DataSource, RemoteFile
from cldrank.data.folders import cache_folder
from cldrank.errors import CldrankWarning, UsageError, warn
from cldrank.files import replacing_folder, save_json
from cldrank.reading import read_json
from cldrank.wording import listed, some

Making = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""

_MAKERS = {
    "msrd": "cldrank.data.prepare.msrd:make_msrd",
    "ranklens": "cldrank.data.prepare.ranklens:make_ranklens",
    "baidu-ultr": "cldrank.data.prepare.baidu:make_baidu",
}
MARKER = "prepared.json"  # in a folder that holds a prepared data set and nothing else
_ARROW = (".feather", ".arrow", ".parquet")
_POINTER = b"version https://git-lfs.github.com"


@dataclass(frozen=True)
class PreparedSet:
    """What was prepared: the folder, and what was counted on the way."""

    folder: Path
    counts: Mapping[str, int]


def prepare(
    source: DataSource | str,
    given: Sequence[str | PathLike[str]],
    out: str | PathLike[str] | None = None,
    progress: Making | None = None,
) -> PreparedSet:
    """Make a data set of the catalogue from its published files.

    given   the published files, or folders that hold them
    out     the folder to write; by default the one in the cache where `cldrank.load("msrd:train")` finds the set

    A file that is not the one on record is used all the same, with a warning: the results may then differ.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    folder = Path(out) if out is not None else cache_folder() / "data" / source.key / source.into
    check_target(source, folder)
    return prepare_into(source, _published(source, [Path(path) for path in given]), folder, progress)


def check_target(source: DataSource, folder: Path) -> Path:
    """The folder in which to prepare a data set, if it may be replaced: it holds nothing but an earlier one."""
    if not source.prepared:
        raise UsageError(f"{source.key} is read as published; `cldrank data info {source.key}` says how to get it.")
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if there and not (MARKER in there and _marked(folder) == source.key):
        raise UsageError(f"{folder} holds other files ({some(there, 3)}); name a folder of its own for {source.key}.")
    return folder


def _marked(folder: Path) -> str:
    """The data set that was prepared in a folder."""
    found = read_json(folder / MARKER, "the note of a prepared data set")
    return str(found.get("data", "")) if isinstance(found, dict) else ""


def prepare_into(source: DataSource, files: Sequence[Path], folder: Path, progress: Making | None) -> PreparedSet:
    """Make a data set of all its published files, all of it or nothing."""
    module, _, function = _MAKERS[source.key].partition(":")
    with replacing_folder(folder) as temporary:
        counts = getattr(importlib.import_module(module), function)(files, temporary, progress or _quiet)
        save_json(
            temporary / MARKER, {"data": source.key, "files": [file.name for file in files], "counts": dict(counts)}
        )
    return PreparedSet(folder, counts)


def _quiet(*_: object) -> None:
    pass


def _published(source: DataSource, given: Sequence[Path]) -> list[Path]:
    """The published files among the files and folders given."""
    if absent := [str(path) for path in given if not path.exists()]:
        raise UsageError(f"{listed(absent)}: no such file or folder.")
    found = [file for path in given for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if not source.downloads:
        files = [path for path in found if path.suffix in _ARROW] if any(path.is_dir() for path in given) else found
        if not files:
            raise UsageError(f"{listed(given)}: no file ends in {listed(_ARROW, 'or')}; see {source.homepage}.")
        _check_different(files)
        return files
    named = {path.name: path for path in found}
    if lacking := [file.name for file in source.downloads if file.name not in named]:
        raise UsageError(f"no {listed(lacking, 'nor')} in {listed(given)}; see `cldrank data info {source.key}`.")
    for file in source.downloads:
        _check_published(file, named[file.name])
    return [named[file.name] for file in source.downloads]


def _check_different(files: Sequence[Path]) -> None:
    """Refuse a file that is given twice, and files of one name: pages are known by the name of their file."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.stem, file)
        if other is not file:
            raise UsageError(f"{other} and {file} have the same name, by which pages are known; rename one of them.")


def _check_published(file: RemoteFile, path: Path) -> None:
    with path.open("rb") as content:
        if content.read(len(_POINTER)) == _POINTER:
            raise UsageError(f"{path} is a pointer of Git LFS, not the file itself; run `git lfs pull` there.")
        content.seek(0)
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != file.sha256:
        warn(
            CldrankWarning(
                f"{path} is not the file on record (SHA-256 {digest[:12]}…, not {file.sha256[:12]}…); what is made of "
                "it may differ from the data that documented results are about."
            )
        )
