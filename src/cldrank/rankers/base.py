"""`Ranker`: what every ranker can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.data.checks import column_names
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import Hashes, check_hashes, hashes_of
from cldrank.errors import DataError
from cldrank.feature_blocks import as_table
from cldrank.rankers.devices import is_cpu
from cldrank.rankers.provenance import Provenance
from cldrank.rankers.ranges import Ranges, check_ranges, training_ranges
from cldrank.scaling import Scaling
from cldrank.wording import count, kind_of, some

Weights = dict[str, NDArray[Any]]
Config = dict[str, Any]
Floats = NDArray[np.float64]
Scorer = Callable[[NDArray[np.float32]], Floats]

_OF_SCALING = "scaling."  # how the names of its arrays begin
_DEVICE_VALUES = 1 << 22  # of a block of features on a GPU


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranker(ABC):
    """Features in, scores out; a higher score ranks higher within a query.

    feature_names   what it scores, by name and in order
    provenance      where it comes from
    trained_on      sorted hashes of the queries that it was trained on, see `cldrank.data.query_hash`; None if unknown
    ranges          of its features in training, see `cldrank.rankers.ranges`; None if unknown

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3.0], [2.0], [1.0]], [7, 7, 7], labels=[2, 1, 0])
    >>> ranker = cr.Oracle().fit(data).ranker_
    >>> ranker.feature_names, ranker.predict([[5.0], [0.0]]).argsort()
    (('f1',), array([1, 0]))
    """

    kind: ClassVar[str]
    takes_missing: ClassVar[bool] = False  # whether it can score rows with missing values
    by_row: ClassVar[bool] = True  # whether a score depends on nothing but its row; else `score_rows` has `first_query`
    feature_names: tuple[str, ...]
    provenance: Provenance = field(default_factory=Provenance)
    trained_on: Hashes | None = None
    ranges: Ranges | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", tuple(self.feature_names))
        if self.trained_on is not None:
            object.__setattr__(self, "trained_on", check_hashes(self.trained_on))
        if self.ranges is not None:
            check_ranges(self.ranges, len(self.feature_names))

    @abstractmethod
    def score_rows(self, table: NDArray[Any], offsets: IntArray | None = None, *, device: str | None = None) -> Floats:
        """The score of each row of a table with the right features; `offsets` say which rows form a query."""

    @abstractmethod
    def to_state(self) -> tuple[Config, Weights]:
        """What `from_state` needs: plain JSON values, and all numbers as named arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker that gave this state; anything that it cannot have given is refused."""

    @overload
    def predict(
        self, features: RankingDataset | NDArray[Any] | Sequence[Any], *, device: str | None = ...
    ) -> NDArray[np.float64]: ...
    @overload
    def predict(self, features: Any, *, device: str | None = ...) -> Any: ...
    def predict(self, features: Any, *, device: str | None = None) -> Any:
        """The score of each row, in the order given; memory beyond the result is bounded by the block.

        A dataset must have the ranker's features by name and in order, an array the same number of them. In a frame
        (pandas, Polars, Arrow) they are looked up by name, whatever else it holds. Rows without a dataset form a
        single query.
        The rows of a dataset are its own: if its file scattered the rows of a query, `source_rows` says where each lay.

        The scores are an array or, for a frame, what fits it: a pandas Series with the same index, a Polars Series, an
        Arrow array, called `score` where it has a name.

        device   where networks and trees compute: cpu, or cuda for a GPU
        """
        table, offsets = self._table_of(features)
        scores = self.score_rows(table, offsets, device=device)
        if not _is_frame(features):
            return scores
        from cldrank.data.table_rows import as_series

        return as_series(features, scores)

    def _table_of(self, features: Any) -> tuple[NDArray[Any], IntArray | None]:
        """The table to score, and which rows form a query; refused where the features are not the ranker's."""
        if isinstance(features, RankingDataset):
            if not self.takes_missing:
                features.check_complete(kind_of(self))
            check_features(self.feature_names, features.feature_names)
            return features.features, features.offsets
        if _is_frame(features):
            from cldrank.data.table_rows import frame_features
            from cldrank.tables.frames import is_lazy

            if is_lazy(features) or column_names(features) is not None:  # else numbered from 0: by their place
                return frame_features(features, self.feature_names), None
        table = as_table(features)
        if table.shape[1] != len(self.feature_names):
            raise DataError(f"the ranker knows {len(self.feature_names)} features, the table has {table.shape[1]}.")
        return table, None

    def saw(self, query_ids: ArrayLike) -> NDArray[np.bool_] | None:
        """Which queries it was trained on; None if unknown, as of a ranker made by hand.

        It knows them by hashes of their ids: a query is mistaken for any of a million with probability 10⁻¹³.
        """
        return None if self.trained_on is None else np.isin(hashes_of(query_ids), self.trained_on)

    def with_provenance(self, provenance: Provenance) -> Self:
        """The same ranker with other provenance."""
        return self._with(provenance=provenance)

    def with_queries(self, hashes: Hashes) -> Self:
        """The same ranker, which remembers the queries that it was trained on by their hashes, sorted."""
        return self._with(trained_on=check_hashes(hashes))

    def with_ranges(self, features: Any) -> Self:
        """The same ranker, which remembers the range of each feature in these, its training data."""
        return self._with(ranges=training_ranges(features))

    def _with(self, **parts: Any) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **parts)  # nothing else is checked or made again
        return made

    def with_evaluation(self, result: Any) -> Self:
        """The same ranker, which remembers how well it ranks: `ranker.with_evaluation(evaluate(ranker, dataset))`.

        Its model card shows the result. Of earlier results on the same data, other measures stay.
        """
        return self.with_provenance(self.provenance.with_evaluation(result))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the ranker with its model card to a folder, which is there whole or not at all.

        A ranker already saved there is replaced; a folder with anything else in it is refused. Your `NOTES.md`
        stays, and becomes part of the card.
        """
        from cldrank.rankers.ranker_folder import save_ranker

        save_ranker(self, folder)

    def __repr__(self) -> str:
        parts = [count(len(self.feature_names), "feature"), *self._parts(), str(self.provenance)]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _parts(self) -> list[str]:
        """More facts for the text form."""
        return []


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScalingRanker(Ranker):
    """A ranker that scales features and scores each row by itself: a score depends on nothing but its row."""

    scaling: Scaling

    def __post_init__(self) -> None:
        super().__post_init__()
        names, width = len(self.feature_names), self.scaling.n_features
        if names != width:
            raise DataError(f"there are {names} feature names for a scaling of {width} features.")

    @abstractmethod
    def scorer(self, device: str | None) -> Scorer:
        """What scores rows of scaled features, on a device."""

    def score_rows(self, table: NDArray[Any], offsets: IntArray | None = None, *, device: str | None = None) -> Floats:
        """The score of each row, block by block; queries do not matter."""
        del offsets
        scores = np.empty(len(table), dtype=np.float64)
        block_rows = None if is_cpu(device) else max(1, _DEVICE_VALUES // max(len(self.feature_names), 1))
        score = self.scorer(device)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            for rows, block in self.scaling.blocks(table, block_rows=block_rows, names=self.feature_names):
                scores[rows] = score(block)
        return finite_scores(scores)

    def to_state(self) -> tuple[Config, Weights]:
        """The state of the scaling, to which that of the scorer comes."""
        config, parameters = self.scaling.to_state()
        return {"scaling": config}, {f"{_OF_SCALING}{name}": values for name, values in parameters.items()}

    def _parts(self) -> list[str]:
        return [f"scaling {self.scaling.rule}"]


def taken_scaling(config: Config, weights: Weights, n_features: int) -> Scaling:
    """The scaling of a state, whose arrays are taken out of `weights`."""
    names = [name for name in weights if name.startswith(_OF_SCALING)]
    parameters = {name.removeprefix(_OF_SCALING): weights.pop(name) for name in names}
    return Scaling.from_state(member(config, "scaling", dict), n_features, parameters)


class UnscorableRowError(DataError):
    """A row whose score is not finite; `row` is its place in the table."""

    def __init__(self, row: int, score: float, first_row: int = 0) -> None:
        super().__init__(
            f"the score of row {first_row + row} (counted from 0) is {score}: the ranker's numbers are too large to "
            "score this row."
        )
        self.row, self.score = row, score


def finite_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores; refused unless all are finite."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise UnscorableRowError(int(bad[0]), float(scores[bad[0]]))
    return scores


def member(config: Config, key: str, kind: type) -> Any:
    """An entry of a description; refused where it is missing or of another kind."""
    value = config.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DataError(f"{key!r} must be a {kind.__name__}, not {value!r}.")
    return value


def _is_frame(features: Any) -> bool:
    """Whether it is a frame; arrays and lists are common, and asking needs Arrow."""
    if isinstance(features, RankingDataset | np.ndarray | Sequence):
        return False
    from cldrank.tables import is_frame

    return is_frame(features)


def check_features(expected: Sequence[str], given: Sequence[str], *, of_file: bool = False) -> None:
    """Refuse features that are not those expected, by name and in order, and say where they differ.

    of_file   whether they are those of a file, whose columns can be chosen
    """
    expected, given = list(expected), list(given)
    if expected == given:
        return
    known, own = set(expected), set(given)
    missing, extra = [name for name in expected if name not in own], [name for name in given if name not in known]
    if missing or extra:
        parts = [
            f"{some(map(repr, names), most=5)} {'is' if len(names) == 1 else 'are'} {words}"
            for names, words in ((missing, "missing"), (extra, "unknown to it"))
            if names
        ]
        counts = "other features than the ranker was trained on"
        if len(given) != len(expected):
            counts = f"{len(given)} features instead of the ranker's {len(expected)}"
        choice = ": `columns={'features': [a, b, c]}` chooses columns of a file" if of_file else ""
        remedy = f" Leave out what is not a feature{choice}." if extra and not missing else ""
        raise DataError(f"{counts}: {', '.join(parts)}.{remedy}")
    place = next(index for index, pair in enumerate(zip(expected, given, strict=True)) if pair[0] != pair[1])
    raise DataError(
        f"feature {place + 1} is {given[place]!r} where the ranker expects {expected[place]!r}; "
        "put the features in its order."
    )
