"""What a command that learns was asked for: a method, and the files that it learns from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cldrank.cli import options
from cldrank.cli.output import working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators import Method
    from cldrank.propensity import AffineClicks, Propensities


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where to find what a method learns from; each field is an option."""

    features: options.Features
    clicks: Annotated[
        list[str] | None,
        options.spelled("--clicks -c FILE", "The clicks: a file of cells, or raw logs.", show_default=False),
    ] = None
    propensity: Annotated[
        str | None,
        options.spelled(
            "--propensity -p power:ETA|FILE",
            "Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` "
            "wrote, or none.",
            show_default=False,
        ),
    ] = None
    depth: Annotated[
        int | None,
        options.spelled("--depth POSITION", "Treat every page as if it ended here.", min=1, show_default=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LearningTask(Sources):
    """What a command was asked for: a method, and where to find what it learns from."""

    method: Method
    log: options.LogReading = field(default_factory=options.LogReading)
    reading: options.Reading = field(default_factory=options.Reading)

    def check(self, *, judges: bool = False) -> None:
        """Refuse a method without what it needs before anything is read; `judges`: clicks judge rankers as well."""
        from cldrank.estimators.needs import uses_clicks, uses_curve

        name, needs = self.method.name, self.method.required
        if not uses_clicks(needs):
            return
        if not self.clicks:
            raise UsageError(f"{name} learns from clicks; name them with --clicks.")
        corrects = uses_curve(needs)
        if self.propensity is None and (corrects or judges):
            purpose = "" if corrects else " to judge by held-out clicks"
            trust = " (with --method trust-bias, it corrects for trust as well)" if needs == "trust" else ""
            raise UsageError(
                f"{name} needs the propensities of positions{purpose}; name them with --propensity: power:1.0, say, or "
                f"a file that `cldrank propensity estimate` wrote{trust}."
            )
        if self.propensity is not None and not corrects and not judges:
            hint = ", or say --position-correction" if corrects_if_asked(type(self.method)) else ""
            raise UsageError(f"{name} does not use propensities; leave --propensity out{hint}.")

    def read(self) -> tuple[RankingDataset, ClickTable | None, Propensities | AffineClicks | None]:
        """The dataset, the clicks on it, and the propensities (or slopes and bases) of their positions."""
        from cldrank.clicks.table import ClickTable

        dataset = self.reading.load(self.features)
        if not self.clicks:
            return dataset, None, None
        with working("reading clicks …"):
            named = self.clicks[0] if len(self.clicks) == 1 else self.clicks
            table = ClickTable.read(named, dataset, **self.log.chosen())
        if self.depth is not None:
            if self.depth > table.depth:
                raise UsageError(
                    f"--depth {self.depth} is deeper than the clicks, which reach down to position {table.depth}."
                )
            table = table.first(self.depth)
        found = self._curve(max(table.depth, 1))
        if found is not None and len(found) < table.depth:
            raise UsageError(
                f"{self.propensity} reaches down to position {len(found)}, the clicks to {table.depth}; "
                f"--depth {len(found)} treats pages as if they ended there."
            )
        return dataset, table, found

    def _curve(self, depth: int) -> Propensities | AffineClicks | None:
        from cldrank.propensity import AffineClicks, Propensities
        from cldrank.propensity.storage import load_estimate

        if self.propensity is None:
            return None
        if Path(self.propensity).is_file():
            found = load_estimate(self.propensity)
            if isinstance(found, AffineClicks):
                if self.method.required != "trust":
                    raise UsageError(
                        f"{self.propensity} holds slopes and bases, not propensities; train affine-ips, say, with it."
                    )
                return found
        return Propensities.parse(self.propensity, depth)


def corrects_if_asked(kind: type[Method]) -> bool:
    """Whether a method that works without propensities has a parameter that makes it use them."""
    from cldrank.parameters import parameters

    return "position_correction" in parameters(kind)
