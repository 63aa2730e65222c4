"""The data of an experiment: folds of train and test parts, located and fingerprinted before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cldrank import catalogue
from cldrank._version import __version__
from cldrank.data import synthetic
from cldrank.data.dataset import RankingDataset
from cldrank.data.loading import feature_files, load
from cldrank.data.store import stored
from cldrank.errors import DataError, UsageError
from cldrank.experiment.experiment_file import Data
from cldrank.fingerprints import content_hash, file_fingerprint

_EVERY_FOLD = ("mq2007", "mq2008")  # small sets: by custom, the mean over all folds is reported


@dataclass(frozen=True)
class Fold:
    """A train part and a test part.

    data          the name of the data
    fold          the name of the fold; empty if there are none
    fingerprint   changes with the content of the files, or with what a synthetic set is made from
    made          of a synthetic set, what it is made from: the first queries are for training, the rest for testing
    """

    data: str
    fold: str
    fingerprint: str
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    made: Data | None = None

    def load(self) -> tuple[RankingDataset, RankingDataset]:
        """Train and test part; large ones memory-mapped from the cache, after the first time."""
        train, test = _synthetic(self.made) if self.made else _loaded(list(self.train), list(self.test))
        if train.labels is None or test.labels is None:
            raise DataError(f"{self.data}: a part has no labels; experiments simulate and measure by them.")
        return train, test


def find_folds(data: Data) -> list[Fold]:
    """The folds of the data that an experiment names."""
    if not data.name:
        raise UsageError('data has no name; name a data set, such as data = "msrd", or a folder.')
    if data.name in catalogue.names() or ":" in data.name:
        return _of_catalogue(data)
    if data.name in synthetic.KINDS:
        return [Fold(data.name, "", content_hash({**data.get_params(), "cldrank": __version__})[:20], made=data)]
    folder = Path(data.name)
    if folder.is_dir():
        train, test = (_part(folder, name) for name in ("train", "test"))
        files = [file.path for part in (train, test) for file in feature_files([part])]
        return [Fold(folder.resolve().name, "", _fingerprint(files), (train,), (test,))]
    return _of_catalogue(data)  # which refuses it


def _of_catalogue(data: Data) -> list[Fold]:
    """The folds of a set of the catalogue; `mq2008:fold1` names a single fold."""
    name, _, chosen = data.name.partition(":")
    try:
        source = catalogue.get(name)
    except UsageError as error:
        kinds = ", ".join(synthetic.KINDS)
        raise UsageError(
            f"{error} Or name a synthetic kind ({kinds}), or a folder with train and test files."
        ) from None
    if source.kind != "features":
        raise UsageError(f"{source.key} is a click log; an experiment needs labelled candidates.")
    customary = source.folds if source.key in _EVERY_FOLD else source.folds[:1]
    folds = []
    for fold in (chosen,) if chosen else customary or (None,):
        try:
            train, test = (source.files(split, fold) for split in ("train", "test"))
        except DataError as error:
            raise DataError(f"{error} Or choose other data: --data web10k-like, say.") from None
        train_paths, test_paths = (tuple(map(str, part)) for part in (train, test))
        folds.append(Fold(source.key, fold or "", _fingerprint([*train, *test]), train_paths, test_paths))
    return folds


def _part(folder: Path, name: str) -> str:
    """The file or folder of a part: `train.txt`, `train.parquet`, `train/`, `set1.train.txt`, compressed or not."""
    for path in sorted(folder.iterdir()):
        if name in path.name.split("."):
            return str(path)
    raise DataError(f"{folder}: there is no {name} file here; name it {name}.txt or {name}.parquet.")


def _synthetic(made: Data) -> tuple[RankingDataset, RankingDataset]:
    total = made.queries + made.test_queries
    decides = {"experiment": True, **made.get_params()}
    whole = stored(lambda _: synthetic.make(made.name, total, made.seed), [], decides)
    return whole[: made.queries], whole[made.queries :]


def _loaded(train: list[str], test: list[str]) -> tuple[RankingDataset, RankingDataset]:
    """Both parts, with the same number of features: rows of text may leave out the last ones."""
    parts = [load(train), load(test)]
    width = max(part.n_features for part in parts)
    for index, files in enumerate((train, test)):
        if parts[index].n_features < width and not all(file.endswith((".parquet", ".pq")) for file in files):
            parts[index] = load(files, n_features=width)
    return parts[0], parts[1]


def _fingerprint(files: Sequence[Path]) -> str:
    return content_hash({str(number): file_fingerprint(file) for number, file in enumerate(files)})[:20]
