"""`ExportFormat`: what every format can do, what it is asked for, and what it gives."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import Spelling, UsageError, setting
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import Ranker

Files = Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What to write.

    name         what the engine is to call the model
    version      of the engine that will load it; None for the newest that the format knows
    renamed      what the engine calls a feature, where it has another name there
    approximate  write what the format cannot say exactly as nearly as it can, instead of refusing it
    """

    name: str = "cldrank"
    version: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    approximate: bool = False

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise UsageError("{} must be a text to call the model by, not {!r}.", setting("name"), self.name)

    def names(self, ranker: Ranker) -> tuple[str, ...]:
        """What the engine calls the ranker's features, in the ranker's order.

        >>> from cldrank import scaling
        >>> from cldrank.rankers import LinearRanker
        >>> one = LinearRanker(feature_names="ab", scaling=scaling.fit(None, [[1, 1]]), coefficients=[1, 2])
        >>> ExportRequest(renamed={"a": "title_bm25"}).names(one)
        ('title_bm25', 'b')
        """
        for name in self.renamed:
            if name not in ranker.feature_names:
                raise UsageError(
                    "{} names {!r}, which is not a feature of the ranker.", Spelling("renamed", "--rename"), name
                )
        found = tuple(self.renamed.get(name, name) for name in ranker.feature_names)
        if len(set(found)) < len(found):
            repeated = next(name for name in found if found.count(name) > 1)
            raise UsageError("two features would be called {!r}; give each a name of its own.", repeated)
        return found

    def at_least(self, version: str) -> bool:
        """Whether the engine is this version or newer.

        >>> ExportRequest(version="2.19").at_least("3.6"), ExportRequest().at_least("3.6")
        (False, True)
        """
        return self.version is None or version_parts(self.version) >= version_parts(version)


def version_parts(version: str) -> tuple[int, ...]:
    """The numbers of a version.

    >>> version_parts("3.6.0") >= version_parts("3.6")
    True
    """
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError("{} must be a version such as 3.6, not {!r}.", Spelling("version", "--for"), version)
    return tuple(map(int, parts))


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What a format makes of a ranker.

    files       their content by name; a format of one file has one, called "model"
    shift       what to add to the engine's score to get the ranker's: an intercept that the format cannot hold
    losses      what is only approximate, in words; empty where the format says all that the ranker says
    to_fill     the files with definitions of features, which users complete, and the names that each must define;
                the next export keeps them
    unmatched   what a feature that does not match is to the model: "zero" or "missing"
    notes       what whoever loads it must know

    >>> Exported(files={"model": b"{}"}, notes=("it has no features",)).losses
    ()
    """

    files: Files
    to_fill: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unmatched: str = ""
    shift: float = 0.0
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class InexpressibleError(UsageError):
    """A ranker that a format cannot express; the message says why, and the way out."""


class ExportFormat(ABC):
    """A format: it writes rankers, and replays what an engine makes of the files.

    name            as the command line spells it
    label           the engine, as its makers write it
    sentence        one sentence about what is written
    order           where it stands in tables
    newest          the newest version of the engine that it was written for; "" where versions do not matter
    one_file        whether it is a file rather than a folder
    takes_negative  whether its features can be negative
    """

    name: ClassVar[str]
    label: ClassVar[str]
    sentence: ClassVar[str]
    order: ClassVar[int] = 50
    newest: ClassVar[str] = ""
    one_file: ClassVar[bool] = False
    takes_negative: ClassVar[bool] = True

    @abstractmethod
    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """The files; `InexpressibleError` where the format cannot say what the ranker computes."""

    @abstractmethod
    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """What the engine's documentation says that it makes of the files: a score per row of the table."""

    def engine(self, version: str) -> str:
        """The engine of a version, in words."""
        return f"{self.label} {version}".strip()

    def defined_features(self, content: bytes) -> set[str]:
        """The features that a completed file of definitions defines."""
        return set(_named(json.loads(content)))

    def refuse(self, ranker: Ranker, reason: str, way_out: str) -> InexpressibleError:
        """The error for a ranker that this format cannot express."""
        return InexpressibleError(f"{self.label} cannot load this {type(ranker).__name__}: {reason}; {way_out}.")


def _named(content: Any) -> Iterator[str]:
    """All names in a JSON document of definitions."""
    if isinstance(content, dict):
        yield from (content[key] for key in ("name", "feature_name") if isinstance(content.get(key), str))
        content = list(content.values())
    for inner in content if isinstance(content, list) else ():
        yield from _named(inner)
