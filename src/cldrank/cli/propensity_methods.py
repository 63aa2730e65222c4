"""The ways to estimate propensities as the command line names them, and what each of them is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from cldrank.cli import options
from cldrank.cli.methods import spelled
from cldrank.cli.output import say, working
from cldrank.errors import DataError, MissingDependencyError, UnidentifiableError, UsageError

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Account
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import AffineClicks, Comparison, Propensities, SegmentPropensities


_CHANCE = 1e-3  # an order that chance brings about less often is not random, be it nearly so


class Method(StrEnum):
    """The ways to estimate propensities."""

    auto = "auto"
    randomised = "randomised"
    logged = "logged"
    swap_first = "swap-first"
    swap_neighbours = "swap-neighbours"
    all_pairs = "all-pairs"
    adjacent_chain = "adjacent-chain"
    pivot = "pivot"
    regression_em = "regression-em"
    dual_learning = "dual-learning"
    trust_bias = "trust-bias"
    click_through = "click-through"


class Shape(StrEnum):
    """What a curve can be smoothed to."""

    monotone = "monotone"
    power = "power"


@dataclass(frozen=True)
class Way:
    """An estimator by the name of its class, what is fixed of it, and what it needs beside cells."""

    kind: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs: Literal["nothing", "log", "features"] = "nothing"
    compared: bool = True
    affine: bool = False  # whether it finds a slope and a base for each position, not one propensity

    def estimator(self, method: Method, settings: Mapping[str, Any]) -> Any:
        """The estimator with these settings (None: nothing was said); those that it does not have are refused."""
        from cldrank import propensity

        kind = getattr(propensity, self.kind)
        given = {name: value for name, value in settings.items() if value is not None}
        known = {entry.name for entry in fields(kind)}
        for name in given:
            if name not in known:
                raise UsageError(f"{method} has no option {spelled(name)}.")
        return kind(**self.fixed, **given)


_QUIET = {"warn": False}  # what it would warn of is printed with its notes
WAYS = {
    Method.randomised: Way("Randomised"),
    Method.logged: Way("Logged", needs="log"),
    Method.swap_first: Way("Swap", {"kind": "first"}, compared=False),  # the same as pivot, and below as the chain
    Method.swap_neighbours: Way("Swap", {"kind": "neighbours"}, compared=False),
    Method.all_pairs: Way("AllPairs"),
    Method.adjacent_chain: Way("AdjacentChain"),
    Method.pivot: Way("Pivot"),
    Method.regression_em: Way("RegressionEM", _QUIET, needs="features"),
    Method.dual_learning: Way("DualLearning", _QUIET, needs="features"),
    Method.trust_bias: Way("TrustBias", affine=True),
    Method.click_through: Way("ClickThrough"),
}


# -- what is read --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A log, or cells, as the options said."""

    log: list[str]
    columns: dict[str, str] | None = None
    first_position: int | None = None
    one_query: bool = False
    engine: str = "duckdb"
    master: str = "local[*]"
    memory_limit: str = "3GB"

    @property
    def plain(self) -> bool:
        """Whether it is read without being told how."""
        return not self.columns and self.first_position is None and not self.one_query

    def holds_cells(self) -> bool:
        """Whether all files hold cells already."""
        from cldrank.clicks.cell_file import is_cells
        from cldrank.clicks.log import existing

        files = existing(self.log)
        if not all(is_cells(file) for file in files):
            return False
        if not self.plain:
            raise UsageError(f"{files[0]} holds cells already; --column and the like are for raw logs.")
        return True

    def table(self, dataset: RankingDataset | None) -> ClickTable:
        """The cells of all files."""
        from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
        from cldrank.clicks.cell_file import load_cells
        from cldrank.clicks.log import existing

        with working(f"reading {', '.join(self.log)} …"):
            if self.holds_cells():
                first, *others = (load_cells(file, dataset) for file in existing(self.log))
                for other in others:
                    first = first.merge(other)
                return _clicked(first)
            try:
                found = aggregate(self.log, dataset, engine=self.engine, **self._reading())
            except TooManyRejectsError as error:
                say(str(error.account))
                say("`cldrank clicks aggregate` takes --max-rejected, and writes cells to go on with.")
                raise
        _account(found.account)
        return _clicked(found.clicks)

    def segments(self, column: str, dataset: RankingDataset | None) -> dict[str, ClickTable]:
        """The cells of each segment, that is of each value of a column."""
        from cldrank.clicks.aggregate import aggregate_segments

        if self.holds_cells():
            raise UsageError(f"--segment {column}: cells do not tell segments; give the raw log.")
        with working(f"reading {', '.join(self.log)} by {column} …"):
            found = aggregate_segments(self.log, column, dataset, engine=self.engine, **self._reading())
        for part in found.values():
            _account(part.account)
        return {name: part.clicks for name, part in found.items()}

    def probability(self, table: ClickTable) -> Any:
        """With which probability each cell was shown, as the log tells."""
        from cldrank.propensity import logged_probability

        reading = self._reading()
        reading.pop("master")
        return logged_probability(self.log, table, engine=self.engine, **reading)

    def _reading(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "first_position": self.first_position,
            "one_query": self.one_query,
            "memory_limit": self.memory_limit,
            "master": self.master,
        }


