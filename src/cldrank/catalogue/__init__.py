"""The catalogue: the public data sets that cldrank knows by name, and where their files lie on this machine.

A reference names one split of a set: `NAME:SPLIT`, or `NAME:FOLD/SPLIT` if the set comes in folds (`fold1` … `fold5`)
or in several sets (`set1`, `set2`); without a fold, the first one is used. Each set has a folder of its name, first in
`$CLDRANK_DATA`, then in the cache (`$CLDRANK_CACHE`, or the user's cache folder).
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import platformdirs

from cldrank.errors import DataError, UsageError
from cldrank.wording import listed

__all__ = ["DataShape", "DataSource", "get", "names", "resolve"]

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
class DataShape:
    """How much data there is, as far as it is known; a query of a click log is one displayed list.

    >>> str(DataShape(queries=784, rows=15211, features=46))
    '784 queries, 15,211 rows, 46 features'
    """

    queries: int | None = None
    rows: int | None = None
    features: int | None = None

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in asdict(self).items() if count is not None)


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

    kind            "features": rows to rank; "clicks": a click log
    shape, shapes   totals over the whole set, and the known counts of single folds and splits ("fold1/train")
    grades          lowest and highest label, None for a click log
    gated           cannot be downloaded by a program: `instructions` say how to place it by hand
    acceptance      can be downloaded, but only by someone who accepts the licence
    prepared        what is published cannot be read as it is: `tools/prepare.py` of the repository makes the files
    into            the subfolder that a download, or what is made of it, fills
    layouts         per form in which people have the set on disk: split -> patterns of its files
    folders         subfolders that unpacking may have added on the way to those files

    >>> get("mq2008")
    DataSource(mq2008: 784 queries, 15,211 rows, 46 features)
    """

    key: str
    title: str
    kind: Literal["features", "clicks"]
    summary: str
    shape: DataShape
    shapes: Mapping[str, DataShape]
    grades: tuple[int, int] | None
    licence: str
    citation: str
    homepage: str
    instructions: tuple[str, ...]
    folds: tuple[str, ...]
    layouts: tuple[Mapping[str, tuple[str, ...]], ...]
    folders: tuple[str, ...]
    downloads: tuple[RemoteFile, ...] = ()
    gated: bool = False
    acceptance: bool = False
    prepared: bool = False
    into: str = ""

    def __repr__(self) -> str:
        return f"DataSource({self.key}: {self.shape})"

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
        return [self.reference(split, fold) for fold in self.folds or (None,) for split in self.splits]

    @property
    def places(self) -> list[Path]:
        """The folders where the set may lie, in the order in which they are searched."""
        return [folder / self.key for folder in data_folders()]

    @property
    def home(self) -> Path:
        """The folder in which to place the set by hand: in `$CLDRANK_DATA` if that is set, else in the cache."""
        return self.places[0]

    @property
    def steps(self) -> list[str]:
        """How to get the set, step by step, with the folder on this machine that it goes to."""
        return [*self.instructions, f"The folder: {self.home}"]

    def reference(self, split: str, fold: str | None = None) -> str:
        """The text that names a split.

        >>> get("mq2008").reference("train", "fold2")
        'mq2008:fold2/train'
        """
        return f"{self.key}:{split if fold is None else f'{fold}/{split}'}"

    def find(self) -> Path | None:
        """The folder where at least one split of the set is present, or None."""
        return next((place for place in self.places if any(self._present(place))), None)

    def available(self) -> list[str]:
        """The references whose files are present on this machine."""
        return list(dict.fromkeys(reference for place in self.places for reference in self._present(place)))

    def files(self, split: str = "train", fold: int | str | None = None) -> list[Path]:
        """The files of one split, in order; `fold` is a name or a number from 1, and the first one if not given."""
        split, chosen = self._split(split), self._fold(fold)
        for place in self.places:
            if found := self._match(place, split, chosen):
                return found
        wanted = [" + ".join(names) for names in self._names(split, chosen)]
        remedy = f"`cldrank data list {self.key}` says how to {'make it' if self.prepared else 'place the set by hand'}"
        if self.downloads and not self.prepared:
            remedy = f"`cldrank data fetch {self.key}` downloads it"
        raise DataError(
            f"{self.reference(split, chosen)} is not on this machine: no {' nor '.join(wanted)} in "
            f"{' nor in '.join(map(str, self.places))}; {remedy}."
        )

    def holds_all(self, place: Path) -> bool:
        """Whether a folder holds every split of every fold."""
        return list(self._present(place)) == self.references

    def describe(self) -> str:
        """Everything that is known about the set, as plain text for people."""
        low_high = f", grades {self.grades[0]}…{self.grades[1]}" if self.grades else ""
        lines = [
            f"{self.key}: {self.title}",
            self.summary,
            "",
            f"kind       {'click log' if self.kind == 'clicks' else 'feature vectors'}",
            f"shape      {str(self.shape) or 'not counted here'}{low_high}",
            *(f"           {part}: {shape}" for part, shape in self.shapes.items()),
            f"splits     {', '.join(self.splits)}{' of ' + ', '.join(self.folds) if self.folds else ''}",
            f"licence    {self.licence}",
            f"cite       {self.citation}",
            f"official   {self.homepage}",
            f"present    {self.find() or 'no'}",
            "",
            "How to get it:",
            *(f"  {number}. {step}" for number, step in enumerate(self.steps, start=1)),
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Everything that is known about the set, ready for JSON."""
        found = self.find()
        state = {"folder": found and str(found), "available": self.available()}
        return {**asdict(self), "splits": self.splits, "places": [str(place) for place in self.places], **state}

    def _split(self, split: str) -> str:
        known = _SPLIT_SYNONYMS.get(split, split)
        if known not in self.splits:
            raise UsageError(f"{self.key} has no split {split!r}; it has {', '.join(self.splits)}.")
        return known

    def _fold(self, fold: int | str | None) -> str | None:
        if fold is None:
            return self.folds[0] if self.folds else None
        if not self.folds:
            raise UsageError(f"{self.key} has no folds, so no {fold!r}; its splits are {', '.join(self.splits)}.")
        if isinstance(fold, int) and 1 <= fold <= len(self.folds):
            return self.folds[fold - 1]
        if fold not in self.folds:
            raise UsageError(f"{self.key} has no fold {fold!r}; it has {', '.join(self.folds)}.")
        return str(fold)

    def _names(self, split: str, fold: str | None) -> Iterator[list[str]]:
        """The file names of a split in each layout."""
        number = self.folds.index(fold) + 1 if fold else 1
        parts = {f"p{place}": (number + place - 2) % 5 + 1 for place in range(1, 6)}
        for layout in self.layouts:
            yield [pattern.format(fold=fold, n=number, **parts) for pattern in layout[split]]

    def _match(self, place: Path, split: str, fold: str | None) -> list[Path]:
        for names in self._names(split, fold):
            for folder in self.folders:
                found = [_existing(place / folder / name) for name in names]
                whole = [path for path in found if path is not None]
                if len(whole) == len(names):
                    return whole
        return []

    def _present(self, place: Path) -> Iterator[str]:
        for fold in self.folds or (None,):
            for split in self.splits:
                if self._match(place, split, fold):
                    yield self.reference(split, fold)


class Reference(NamedTuple):
    """A split of a set, as a reference names it."""

    source: DataSource
    fold: str | None
    split: str


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
    near = difflib.get_close_matches(key, names(), n=3, cutoff=0.5)
    hint = f"did you mean {listed(near, 'or')}?" if near else f"it has {', '.join(names())}."
    raise UsageError(f"the catalogue has no data set {name!r}; {hint}")


def is_reference(text: str) -> bool:
    r"""Whether a text has the form of a reference, or is a bare name of the catalogue, rather than a path.

    >>> is_reference("mq2008:fold2/train"), is_reference("train.txt"), is_reference("C:\\data\\train.txt")
    (True, False, False)
    """
    return re.fullmatch(r"[A-Za-z0-9][\w-]+:([\w-]+/)?[\w-]*", text) is not None or text in _sources()


def parse_reference(reference: str) -> Reference:
    """The parts of a reference, checked against the catalogue; nothing is looked for on disk.

    >>> parse_reference("yahoo:test")
    Reference(source=DataSource(yahoo: 36,251 queries, 882,747 rows, 700 features), fold='set1', split='test')
    """
    name, _, part = reference.partition(":")
    source = get(name)
    fold, slash, split = part.rpartition("/")
    if not split or (slash and not fold):
        raise UsageError(f"{reference!r} names no split; choose {listed(source.references, 'or')}.")
    return Reference(source, source._fold(fold or None), source._split(split))


def resolve(reference: str) -> list[Path]:
    """The files that a reference names: `resolve("mq2008:fold1/train")`.

    >>> resolve("mq2008")
    Traceback (most recent call last):
    cldrank.errors.UsageError: 'mq2008' names no split; choose ...
    """
    source, fold, split = parse_reference(reference)
    return source.files(split, fold)


def _existing(path: Path) -> Path | None:
    suffixes = _COMPRESSIONS if path.suffix == ".txt" else ("",)
    return next((here for suffix in suffixes if (here := path.with_name(path.name + suffix)).is_file()), None)


@cache
def _sources() -> dict[str, DataSource]:
    text = resources.files("cldrank.catalogue").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {key: _source(key, entry) for key, entry in tomllib.loads(text).items()}


def _source(key: str, entry: dict[str, Any]) -> DataSource:
    counts = {what: entry.pop(what, None) for what in ("queries", "rows", "features")}
    made: dict[str, Any] = {
        "shape": DataShape(**counts),
        "shapes": {part: DataShape(**shape) for part, shape in entry.pop("shapes").items()},
        "grades": tuple(entry.pop("grades")) if "grades" in entry else None,
        "layouts": tuple({split: tuple(files) for split, files in form.items()} for form in entry.pop("layouts")),
        "downloads": tuple(RemoteFile(**file) for file in entry.pop("downloads", ())),
    }
    lists: dict[str, Any] = {what: tuple(entry.pop(what)) for what in ("instructions", "folds", "folders")}
    return DataSource(key=key, **made, **lists, **entry)
