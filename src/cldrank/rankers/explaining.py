"""What a ranker makes of features: how much each matters, overall and for the score of each row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank.wording import count

Floats = NDArray[np.float64]
_SHOWN = 20  # features of a table or a chart
_LONGEST = 32  # letters of a name in a chart


class FeatureNumbers(ABC):
    """Numbers for each feature, the largest of the first one on top: as values, as a table, and as a chart.

    title, axis   of the chart of the first number
    heads         what numbers are called in a table, where not by their own name
    """

    title: ClassVar[str]
    axis: ClassVar[str]
    heads: ClassVar[dict[str, str]] = {}
    feature_names: tuple[str, ...]

    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """(features,) numbers by name."""

    def ordered(self) -> list[dict[str, Any]]:
        """All features with their numbers; equal ones stay in their order."""
        columns = self.columns()
        order = np.argsort(-next(iter(columns.values())), kind="stable")
        return [
            {"feature": self.feature_names[at], **{name: values[at].item() for name, values in columns.items()}}
            for at in order
        ]

    def table(self, most: int = _SHOWN) -> str:
        """The first features, one per line: names to the left and numbers to the right."""
        rows = self.ordered()
        names = ["feature", *self.columns()]
        lines = [
            [self.heads.get(name, name) for name in names],
            *([_written(name, row[name]) for name in names] for row in rows[:most]),
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "    ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rest = len(rows) - most
        return "\n".join([*texts, *([f"and {count(rest, 'more feature')}"] if rest > 0 else [])])

    def __repr__(self) -> str:
        return self.table()

    def _repr_svg_(self) -> str:
        """A line from 0 for each of the first features."""
        from cldrank.documents.figure import Axis, Figure, Point, Series
        from cldrank.documents.svg import picture

        first = next(iter(self.columns()))
        rows = [(row["feature"], row[first]) for row in self.ordered()[:_SHOWN] if row[first] > 0]
        series = tuple(
            Series(name, (Point(at, value, 0.0, value, f"{name}: {_written(first, value)}"),))
            for at, (name, value) in enumerate(rows)
        )
        names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name, _ in rows]
        largest = max((value for _, value in rows), default=1.0)
        values = Axis.from_zero(largest, in_percent=first == "share", name=self.axis)
        return picture([Figure(self.title, series, Axis.of_rows(names), values, "rows", width=520)])


@dataclass(frozen=True, eq=False, repr=False)
class Importance(FeatureNumbers):
    """How much trees rely on each feature.

    gain     (features,) by how much its splits reduce the loss, all together
    cover    (features,) the weight (sum of second derivatives) that passes through its splits, all together
    weight   (features,) how many splits it has

    >>> Importance(("bm25", "length"), np.array([3.0, 1.0]), np.array([20.0, 10.0]), np.array([2, 1]))
    feature    share of gain    gain    cover    splits
    bm25               75.0%       3       20         2
    length             25.0%       1       10         1
    """

    title, axis, heads = "What the trees split by", "share of gain", {"share": "share of gain"}
    feature_names: tuple[str, ...]
    gain: Floats
    cover: Floats
    weight: NDArray[np.int64]

    @property
    def share(self) -> Floats:
        """(features,) the share of all gain; 0 where there is none."""
        whole = float(self.gain.sum())
        return self.gain / whole if whole else np.zeros(len(self.gain))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Share of all gain, gain, cover and splits."""
        return {"share": self.share, "gain": self.gain, "cover": self.cover, "splits": self.weight}


@dataclass(frozen=True, eq=False, repr=False)
class Contributions(FeatureNumbers):
    """How much each feature adds to the score of each row: base + Σ values = score.

    values   (rows, features)
    base     (rows,) the expected score where no feature is known

    >>> Contributions(("bm25", "length"), np.array([[2.0, -0.5], [-1.0, 0.5]]), np.zeros(2))
    contributions of 2 features to the scores of 2 rows
    feature    mean |contribution|    lowest    highest
    bm25                       1.5        -1          2
    length                     0.5      -0.5        0.5
    """

    title, axis = "What makes the scores", "mean |contribution| to a score"
    heads = {"mean": "mean |contribution|"}  # noqa: RUF012
    feature_names: tuple[str, ...]
    values: Floats
    base: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def scores(self) -> Floats:
        """(rows,) what base and contributions add up to."""
        return self.base + self.values.sum(axis=1)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Floats:
        """(features,) the mean size of its contributions."""
        return np.abs(self.values).mean(axis=0) if len(self) else np.zeros(len(self.feature_names))

    def columns(self) -> dict[str, NDArray[Any]]:
        """The mean size and the range of contributions."""
        low, high = (self.values.min(axis=0), self.values.max(axis=0)) if len(self) else (self.mean, self.mean)
        return {"mean": self.mean, "lowest": low, "highest": high}

    def __repr__(self) -> str:
        features, rows = count(len(self.feature_names), "feature"), count(len(self), "row")
        return f"contributions of {features} to the scores of {rows}\n{self.table()}"


def _written(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1%}" if name == "share" else f"{value:.4g}"
