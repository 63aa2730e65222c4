"""What a command that learns was asked for: a method, and the files that it learns from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cldrank.cli import log_options, options
from cldrank.cli.option_names import columns_by, dashed
from cldrank.cli.output import working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.methods import Method
    from cldrank.propensity.segment_propensities import Curve


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where to find what a method learns from; each field is an option."""

    features: options.Features
    clicks: Annotated[
        list[str] | None,
        options.spelled(
            "--clicks -c FILE", "The clicks: a file of cells, a folder of days, or raw logs.", show_default=False
        ),
    ] = None
    propensity: Annotated[
        str | None,
        options.spelled(
            "--propensity -p power:ETA|FILE",
            "Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` "
            "wrote, or none; of segments also phone=power:1.2,desktop=power:0.8.",
            show_default=False,
        ),
    ] = None
    trust_propensity: Annotated[
        bool,
        options.spelled(
            "--trust-propensity",
            "Use --propensity even where this log's own pages show another curve; a verdict takes it for known.",
        ),
    ] = False
    depth: Annotated[
        int | None,
        options.spelled("--depth POSITION", "Treat every page as if it ended here.", min=1, show_default=False),
    ] = None

    def clicks_on(self, dataset: RankingDataset | None, log: log_options.LogReading, session: Any = None) -> ClickTable:
        """The clicks that are named, on the candidates of a dataset; a raw log is counted on Spark, given a session."""
        from cldrank.clicks.table import ClickTable

        named = self.clicks or []
        engine = {} if session is None else {"engine": spark_engine(session)}
        with working("reading clicks …"), columns_by("--log-column"):
            table = ClickTable.read(named[0] if len(named) == 1 else named, dataset, **log.chosen(), **engine)
        if self.depth is None:
            return table
        if self.depth > table.depth:
            raise UsageError(
                f"--depth {self.depth} is deeper than the clicks, which reach down to position {table.depth}."
            )
        return table.first(self.depth)

    def curve_for(self, table: ClickTable) -> Curve | None:
        """The propensities (or slopes and bases) of the positions of clicks; None where none are named."""
        from cldrank.propensity import SegmentPropensities
        from cldrank.propensity.curve_files import parse_curve

        if self.propensity is None:
            return None
        found = parse_curve(self.propensity, table)
        if not isinstance(found, SegmentPropensities) and len(found) < table.depth:
            raise UsageError(
                f"{self.propensity} reaches down to position {len(found)}, the clicks to {table.depth}; "
                f"--depth {len(found)} treats pages as if they ended there."
            )
        return found.trusted() if self.trust_propensity else found


@dataclass(frozen=True, kw_only=True)
class LearningTask(Sources):
    """What a command was asked for: a method, and where to find what it learns from."""

    method: Method
    log: log_options.LogReading = field(default_factory=log_options.LogReading)
    reading: options.Reading = field(default_factory=options.Reading)

    def check(self, *, judges: bool = False, safe: bool = False) -> None:
        """Refuse a method without what it needs before anything is read.

        judges   clicks judge rankers as well
        safe     they do since `--safe` was said
        """
        from cldrank.methods.needs import uses_clicks, uses_curve

        name, needs = self.method.name, self.method.required
        if not uses_clicks(needs):
            return
        if not self.clicks:
            raise UsageError(f"{name} learns from clicks; name them with --clicks.")
        corrects = uses_curve(needs)
        judges = judges or safe
        if self.propensity is None and (corrects or judges):
            purpose = "" if corrects else " to judge by held-out clicks"
            trust = " (with --method trust-bias, it corrects for trust as well)" if needs == "trust" else ""
            raise UsageError(
                f"{name} needs the propensities of positions{purpose}; name them with --propensity: power:1.0, say, or "
                f"a file that `cldrank propensity estimate` wrote{trust}."
            )
        if self.propensity is not None and not corrects and not judges:
            hint = "--position-correction or --safe" if corrects_if_asked(type(self.method)) else "--safe"
            raise UsageError(f"{name} does not use propensities; leave --propensity out, or say {hint}.")

    def read(self) -> tuple[RankingDataset, ClickTable | None, Curve | None]:
        """The dataset, the clicks on it, and the propensities (or slopes and bases) of their positions."""
        dataset = self.reading.load(self.features)
        if not self.clicks:
            return dataset, None, None
        table = self.clicks_on(dataset, self.log)
        return dataset, table, self.curve_for(table)

    def read_on_spark(self, session: Any) -> tuple[RankingDataset, ClickTable, Curve | None]:
        """The same, with features that stay on Spark; the dataset is that of the candidates that were shown."""
        from cldrank.spark import SparkDataset

        if not self.clicks:
            raise UsageError(f"{self.method.name} learns from labels, which are not read on Spark.")
        dataset = SparkDataset.read(session, self.features, self.reading.spark_columns())
        table = self.clicks_on(None, self.log, session)
        with working("joining clicks with features …"):
            found, known = dataset.shown(table)
        return found, known, self.curve_for(known)

    def curve_for(self, table: ClickTable) -> Curve | None:
        """The same, if the method can use it."""
        from cldrank.propensity import AffineClicks

        found = super().curve_for(table)
        if isinstance(found, AffineClicks) and self.method.required != "trust":
            raise UsageError(
                f"{self.propensity} holds slopes and bases, not propensities; train affine-ips, say, with it."
            )
        return found

    def judging(self, ranker: Path) -> str:
        """How a ranker that was trained with `--hold-out` is judged, as the end of a sentence."""
        if not self.clicks:
            return "the ranker remembers which it was trained on"
        words = ["cldrank", "compare", str(ranker), "production"]
        named = {"features": self.features, "column": self.reading.column}
        named |= {"clicks": self.clicks, "log_column": self.log.log_column}
        for name, values in named.items():
            words += [word for value in values or () for word in (dashed(name), str(value))]
        given = {"n_features": self.reading.n_features, "missing": self.reading.missing, "depth": self.depth}
        given |= {name: getattr(self.log, name) for name in ("first_position", "segment", "last", "until")}
        for name, value in given.items():
            words += [] if value is None else [dashed(name), str(value)]
        words += ["--zero-based"] * self.reading.zero_based + ["--one-query"] * self.log.one_query
        return f"judge the ranker on them with `{shlex.join([*words, '--propensity', self.propensity or 'FILE'])}`"


def spark_engine(session: Any) -> Any:
    """A Spark session as an engine that counts logs."""
    from cldrank.tables.spark_engine import Spark

    return Spark(session)


def corrects_if_asked(kind: type[Method]) -> bool:
    """Whether a method that works without propensities has a parameter that makes it use them."""
    from cldrank.parameters import parameters

    return "position_correction" in parameters(kind)
