"""Sums over persons: all that means per page and their errors need of an experiment, at each look.

What a person did is a vector, (1, pages, measures …), that grows from day to day; the sums of its products over
persons are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.tables import Relation

Floats = NDArray[np.float64]
BEFORE = "before "  # in the names of what persons did in the period before


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of products over persons: entry a, b is Σ v_a v_b.

    columns   what the vector of a person holds, in order: "persons", which is 1, "pages", then the measures and, behind
              "before ", their values in the period before
    matrix    (…, columns, columns)
    """

    columns: tuple[str, ...]
    matrix: Floats

    def of(self, first: str, second: str = "persons") -> Any:
        """Σ v_a v_b; by default Σ v_a."""
        return self.matrix[..., self.columns.index(first), self.columns.index(second)]


@dataclass(frozen=True)
class PersonVector:
    """What a person did, (1, pages, measures …), and the queries that sum its products.

    names     of the measures
    columns   the columns of the table of persons that hold them: m0, m1, …
    before    whether their values in the period before follow: b0, b1, …
    """

    names: tuple[str, ...]
    columns: tuple[str, ...] = ()
    before: bool = False

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns of the measures."""
        return self.columns or tuple(f"m{at}" for at in range(len(self.names)))

    @property
    def entries(self) -> dict[str, str]:
        """The columns behind the first entry, by the names of the entries."""
        own = {"pages": "pages", **dict(zip(self.names, self.measures, strict=True))}
        earlier = {BEFORE + name: column.replace("m", "b") for name, column in own.items() if name != "pages"}
        return {**own, **(earlier if self.before else {})}

    def only(self, name: str) -> PersonVector:
        """The vector with a single measure."""
        return replace(self, names=(name,), columns=(self.measures[self.names.index(name)],))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The products that estimates need: with persons and pages, of each with itself, and with its own past."""
        names = ("persons", *self.entries)
        return [
            (a, b)
            for a in range(len(names))
            for b in range(a, len(names))
            if a < 2 or names[a].removeprefix(BEFORE) == names[b].removeprefix(BEFORE)
        ]

    def sums(self, persons: Relation, arms: int) -> Sums:
        """(arms, …) of all days and segments together."""
        return self._sums(persons.engine.rows(self._products(persons, "")), arms)

    def segments(self, persons: Relation, arms: int) -> dict[str, Sums]:
        """(arms, …) of each segment; a person with pages in two is in both."""
        rows = persons.engine.rows(self._products(persons, ", segment"))
        names = sorted({row["segment"] for row in rows})
        return {name: self._sums([row for row in rows if row["segment"] == name], arms) for name in names}

    def days(self, persons: Relation, arms: int) -> dict[date, Sums]:
        """(arms, …) at the end of each day; pages without a time stand before the first.

        On a day, the product of two entries that grow by v and w, to c and d, grows by c w + v d - v w.
        """
        by_day = f"({self._by_person(persons, ', day')})"
        steps = ["CASE WHEN row_number() OVER ahead = 1 THEN 1.0 ELSE 0.0 END AS v0", "1.0 AS c0"]
        for at, column in enumerate(self.entries.values(), start=1):
            of_person = column.startswith("b")
            steps.append(
                f"CASE WHEN row_number() OVER ahead = 1 THEN {column} ELSE 0 END AS v{at}"
                if of_person
                else f"{column} AS v{at}"
            )
            steps.append(f"{column if of_person else f'sum({column}) OVER ahead'} AS c{at}")
        running = (
            f"SELECT arm, day, {', '.join(steps)} FROM {by_day} WINDOW ahead AS (PARTITION BY person, arm ORDER BY day "
            "NULLS FIRST ROWS UNBOUNDED PRECEDING)"
        )
        products = [f"sum(c{a} * v{b} + v{a} * c{b} - v{a} * v{b}) AS p{a}_{b}" for a, b in self.pairs]
        rows = persons.engine.rows(f"SELECT arm, day, {', '.join(products)} FROM ({running}) GROUP BY arm, day")
        ends = sorted({row["day"] for row in rows}, key=lambda day: day or date.min)
        parts = [self._sums([row for row in rows if row["day"] == day], arms).matrix for day in ends]
        grown = np.cumsum(parts, axis=0)
        return {day: Sums(("persons", *self.entries), grown[at]) for at, day in enumerate(ends) if day is not None}

    def _by_person(self, persons: Relation, apart: str) -> str:
        """What each person did, by arm and, if asked, day or segment."""
        if apart == ", day" and "segment" not in persons.columns:
            return f"SELECT person, arm, day, {', '.join(self.entries.values())} FROM {persons}"
        sums = [f"{'any_value' if name.startswith('b') else 'sum'}({name}) AS {name}" for name in self.entries.values()]
        return f"SELECT person, arm{apart}, {', '.join(sums)} FROM {persons} GROUP BY person, arm{apart}"

    def _products(self, persons: Relation, apart: str) -> str:
        """The sums of products over persons."""
        vector = ["1.0", *self.entries.values()]
        products = [f"sum({vector[a]} * {vector[b]}) AS p{a}_{b}" for a, b in self.pairs]
        return f"SELECT arm{apart}, {', '.join(products)} FROM ({self._by_person(persons, apart)}) GROUP BY arm{apart}"

    def _sums(self, rows: Sequence[Mapping[str, Any]], arms: int) -> Sums:
        names = ("persons", *self.entries)
        matrix = np.zeros((arms, len(names), len(names)))
        for row in rows:
            for a, b in self.pairs:
                matrix[row["arm"], a, b] = matrix[row["arm"], b, a] = row[f"p{a}_{b}"]
        return Sums(names, matrix)
