"""The data of an experiment: folds of train and test parts, found and fingerprinted before anything is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank._version import __version__
from cldrank.arguments import shortened
from cldrank.data import catalogue
from cldrank.errors import DataError, UsageError
from cldrank.experiment.entries import Data
from cldrank.reading import reading

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset

_EVERY_FOLD = ("mq2007", "mq2008")  # small sets: by custom, the mean over all folds is reported
_READABLE = (".parquet", ".pq", ".txt", ".letor", ".libsvm", ".svm", ".svmlight", ".dat")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Made:
    """A synthetic set: the first queries are for training, the rest for testing."""

    kind: str
    queries: int
    test_queries: int
    seed: int


@dataclass(frozen=True)
class Fold:
    """One train part and one test part.

    data          the name of the data
    fold          the name of the fold; empty if there are none
    fingerprint   changes with the content of the files, or with what a synthetic set is made from
    """

    data: str
    fold: str
    fingerprint: str
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    made: Made | None = None

    def load(self) -> tuple[RankingDataset, RankingDataset]:
        """Train and test part; large ones memory-mapped from the cache, after the first time."""
        train, test = self._synthetic(self.made) if self.made else _loaded(list(self.train), list(self.test))
        for part, dataset in (("train", train), ("test", test)):
            if dataset.labels is None:
                raise DataError(
                    f"{self.data}: the {part} part has no labels; experiments simulate and measure by them."
                )
        return train, test

    def _synthetic(self, made: Made) -> tuple[RankingDataset, RankingDataset]:
        from cldrank.data import synthetic
        from cldrank.data.cache import cached

        total = made.queries + made.test_queries
        whole = cached(lambda: synthetic.make(made.kind, total, made.seed), [], {**asdict(made), "experiment": True})
        return whole[: made.queries], whole[made.queries :]


def find(data: Data) -> list[Fold]:
    """The folds of the data that an experiment names."""
    try:
        return _found(data)
    except OSError as error:  # a name that is too long for a file, say
        raise UsageError(f"data: {error.strerror}: {shortened(error.filename)}.") from None


def _found(data: Data) -> list[Fold]:
    from cldrank.data import synthetic

    if data.train or data.test:
        if not (data.train and data.test) or data.folds:
            raise UsageError("data: files are named by train and test, both of them, and have no folds.")
        return [_of_files(data.name or Path(data.train[0]).stem.split(".")[0], data.train, data.test)]
    if not data.name:
        raise UsageError('data has no name; name a data set, such as data = "msrd", or a folder.')
    made_here = data.name in synthetic.KINDS
    in_folder = not made_here and data.name not in catalogue.names() and Path(data.name).is_dir()
    if data.folds and (made_here or in_folder):
        raise UsageError(f"data.folds: {data.name} does not come in folds.")
    if made_here:
        made = Made(data.name, data.queries, data.test_queries, data.seed)
        described = json.dumps([asdict(made), __version__])
        return [Fold(data.name, "", hashlib.sha256(described.encode()).hexdigest()[:20], made=made)]
    if in_folder:
        folder = Path(data.name)
        train, test = (_part(folder, name) for name in ("train", "test"))
        return [_of_files(folder.resolve().name, (str(train),), (str(test),))]
    return _of_catalogue(data)


def _of_catalogue(data: Data) -> list[Fold]:
    """The folds of a set of the catalogue; `mq2008:fold1` names one of them."""
    name, _, chosen = data.name.partition(":")
    try:
        source = catalogue.get(name)
    except UsageError as error:
        from cldrank.data import synthetic

        kinds = ", ".join(synthetic.KINDS)
        raise UsageError(
            f"{error} Or name a synthetic kind ({kinds}), or a folder with train and test files."
        ) from None
    if source.kind != "features":
        raise UsageError(f"{source.key} is a click log; an experiment needs labelled candidates.")
    wanted = (chosen,) if chosen else data.folds
    if not wanted:
        wanted = source.folds if source.key in _EVERY_FOLD else source.folds[:1]
    folds = []
    for fold in wanted or (None,):
        try:
            parts = [source.files(split, fold) for split in ("train", "test")]
        except DataError as error:
            raise DataError(f"{error} Or choose other data: --data web10k-like, say.") from None
        train, test = (tuple(map(str, files)) for files in parts)
        folds.append(Fold(source.key, fold or "", _fingerprint([*parts[0], *parts[1]]), train, test))
    return folds


def _of_files(name: str, train: Sequence[str], test: Sequence[str]) -> Fold:
    files = [path for one in (*train, *test) for path in _files(one)]
    return Fold(name, "", _fingerprint(files), tuple(train), tuple(test))


def _files(source: str) -> list[Path]:
    """The files that a source stands for: itself, all in a folder, or all that match a pattern."""
    path = Path(source)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    if path.is_file():
        return [path]
    if catalogue.is_reference(source):
        return catalogue.resolve(source)
    found = sorted(map(Path, glob(source, recursive=True)))  # noqa: PTH207  # absolute patterns, too
    if not found:
        raise UsageError(f"{path}: no such file.")
    return found


def _part(folder: Path, name: str) -> Path:
    """The file or folder of one part: `train.txt`, `train.parquet`, `train/`, `set1.train.txt`, compressed or not."""
    for path in sorted(folder.iterdir()):
        pieces = path.name.split(".")
        readable = path.is_dir() or any(f".{piece}" in _READABLE for piece in pieces)
        if readable and name in pieces:
            return path
    raise DataError(f"{folder}: there is no {name} file here; name it {name}.txt or {name}.parquet.")


def _loaded(train: list[str], test: list[str]) -> tuple[RankingDataset, RankingDataset]:
    """Both parts, with the same number of features: rows of text may leave out the last ones."""
    from cldrank.data.loading import load

    parts = [load(train), load(test)]
    width = max(part.n_features for part in parts)
    for index, files in enumerate((train, test)):
        if parts[index].n_features < width and not all(file.endswith((".parquet", ".pq")) for file in files):
            parts[index] = load(files, n_features=width)
    return parts[0], parts[1]


def _fingerprint(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with reading(file, "a file of candidates"), file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
        digest.update(b"|")
    return digest.hexdigest()[:20]