def _account(report: Account) -> None:
    if report.n_rejected:
        say(str(report))


def _clicked(table: ClickTable) -> ClickTable:
    if table.n_cells and not table.clicks.any():
        raise UnidentifiableError("nothing was clicked in this log, and only clicks tell what was looked at.")
    return table


def load_features(features: list[str] | None) -> RankingDataset | None:
    """The candidates with their features, where some are named."""
    return options.Reading().load(features) if features else None


# -- estimating ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimation:
    """What to estimate and how, as the options said; settings that are None are left to the estimator."""

    method: Method
    settings: Mapping[str, Any]
    shape: Shape | None = None
    minimum: float | None = None

    def of(
        self, table: ClickTable, source: Source, dataset: RankingDataset | None
    ) -> tuple[Propensities | AffineClicks, Choice]:
        """What a log tells, and by which method."""
        from cldrank.propensity.refuted import warn_if_refuted

        choice = self._choice(table)
        if WAYS[choice.method].affine and self.shape is not None:
            raise UsageError(f"{choice.method} finds slopes and bases, which --smooth is not for.")
        found = self._finished(fit(choice.method, self.settings, table, source, dataset))
        if not WAYS[choice.method].affine:
            warn_if_refuted(found, table)
        return found, choice

    def of_segments(self, tables: Mapping[str, ClickTable]) -> tuple[SegmentPropensities, Choice]:
        """Those of each segment, drawn towards their mean, and by which method."""
        from cldrank.propensity import BySegment

        depth = self.settings.get("depth")
        deepest = max((table.depth for table in tables.values()), default=0)
        if depth is not None and depth > deepest:
            raise UsageError(f"--depth is {depth}, but no segment was shown anything below position {deepest}.")
        way = WAYS.get(self.method)
        if way is not None and (way.affine or way.needs != "nothing"):
            raise UsageError(f"{self.method} does not take --segment; methods that find one curve from cells alone do.")
        cut = dict(tables) if depth is None else {name: table.first(depth) for name, table in tables.items()}
        choice = self._choice(reduce(lambda one, two: one.merge(two), cut.values()))
        # not told the depth: a segment may have shorter pages
        estimator = WAYS[choice.method].estimator(choice.method, {**self.settings, "depth": None})
        with working(f"estimating {len(cut)} segments by {choice.method} …"), refusals_spelled():
            found = BySegment(estimator).fit(cut)
        finished = replace(
            found,
            segments={name: self._finished(rho) for name, rho in found.items()},
            pooled=self._finished(found.pooled),
            refusals={name: as_options(reason) for name, reason in found.refusals.items()},
        )
        return finished, choice

    def _choice(self, table: ClickTable) -> Choice:
        return Choice(self.method) if self.method != Method.auto else best_choice(table, self.settings.get("depth"))

    def _finished(self, found: Any) -> Any:
        if self.shape is not None:
            found = found.smoothed("power" if self.shape == Shape.power else "monotone")
        return found.clip(self.minimum) if self.minimum is not None else found


@dataclass(frozen=True)
class Choice:
    """A method, and why it was chosen; None where the user named it."""

    method: Method
    reason: str | None = None


