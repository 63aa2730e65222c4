"""What a ranker makes of features: how much each matters, overall and for the score of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.wording import count

Floats = NDArray[np.float64]
_SHOWN = 20  # features of a table or a chart
_LONGEST = 32  # letters of a name in a chart


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """How much trees rely on each feature.

    gain     (features,) by how much its splits reduce the loss, all together
    cover    (features,) the weight (sum of second derivatives) that passes through its splits, all together
    weight   (features,) how many splits it has

    >>> Importance(("bm25", "length"), np.array([3.0, 1.0]), np.array([20.0, 10.0]), np.array([2, 1]))
    feature    share of gain    gain    cover    splits
    bm25               75.0%       3       20         2
    length             25.0%       1       10         1
    """

    feature_names: tuple[str, ...]
    gain: Floats
    cover: Floats
    weight: NDArray[np.int64]

    @property
    def share(self) -> Floats:
        """(features,) the share of all gain; 0 where there is none."""
        whole = float(self.gain.sum())
        return self.gain / whole if whole else np.zeros(len(self.gain))

    def ordered(self) -> list[dict[str, Any]]:
        """All features, the most important one first."""
        columns = {"gain": self.gain, "share": self.share, "cover": self.cover, "splits": self.weight}
        return [
            {"feature": self.feature_names[at], **{name: values[at].item() for name, values in columns.items()}}
            for at in _descending(self.gain)
        ]

    def table(self, most: int = _SHOWN) -> str:
        """The most important features, one per line."""
        rows = [
            [one["feature"], f"{one['share']:.1%}", *(f"{one[name]:.4g}" for name in ("gain", "cover", "splits"))]
            for one in self.ordered()
        ]
        return _columns(["feature", "share of gain", "gain", "cover", "splits"], rows, most)

    def __repr__(self) -> str:
        return self.table()

    def _repr_svg_(self) -> str:
        """A chart of the most important features."""
        rows = [(one["feature"], one["share"], f"{one['share']:.1%}") for one in self.ordered()]
        return _chart("What the trees split by", rows, "share of gain", in_percent=True)


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """How much each feature adds to the score of each row: base + Σ values = score.

    values   (rows, features)
    base     (rows,) the expected score where no feature is known

    >>> Contributions(("bm25", "length"), np.array([[2.0, -0.5], [-1.0, 0.5]]), np.zeros(2))
    contributions of 2 features to the scores of 2 rows
    feature    mean |contribution|    lowest    highest
    bm25                       1.5        -1          2
    length                     0.5      -0.5        0.5
    """

    feature_names: tuple[str, ...]
    values: Floats
    base: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def scores(self) -> Floats:
        """(rows,) what base and contributions add up to."""
        found: Floats = self.base + self.values.sum(axis=1)
        return found

    @property
    def mean(self) -> Floats:
        """(features,) the mean size of its contributions."""
        if not len(self):
            return np.zeros(len(self.feature_names))
        found: Floats = np.abs(self.values).mean(axis=0)
        return found

    def ordered(self) -> list[dict[str, Any]]:
        """All features with the mean size and the range of their contributions, the largest first."""
        mean, low, high = self.mean, *(self._ends() if len(self) else (self.mean, self.mean))
        columns = {"mean": mean, "lowest": low, "highest": high}
        return [
            {"feature": self.feature_names[at], **{name: values[at].item() for name, values in columns.items()}}
            for at in _descending(mean)
        ]

    def table(self, most: int = _SHOWN) -> str:
        """The features that contribute most, one per line."""
        rows = [
            [one["feature"], *(f"{one[name]:.4g}" for name in ("mean", "lowest", "highest"))] for one in self.ordered()
        ]
        return _columns(["feature", "mean |contribution|", "lowest", "highest"], rows, most)

    def _ends(self) -> tuple[Floats, Floats]:
        return self.values.min(axis=0), self.values.max(axis=0)

    def __repr__(self) -> str:
        features, rows = count(len(self.feature_names), "feature"), count(len(self), "row")
        return f"contributions of {features} to the scores of {rows}\n{self.table()}"

    def _repr_svg_(self) -> str:
        """A chart of the features that contribute most."""
        rows = [(one["feature"], one["mean"], f"{one['mean']:.4g}") for one in self.ordered()]
        return _chart("What makes the scores", rows, "mean |contribution| to a score", in_percent=False)


def _descending(values: NDArray[Any]) -> list[int]:
    """Places from the largest value to the smallest; equal ones stay in their order."""
    return [int(at) for at in np.argsort(-values, kind="stable")]


def _columns(head: list[str], rows: list[list[str]], most: int) -> str:
    """A table of texts, names to the left and numbers to the right."""
    lines = [head, *rows[:most]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "    ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    rest = len(rows) - most
    return "\n".join(
        [*(text.rstrip() for text in texts), *([f"and {count(rest, 'more feature')}"] if rest > 0 else [])]
    )


def _chart(title: str, rows: list[tuple[str, float, str]], name: str, *, in_percent: bool) -> str:
    """A line from 0 for each of the first features, with its note."""
    from cldrank.documents.figure import Axis, Figure, Point, Series
    from cldrank.documents.svg import picture

    rows = [row for row in rows[:_SHOWN] if row[1] > 0]
    series = tuple(
        Series(feature, (Point(at, value, 0.0, value, f"{feature}: {note}"),))
        for at, (feature, value, note) in enumerate(rows)
    )
    names = [feature if len(feature) <= _LONGEST else f"{feature[: _LONGEST - 1]}…" for feature, _, _ in rows]
    values = Axis.from_zero(max((value for _, value, _ in rows), default=1.0), in_percent=in_percent, name=name)
    return picture([Figure(title, series, Axis.of_rows(names), values, "rows", width=520)])
