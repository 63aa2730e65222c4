"""What a model leaves when it has been fitted: a ranker, and what is known about the fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cldrank.data.dataset import RankingDataset
from cldrank.models.run import Run
from cldrank.rankers import Provenance, Ranker

Facts = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Context:
    """What a model needs to know beside its targets.

    data         the candidates and their features
    run          where and how to compute
    user         the name of the method, for messages
    target       what it learns, in words: held-out queries are judged against it
    provenance   of the ranker to be made
    """

    data: RankingDataset
    run: Run
    user: str
    target: str
    provenance: Provenance


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fitted model. A method keeps each field as an attribute whose name ends in an underscore.

    ranker    scores candidates
    status    how the fit ended
    n_iter    steps or epochs taken
    """

    ranker: Ranker
    status: str
    n_iter: int

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        return [("ranker", str(self.ranker.provenance)), ("status", f"{self.status}, {self.n_iter} steps")]

    def table(self) -> str:
        """What a summary shows below these lines."""
        return ""


def lines_of(facts: Iterable[tuple[str, str]]) -> str:
    """Facts about a fit, one per line, names and values aligned.

    >>> print(lines_of([("rows", "1,000"), ("status", "converged")]))
    rows      1,000
    status    converged
    """
    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(f"{name:<{width}}    {value}" for name, value in facts)
