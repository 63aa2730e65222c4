"""The catalogue: the public data sets that cldrank knows by name, and where their files lie on this machine.

A reference names a split of a set: `NAME:SPLIT`, or `NAME:FOLD/SPLIT` if the set comes in folds (`fold1` … `fold5`)
or in several sets (`set1`, `set2`); without a fold, the first is used. Each set has a folder of its name, first in
`$CLDRANK_DATA`, then in the cache (`$CLDRANK_CACHE`, or the user's cache folder); its files may lie at any depth.

pooch downloads each file under a temporary name; only a file with the SHA-256 on record takes its real name. A file
that somebody put into the folder for downloads is used instead of the network.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import platformdirs

from cldrank.decoding import guess
from cldrank.errors import DataError, DownloadError, UsageError
from cldrank.files import holding, make_folder, replacing_folder
from cldrank.reading import reason
from cldrank.wording import listed

__all__ = ["DataSource", "fetch", "get", "names", "resolve"]

_COMPRESSIONS = ("", ".gz", ".xz", ".zst")
_RETRIES = 3
_TIMEOUT = 30.0  # seconds without a byte


def cache_folder() -> Path:
    """The folder for everything that can be downloaded or computed again: `$CLDRANK_CACHE`, or the user's cache."""
    chosen = os.environ.get("CLDRANK_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("cldrank")


def data_folders() -> list[Path]:
    """The folders that hold data sets, in the order in which they are searched."""
    chosen = os.environ.get("CLDRANK_DATA")
    return [*([Path(chosen).expanduser()] if chosen else []), cache_folder() / "data"]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download, with its size in bytes and its SHA-256."""

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, repr=False)
class DataSource:
    """A data set of the catalogue: what it is, whose it is, how to get it, and where its files are.

    kind          "features": rows to rank; "clicks": a click log, whose queries are displayed lists
    queries …     how much there is in all, as far as that is known; grades are the lowest and the highest label
    gated         cannot be downloaded by a program: `instructions` say how to place it by hand
    acceptance    can be downloaded, but only by someone who accepts the licence
    prepared      what is published cannot be read as it is: `tools/prepare.py` of the repository makes the files
    layouts       for each form in which the set is distributed: split -> patterns of its files

    >>> get("mq2008")
    DataSource(mq2008: 784 queries, 15,211 rows, 46 features)
    """

    key: str
    title: str
    kind: Literal["features", "clicks"]
    summary: str
    licence: str
    citation: str
    homepage: str
    instructions: tuple[str, ...]
    layouts: tuple[Mapping[str, tuple[str, ...]], ...]
    folds: tuple[str, ...] = ()
    queries: int | None = None
    rows: int | None = None
    features: int | None = None
    grades: tuple[int, int] | None = None
    downloads: tuple[RemoteFile, ...] = ()
    gated: bool = False
    acceptance: bool = False
    prepared: bool = False

    def __repr__(self) -> str:
        return f"DataSource({self.key}: {self.size})"

    @property
    def size(self) -> str:
        """How much data there is, in words."""
        counts = {what: getattr(self, what) for what in ("queries", "rows", "features")}
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count is not None)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.layouts[0])

    @property
    def references(self) -> list[str]:
        """Every reference that `resolve` accepts for this set.

        >>> get("ranklens").references
        ['ranklens:impressions', 'ranklens:items']
        """
        parts = [f"{fold}/{split}" for fold in self.folds for split in self.splits] or self.splits
        return [f"{self.key}:{part}" for part in parts]

    @property
    def steps(self) -> str:
        """How to get the set, step by step, with the folder on this machine that it goes to."""
        steps = [*self.instructions, f"The folder: {self.places[0]}"]
        return "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, start=1))

    @property
    def places(self) -> list[Path]:
        """The folders where the set may lie, in the order in which they are searched: the first is for your own."""
        return [folder / self.key for folder in data_folders()]

    def find(self) -> Path | None:
        """The folder where at least one split of the set is present, or None."""
        return next((place for place in self.places if self.present_in(place)), None)

    def present_in(self, place: Path) -> list[str]:
        """The references whose files lie in a folder."""
        return [reference for reference in self.references if self._files_in(place, self._names(reference))]

    def files(self, split: str, fold: str | None = None) -> list[Path]:
        """The files of a split, in order; without a fold, of the first."""
        if split not in self.splits:
            raise UsageError(f"{self.key} has no split {split!r}; it has {', '.join(self.splits)}.")
        if fold is not None and fold not in self.folds:
            there = f"it has {', '.join(self.folds)}" if self.folds else f"its splits are {', '.join(self.splits)}"
            raise UsageError(f"{self.key} has no fold {fold!r}; {there}.")
        fold = fold or next(iter(self.folds), None)
        reference = f"{self.key}:{fold}/{split}" if fold else f"{self.key}:{split}"
        layouts = self._names(reference)
        for place in self.places:
            if paths := self._files_in(place, layouts):
                return paths
        remedy = f"`cldrank data list {self.key}` says how to get it"
        if self.downloads and not self.prepared:
            remedy = f"`cldrank data fetch {self.key}` downloads it"
        raise DataError(
            f"{reference} is not on this machine: no {' nor '.join(map(' + '.join, layouts))} in "
            f"{' nor in '.join(map(str, self.places))}; {remedy}."
        )

    def _names(self, reference: str) -> list[list[str]]:
        """The file names of a split in each layout."""
        fold, _, split = reference.partition(":")[2].rpartition("/")
        number = self.folds.index(fold) + 1 if fold else 1
        parts = {f"p{place}": (number + place - 2) % 5 + 1 for place in range(1, 6)}
        return [[name.format(fold=fold, n=number, **parts) for name in layout[split]] for layout in self.layouts]

    def _files_in(self, place: Path, layouts: list[list[str]]) -> list[Path]:
        """The files of the first layout that is complete in a folder."""
        for names in layouts:
            paths = [path for path in (_lying_in(place, name) for name in names) if path is not None]
            if len(paths) == len(names):
                return paths
        return []


def names() -> list[str]:
    """The names of all data sets.

    >>> names()
    ['web10k', 'web10k-sample', 'web30k', 'yahoo', 'istella-s', 'mq2007', 'mq2008', 'msrd', 'ranklens',
     'baidu-ultr']
    """
    return list(_sources())


def get(name: str) -> DataSource:
    """The data set of that name, in upper or lower case, with hyphens or underscores.

    >>> get("Istella_S").title
    'Istella-S LETOR'
    """
    key = name.lower().replace("_", "-")
    if key in _sources():
        return _sources()[key]
    if Path(name).exists():
        raise UsageError(f"{name} is a file, not a data set of the catalogue; `cldrank show {name}` looks into it.")
    raise UsageError(f"the catalogue has no data set {name!r}; it has {', '.join(names())}.{guess(key, names())}")


def is_reference(text: str) -> bool:
    """Whether a text has the form of a reference, or is a bare name of the catalogue, rather than a path."""
    return re.fullmatch(r"[A-Za-z0-9][\w-]+:([\w-]+/)?[\w-]*", text) is not None or text in _sources()


def resolve(reference: str) -> list[Path]:
    """The files that a reference names: `resolve("mq2008:fold1/train")`.

    >>> resolve("mq2008")
    Traceback (most recent call last):
    cldrank.errors.UsageError: 'mq2008' names no split; choose ...
    """
    name, _, part = reference.partition(":")
    source = get(name)
    fold, slash, split = part.rpartition("/")
    if not split or (slash and not fold):
        raise UsageError(f"{reference!r} names no split; choose {listed(source.references, 'or')}.")
    return source.files(split, fold or None)


def _lying_in(place: Path, name: str) -> Path | None:
    """The file of a name in a folder or below it, the nearest first; text files may be compressed."""
    for suffix in _COMPRESSIONS if name.endswith(".txt") else ("",):
        paths = [path.relative_to(place) for path in place.rglob(name + suffix)]
        shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]  # not being unpacked
        if shown:
            return place / min(shown, key=lambda path: (len(path.parts), path))
    return None


@cache
def _sources() -> dict[str, DataSource]:
    text = resources.files("cldrank.catalogue").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {key: _source(key, entry) for key, entry in tomllib.loads(text).items()}


def _source(key: str, entry: dict[str, Any]) -> DataSource:
    layouts = tuple({split: tuple(files) for split, files in form.items()} for form in entry.pop("layouts"))
    downloads = tuple(RemoteFile(**file) for file in entry.pop("downloads", ()))
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return DataSource(key=key, layouts=layouts, downloads=downloads, **fields)


# -- downloads --------------------------------------------------------------------------------------------------------


def fetch(source: DataSource | str, *, accept_licence: bool = False) -> Path:
    """Download a data set into the user's cache and unpack it there, all of it or nothing; returns its folder.

    A set that is present is left alone: remove its folder to download it again. A set that must be downloaded by hand,
    or made from its published files, raises DownloadError with the steps to do so.

    >>> fetch("yahoo")
    Traceback (most recent call last):
    cldrank.errors.DownloadError: ...
    """
    source = get(source) if isinstance(source, str) else source
    if folder := source.find():
        return folder
    if source.gated or source.prepared:
        raise DownloadError(_by_hand(source))
    if source.acceptance and not accept_licence:
        raise UsageError(
            f"{source.key} has a licence that you must accept first: {source.licence} ({source.homepage}). If you "
            "accept it, fetch with `accept_licence=True`."
        )
    home = cache_folder() / "data" / source.key
    with holding(make_folder(home)):
        if source.find():  # another process fetched it meanwhile
            return home
        with downloaded(source) as files, replacing_folder(home / "fetched") as temporary:
            for path in files:
                shutil.unpack_archive(path, temporary, filter="data")
            if source.present_in(temporary) != source.references:
                raise DownloadError(
                    f"the archive of {source.key} does not hold the files of {', '.join(source.splits)}; the publisher "
                    f"may have changed it, see {source.homepage}."
                )
    return home


@contextmanager
def downloaded(source: DataSource) -> Iterator[list[Path]]:
    """The published files of a set, verified: removed after the block, or kept for the next try if it fails."""
    if not source.downloads:
        raise DownloadError(_by_hand(source))
    folder = make_folder(cache_folder() / "downloads" / source.key)
    with holding(folder):
        names = {file.name for file in source.downloads}
        for stray in (entry for entry in folder.iterdir() if entry.name not in names):
            stray.unlink()  # the temporary file of a download that was killed
        files = [_retrieve(source, file, folder) for file in source.downloads]
        yield files
        for path in files:
            path.unlink()


def _retrieve(source: DataSource, file: RemoteFile, folder: Path) -> Path:
    """A file, verified; if it is in the folder already and has the right SHA-256, nothing is downloaded."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # else every step is reported on standard error
    answers: list[Any] = []  # pooch leaves a failed connection to the garbage collector
    downloader = pooch.HTTPDownloader(timeout=_TIMEOUT, hooks={"response": lambda answer, **_: answers.append(answer)})
    known = {"registry": {file.name: f"sha256:{file.sha256}"}, "urls": {file.name: file.url}}
    try:
        files = pooch.create(folder, "", **known, retry_if_failed=_RETRIES)
        return Path(files.fetch(file.name, downloader=downloader))
    except OSError as error:  # of requests, or of the disk
        problem = reason(error)
    except ValueError:  # of pooch
        problem = "its SHA-256 is not the one on record: a login page, a damaged file, or another version"
    finally:
        for answer in answers:
            answer.close()
    raise DownloadError(
        f"cannot download {file.url}: {problem}. Try again later, or download the file by hand, place it in {folder} "
        f"and fetch again: it will be verified and unpacked. See also {source.homepage}."
    )


def _by_hand(source: DataSource) -> str:
    what = "made from its published files" if source.prepared else "downloaded by hand"
    return f"{source.key} must be {what} ({source.licence}). The steps:\n{source.steps}"
