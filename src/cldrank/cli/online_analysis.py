"""`cldrank online analyse`: the verdict of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from cldrank.cli import options
from cldrank.cli.clicks import RawLogReading
from cldrank.cli.commands import declared, option
from cldrank.cli.compare import tell_verdict
from cldrank.cli.option_names import columns_by
from cldrank.cli.options import of_reading
from cldrank.cli.output import working
from cldrank.errors import UsageError
from cldrank.wording import some

_DEEPEST = 1_000  # ranks that an assumed curve gives a worth


@declared
class OnlineAnalyseCommand(RawLogReading, options.JsonOutput):
    """Judge an experiment by its log: interleaved pages, or an A/B test.

    The log is one that `cldrank clicks aggregate` reads, with one more column: `team` of each result (`new`, `old` or
    `both`), or `arm` of each page (`new` or `old`); perhaps `user_id`, `timestamp`, `experiment`, and `new_rank` and
    `old_rank` of each result. The verdict holds at every look: look each day, and stop when you like. It exits as
    `cldrank compare` does: 0 if the new ranker is better, 3 if it is worse, 4 if there is no difference, 5 if it cannot
    tell.

    Example: `cldrank online analyse experiment/ --html experiment.html`
    """

    kind: Literal["interleaving", "ab"] | None = option(
        "interleaving|ab", "What the experiment was. [default: as the column `team` or `arm` has it]"
    )
    measure: str | None = option(
        "-m MEASURE",
        "What decides: `team credit` or `counterfactual credit`; `clicks`, `clicks@3` or `abandonment` per page. "
        "[default: the first]",
    )
    margin: float | None = option(
        "DIFFERENCE", "The smallest difference that matters, per page. [default: 1% of the old value]"
    )
    confidence: float = option("NUMBER", "The confidence level of the intervals, all looks together.", 0.95)
    planned: float = option(
        "PAGES", "How many pages you plan, before you look: there, intervals are shortest.", 10_000.0, above=0
    )
    names: str = option("NEW,OLD", "What the log calls the new side and the old.", "new,old")
    shares: str = option("NEW,OLD", "A/B: the shares of persons that the arms were to have.", "0.5,0.5")
    experiment: str | None = option("NAME", "Which experiment to read, where the log has several.")
    before: list[str] | None = option("LOG", "A/B: the log of a period before, for shorter intervals (CUPED).")
    new_scores: Path | None = option(
        "FILE", "Interleaving: all candidates' scores by the new ranker, where ranks are not logged."
    )
    old_scores: Path | None = option("FILE", "The same by the old ranker.")
    propensity: str | None = option(
        "-p power:ETA|FILE",
        "Counterfactual credit: a click is worth the examination probability of its rank. "
        "[default: 1 / log2(1 + rank)]",
    )
    max_rejected: float = option("NUMBER", "Fail if more rows, or pages, must be set aside.", 0.05, min=0, max=1)
    html: Path | None = option("FILE", "Write the verdict as a page that needs no other files.")
    memory_limit: str = of_reading("SIZE", "Spill to disk beyond this.", "1500MB")

    def run(self) -> None:
        """Print the verdict; the exit code says it, too."""
        from cldrank.online import analyse

        options.check_outputs([self.html], [*self.log, *(self.before or [])])
        arguments = self._arguments()
        with working(f"analysing {some(self.log)} …"), columns_by("--log-column"):
            result = analyse(self.log, **arguments)
        tell_verdict(result, result.verdict, html=self.html, as_json=self.as_json)

    def _arguments(self) -> dict[str, Any]:
        """The arguments of `analyse`."""
        given = ("kind", "measure", "margin", "confidence", "planned", "experiment", "before", "max_rejected")
        if (self.new_scores is None) != (self.old_scores is None):
            raise UsageError("name the scores of both rankers: --new-scores and --old-scores.")
        scores = {} if self.new_scores is None else {"rankings": (self.new_scores, self.old_scores)}
        curve = {} if self.propensity is None else {"propensities": _curve(self.propensity)}
        sides = {"names": _two("names", self.names), "shares": tuple(map(_number, _two("shares", self.shares)))}
        return {**self.log_arguments(), **{name: getattr(self, name) for name in given}, **sides, **scores, **curve}


def _two(name: str, text: str) -> tuple[str, str]:
    """The values of the new and of the old side."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"`{name}` must be two, of the new side and of the old, separated by a comma, not {text!r}.")
    return parts[0], parts[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"`shares` must be two numbers, not {text!r}.") from None


def _curve(text: str) -> Any:
    """The examination probabilities that are named, or in a file."""
    from cldrank.propensity import Propensities
    from cldrank.propensity.curve_files import load_curve

    return Propensities.parse(text, _DEEPEST) if text.startswith("power:") else load_curve(Path(text))
