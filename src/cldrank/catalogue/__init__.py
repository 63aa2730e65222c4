"""The catalogue: the public data sets that cldrank knows by name, and where their files lie on this machine.

A reference names one split of a set: `NAME:SPLIT`, or `NAME:FOLD/SPLIT` if the set comes in folds (`fold1` … `fold5`)
or in several sets (`set1`, `set2`); without a fold, the first one is used. Each set has a folder of its name, first in
`$CLDRANK_DATA`, then in the cache (`$CLDRANK_CACHE`, or the user's cache folder); its files may lie at any depth.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import platformdirs

from cldrank.decoding import guess
from cldrank.errors import DataError, UsageError
from cldrank.wording import listed

__all__ = ["DataSource", "get", "names", "resolve"]

_COMPRESSIONS = ("", ".gz", ".xz", ".zst")
_SPLIT_SYNONYMS = {"valid": "vali", "val": "vali", "validation": "vali", "dev": "vali"}


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
        """The file's own name.

        >>> RemoteFile("https://example.org/sets/movies.csv.gz", 3_437_256, "3aed8b…").name
        'movies.csv.gz'
        """
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True, repr=False)
class DataSource:
    """One data set of the catalogue: what it is, whose it is, how to get it, and where its files are.

    kind          "features": rows to rank; "clicks": a click log, of which a query is one displayed list
    queries …     how much there is in all, as far as that is known; grades are the lowest and the highest label
    gated         cannot be downloaded by a program: `instructions` say how to place it by hand
    acceptance    can be downloaded, but only by someone who accepts the licence
    prepared      what is published cannot be read as it is: `tools/prepare.py` of the repository makes the files
    layouts       per form in which people have the set on disk: split -> patterns of its files

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
        """The names of the splits.

        >>> get("yahoo").splits, get("yahoo").folds
        (('train', 'vali', 'test'), ('set1', 'set2'))
        """
        return tuple(self.layouts[0])

    @property
    def references(self) -> list[str]:
        """Every reference that `resolve` accepts for this set.

        >>> get("ranklens").references
        ['ranklens:impressions', 'ranklens:items']
        """
        return [self._reference(split, fold) for fold in self.folds or (None,) for split in self.splits]

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
        if not place.is_dir():
            return []
        pairs = [(split, fold) for fold in self.folds or (None,) for split in self.splits]
        return [self._reference(split, fold) for split, fold in pairs if self._match(place, split, fold)]

    def files(self, split: str = "train", fold: str | None = None) -> list[Path]:
        """The files of one split, in order; without a fold, of the first one."""
        split = _SPLIT_SYNONYMS.get(split, split)
        if split not in self.splits:
            raise UsageError(f"{self.key} has no split {split!r}; it has {', '.join(self.splits)}.")
        if fold is not None and fold not in self.folds:
            there = f"it has {', '.join(self.folds)}" if self.folds else f"its splits are {', '.join(self.splits)}"
            raise UsageError(f"{self.key} has no fold {fold!r}; {there}.")
        fold = fold or next(iter(self.folds), None)
        for place in self.places:
            if found := self._match(place, split, fold):
                return found
        wanted = [" + ".join(names) for names in self._names(split, fold)]
        remedy = f"`cldrank data list {self.key}` says how to get it"
        if self.downloads and not self.prepared:
            remedy = f"`cldrank data fetch {self.key}` downloads it"
        raise DataError(
            f"{self._reference(split, fold)} is not on this machine: no {' nor '.join(wanted)} in "
            f"{' nor in '.join(map(str, self.places))}; {remedy}."
        )

    def _reference(self, split: str, fold: str | None) -> str:
        return f"{self.key}:{split if fold is None else f'{fold}/{split}'}"

    def _names(self, split: str, fold: str | None) -> list[list[str]]:
        """The file names of a split in each layout."""
        number = self.folds.index(fold) + 1 if fold else 1
        parts = {f"p{place}": (number + place - 2) % 5 + 1 for place in range(1, 6)}
        return [[name.format(fold=fold, n=number, **parts) for name in layout[split]] for layout in self.layouts]

    def _match(self, place: Path, split: str, fold: str | None) -> list[Path]:
        for names in self._names(split, fold):
            paths = [_lying_in(place, name) for name in names]
            whole = [path for path in paths if path is not None]
            if len(whole) == len(names):
                return whole
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
    key = name.strip().lower().replace("_", "-")
    if key in _sources():
        return _sources()[key]
    if Path(name).exists():
        raise UsageError(f"{name} is a file, not a data set of the catalogue; `cldrank show {name}` looks into it.")
    raise UsageError(f"the catalogue has no data set {name!r}; it has {', '.join(names())}.{guess(key, names())}")


def is_reference(text: str) -> bool:
    r"""Whether a text has the form of a reference, or is a bare name of the catalogue, rather than a path.

    >>> is_reference("mq2008:fold2/train"), is_reference("train.txt"), is_reference("C:\\data\\train.txt")
    (True, False, False)
    """
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