def best_choice(table: ClickTable, depth: int | None) -> Choice:
    """The best founded method that a log supports; UnidentifiableError where none does."""
    from cldrank.clicks.audit.overlap import display_order
    from cldrank.propensity import AllPairs

    order = display_order(table)
    strength = "" if order.strength is None else f" (strength {order.strength:.3f}, where 0 is random and 1 is fixed)"
    random = order.looks == "random"
    if random and (order.p_value is None or order.p_value >= _CHANCE):
        return Choice(Method.randomised, f"the display order looks random{strength}")
    try:
        with refusals_spelled():
            AllPairs(depth=depth).check(table)
    except UnidentifiableError:
        if random:
            return Choice(Method.randomised, f"the display order is nearly random{strength}")
        raise
    told = f"the display order is not {'quite ' if random else ''}random{strength}"
    return Choice(Method.all_pairs, f"{told}, but results shown at several positions connect all positions")


def fit(
    method: Method,
    settings: Mapping[str, Any],
    table: ClickTable,
    source: Source,
    dataset: RankingDataset | None,
) -> Any:
    """Estimate by one method, with all that it needs."""
    lack = _lack(method, source, dataset)
    if lack:
        raise UsageError(f"{method} {lack}.")
    estimator = WAYS[method].estimator(method, settings)
    with working(f"estimating by {method} …"), refusals_spelled():
        match WAYS[method].needs:
            case "log":
                return estimator.fit(table, source.probability(table))
            case "features":
                return estimator.fit(table, dataset)
            case _:
                return estimator.fit(table)


def _lack(method: Method, source: Source, dataset: RankingDataset | None) -> str | None:
    """What a method needs and was not given."""
    match WAYS[method].needs:
        case "log" if source.holds_cells():
            return "needs the raw log: cells do not tell with which probability results were shown"
        case "features" if dataset is None:
            return "models relevance by features; name them with --features"
        case _:
            return None


def compared(
    settings: Mapping[str, Any], table: ClickTable, source: Source, dataset: RankingDataset | None
) -> Comparison:
    """What every method says, or why it does not, by the names of the command line."""
    from cldrank.propensity import Comparison, agreement
    from cldrank.propensity.refuted import with_refutation

    estimates: dict[str, Propensities] = {}
    refusals: dict[str, str] = {}
    for method, way in WAYS.items():
        if not way.compared:
            continue
        lack = _lack(method, source, dataset)
        if lack:
            refusals[method] = f"{lack}."
            continue
        try:
            found = fit(method, settings, table, source, dataset)
            estimates[method] = found.propensities() if way.affine else with_refutation(found, table)
        except (DataError, MissingDependencyError) as refusal:
            refusals[method] = as_options(str(refusal)).removeprefix(f"{method} ")  # it is named already
    return Comparison(estimates, refusals, agreement(estimates))


_SPELLINGS = (
    (r"\bdepth=(\d+)", r"--depth \1"),
    (r"\bby depth\.", "by --depth."),
    (r"\bwith first_position\b", "with --first-position"),
    (r"\bwith columns=\{'(\w+)': …\}", r"with --column \1=NAME"),
    (r"\bcheck_order=False goes on regardless", "--method click-through goes on regardless, and is biased"),
    (r"\(Propensities\.power\)", "(`cldrank train` takes --propensity power:1.0)"),
    (
        r"use a method that models relevance as well",
        "model relevance as well by --method regression-em --features FILE, which takes what features do not know of "
        "relevance for position",
    ),
    (r"\bSwap or\b", "swap-first, swap-neighbours or"),
    *((rf"\b{way.kind}\b", str(method)) for method, way in WAYS.items() if way.kind != "Swap"),
)


def as_options(text: str) -> str:
    """What the library says, with methods and options spelled as at the command line.

    >>> as_options("AllPairs cannot estimate position 5: … depth=4 estimates the first 4 positions.")
    'all-pairs cannot estimate position 5: … --depth 4 estimates the first 4 positions.'
    """
    for pattern, spelling in _SPELLINGS:
        text = re.sub(pattern, spelling, text)
    return text


@contextmanager
def refusals_spelled() -> Iterator[None]:
    """Refusals with options spelled as at the command line."""
    try:
        yield
    except UnidentifiableError as refusal:
        raise UnidentifiableError(
            as_options(str(refusal)), positions=refusal.positions, depth=refusal.depth
        ) from refusal
