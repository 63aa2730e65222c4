"""`Measure`: a measure of ranking quality as a value that prints to text and parses back."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from cldrank.arguments import check_choice, check_whole
from cldrank.errors import UsageError
from cldrank.measures.ranking import Ranking
from cldrank.segments import Array

Empty = Literal["zero", "skip"]

_FORM = re.compile(r"\s*(?P<name>[A-Za-z]+)\s*(\((?P<parameters>[^()]*)\))?\s*(@\s*(?P<cutoff>[^\s@()]+))?\s*")
_BETWEEN = re.compile(r"[\s,;]+(?![^()]*\))")  # separates measures, except inside parentheses
_EXAMPLE = "a name, then parameters and a cutoff where wanted, like nDCG@3, AP or P(rel=2)@5"


@dataclass(frozen=True, repr=False)
class Measure(ABC):
    """What to measure, as an immutable value: equal measures compare equal, hash alike and print alike.

    Called with scores, labels and offsets, it gives a value per query. To add a measure, derive a frozen dataclass
    from it: its fields are the parameters of its text form, and `parse` knows it from then on.

    >>> parse("ndcg@3")
    nDCG@3
    >>> parse("MAP(rel=2)") == parse("AP(rel=2)")
    True
    >>> parse("RR")([0.1, 0.9, 0.5], [0, 0, 1], [0, 3])
    array([0.5])
    """

    cutoff: int | None = None

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    needs_cutoff: ClassVar[bool] = False
    known: ClassVar[dict[str, type[Measure]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.name:  # a base class of several measures has none
            Measure.known |= {name.lower(): cls for name in (cls.name, *cls.aliases)}

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", _cutoff(self.cutoff, self.name))
        elif self.needs_cutoff:
            raise UsageError(f"{self.name} needs a cutoff, such as {self.name}@10.")

    def __str__(self) -> str:
        chosen = [
            f"{field.name}={_shown(getattr(self, field.name))}"
            for field in fields(self)
            if field.name != "cutoff" and getattr(self, field.name) != field.default
        ]
        parameters = f"({', '.join(chosen)})" if chosen else ""
        return f"{self.name}{parameters}" + (f"@{self.cutoff}" if self.cutoff is not None else "")

    __repr__ = __str__

    def __call__(self, scores: Any, labels: Any, offsets: Any, *, empty: Empty = "zero") -> Array:
        """The value of each query, as `cldrank.measures.compute` would give it."""
        return self.per_query(Ranking.of(scores, labels, offsets), empty)

    def per_query(self, ranking: Ranking, empty: Empty = "zero") -> Array:
        """The value of each query; without a relevant document 0, or NaN when such queries are to be skipped."""
        check_choice("empty", empty, get_args(Empty))
        values = self._values(ranking)
        values[~self._answerable(ranking)] = 0.0 if empty == "zero" else float("nan")
        return values

    def _answerable(self, ranking: Ranking) -> Array:
        """Which queries have a relevant document."""
        return ranking.best_labels > 0

    @abstractmethod
    def _values(self, ranking: Ranking) -> Array:
        """A new array with the value of each query; any number where the query has no relevant document."""


def parse(text: str | Measure) -> Measure:
    """The measure that a text names, in upper or lower case; a measure is returned as it is.

    >>> parse("Precision(rel=2)@5")
    P(rel=2)@5
    """
    if isinstance(text, Measure):
        return text
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None:
        raise UsageError(f"{text!r} is not a measure; write {_EXAMPLE}.")
    kind = Measure.known.get(form["name"].lower())
    if kind is None:
        names = list(dict.fromkeys(known.name for known in Measure.known.values()))
        near = difflib.get_close_matches(form["name"].lower(), Measure.known, n=1)
        guess = f" Did you mean {Measure.known[near[0]].name}?" if near else ""
        raise UsageError(f"there is no measure {form['name']!r}.{guess} The measures are {', '.join(names)}.")
    arguments = _arguments(kind, form["parameters"] or "")
    if form["cutoff"] is not None:
        arguments["cutoff"] = form["cutoff"]
    return kind(**arguments)


def _arguments(kind: type[Measure], text: str) -> dict[str, Any]:
    """What stands in the parentheses, by name."""
    arguments: dict[str, Any] = {}
    parameters = [field.name for field in fields(kind) if field.name != "cutoff"]
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        key = key.lower()
        if not equals or not value:
            raise UsageError(f"{part.strip()!r} is not a parameter of {kind.name}; write name=value.")
        if key not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(f"{kind.name} has no parameter {key!r}; its parameters: {known}.")
        if key in arguments:
            raise UsageError(f"{kind.name} is given {key} twice; give it once.")
        arguments[key] = value.strip("'\"")
    return arguments


def parse_all(measures: str | Measure | Iterable[str | Measure]) -> list[Measure]:
    """All measures named, each once, in the order given; a text may name several.

    >>> parse_all("nDCG@1, nDCG@3 MAP")
    [nDCG@1, nDCG@3, AP]
    """
    if isinstance(measures, str | Measure):
        measures = [measures]
    try:
        named = list(measures)
    except TypeError:
        raise UsageError(f"{measures!r} is not a measure; write {_EXAMPLE}.") from None
    texts = [part for item in named for part in (_BETWEEN.split(item) if isinstance(item, str) else [item])]
    parsed = list(dict.fromkeys(parse(text) for text in texts if text != ""))
    if not parsed:
        raise UsageError(f"no measure is named; write {_EXAMPLE}.")
    return parsed


def compute(
    measures: str | Measure | Iterable[str | Measure], scores: Any, labels: Any, offsets: Any, *, empty: Empty = "zero"
) -> dict[Measure, Array]:
    """The values per query of each measure, from a single sort.

    scores     (rows,) larger is better; ties are broken in a fixed order that does not depend on the labels
    labels     (rows,) grades; a negative grade counts as 0
    offsets    (queries + 1,) rows offsets[i] … offsets[i+1]-1 belong to query i
    empty      a query without a relevant document counts 0 ("zero") or gives NaN ("skip"); `mean` leaves NaN out

    >>> compute(["nDCG@1", "RR"], [3, 2, 1, 1, 2], [0, 1, 2, 0, 1], [0, 3, 5])
    {nDCG@1: array([0., 1.]), RR: array([0.5, 1. ])}
    """
    wanted = parse_all(measures)
    ranking = Ranking.of(scores, labels, offsets)
    return {measure: measure.per_query(ranking, empty) for measure in wanted}


def mean(values: Any) -> float:
    """The mean over the queries that have a value, NaN if none has.

    >>> mean([0.5, float("nan"), 1.0])
    0.75
    """
    values = np.asarray(values, dtype=np.float64)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def positive(value: Any, what: str) -> float:
    """A finite number above 0, from a number or a text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise UsageError(f"{what} must be a number above 0, not {value!r}.")
    return number


def _cutoff(value: Any, name: str) -> int:
    try:
        return check_whole("cutoff", int(value) if isinstance(value, str) and value.isdecimal() else value, least=1)
    except UsageError:
        raise UsageError(f"the cutoff of {name} must be a whole number of at least 1, not {value!r}.") from None


def _shown(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
