"""`cldrank compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.judging import (
    BY_CLICKS,
    PRODUCTION,
    RANKER_HELP,
    ClickJudging,
    JudgedData,
    Measuring,
    check_sources,
    deliver,
    warn_of_scores,
)
from cldrank.cli.learning_task import Sources
from cldrank.cli.output import console, say, working
from cldrank.errors import CldrankWarning, warn
from cldrank.files import save_text

if TYPE_CHECKING:
    from cldrank.evaluation import ClickComparison

EXIT_CODES = {"better": 0, "worse": 3, "no difference": 4, "cannot tell": 5}  # of a verdict, for gates


@dataclass(frozen=True)
class VerdictOptions(ClickJudging):
    """How clicks judge two rankers."""

    margin: Annotated[
        float | None,
        options.spelled(
            "--margin DIFFERENCE",
            "The smallest difference that matters, in the units of the first measure, not in percent. [default: 1% of "
            "the old value]",
            rich_help_panel=BY_CLICKS,
            show_default=False,
        ),
    ] = None
    quick: Annotated[
        bool,
        options.spelled(
            "--quick", "Try only those other assumptions that the verdict needs.", rich_help_panel=BY_CLICKS
        ),
    ] = False
    html: Annotated[
        Path | None,
        options.spelled(
            "--html FILE",
            "Write the verdict as a page with charts that needs no other files.",
            rich_help_panel=BY_CLICKS,
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """As `cldrank.compare` takes them."""
        from cldrank.arguments import check_number

        margin = {} if self.margin is None else {"margin": check_number("margin", self.margin, least=0)}
        return {**super().arguments(), **margin, "quick": self.quick}


@with_options
def compare(
    new: Annotated[str, typer.Argument(help=RANKER_HELP, show_default=False)],
    old: Annotated[str, typer.Argument(help="The same, for the ranker to compare with.", show_default=False)],
    sources: Sources,
    *,
    measuring: Measuring,
    verdict: VerdictOptions,
    reading: options.Reading,
    log: log_options.LogReading,
    as_json: options.JsonFile = None,
) -> None:
    """Compare two rankers: by labels, query by query, or by clicks alone, with a verdict.

    Example: `cldrank compare new/ old/ --features test.txt`

    With `--clicks LOG --propensity FILE`, no labels are needed: is the new ranker better than the old one, or than
    `production`, the order of the log? The answer is *better*, *worse*, *no difference larger than the margin* or
    *cannot tell*, with how much the log can see, what the results that nobody ever saw may be worth, whether it holds
    under other assumptions, and what would settle it. *Better* and *worse* say so if the difference may be less than
    the margin. Exits with code 0 if the new one is better, 3 if it is worse, 4
    if there is no difference, 5 if it cannot tell, after everything is written. By labels it exits with 0.

    Example: `cldrank compare new/ production --features later.parquet --clicks log/ --propensity rho.json --html
    verdict.html`
    """
    named, json_file = (new, old), options.json_path(as_json)
    check_sources(named, sources, log, **vars(verdict))
    for one in named:
        for output in (verdict.html, json_file) if one != PRODUCTION else ():
            options.check_outside(output, Path(one))
    inputs = [*sources.features, *(sources.clicks or ()), *(one for one in named if one != PRODUCTION)]
    options.check_outputs([verdict.html, json_file], inputs)
    by_clicks = {**verdict.arguments(), "trust_propensity": sources.trust_propensity}
    given = {**measuring.by_clicks(), **by_clicks} if sources.clicks else measuring.by_labels()
    found = JudgedData.read(named, sources, reading, log)
    if sources.clicks:
        warn_of_scores(named, verdict)
        _by_clicks(named, found, given, verdict.html, as_json)
    else:
        _by_labels(named, found, given, as_json)


def _by_clicks(
    named: tuple[str, str], found: JudgedData, given: dict[str, Any], html: Path | None, as_json: str | None
) -> None:
    from cldrank.evaluation import compare as run

    new, old = found.rankers
    with working("judging by clicks …") as update:
        given |= {"names": named, "progress": lambda at: update(f"{at} …")}
        result = run(new, old, found.dataset, **found.evidence(), **given)
    _warn_of_margin(result)
    if html:
        save_text(html, result.to_html())
        say(f"wrote {html}")
    if deliver(result.as_dict(), as_json):
        from cldrank.documents import render_terminal
        from cldrank.evaluation.result_documents import terminal_document

        render_terminal(terminal_document(result), console)
    code = EXIT_CODES[result.verdict.decision]
    if code:
        raise typer.Exit(code)


def _warn_of_margin(result: ClickComparison) -> None:
    """A margin in percent would make all rankers alike."""
    first, margin = result.first, result.verdict.margin
    if margin > abs(first.old.interval.estimate):
        warn(
            CldrankWarning(
                f"--margin {margin:.4g} is more than the {first.measure} of {result.old} itself, "
                f"{first.old.interval.estimate:.4g}; it is a difference in {first.measure}, not in percent.",
            )
        )


def _by_labels(named: tuple[str, str], found: JudgedData, given: dict[str, Any], as_json: str | None) -> None:
    from cldrank.evaluation import compare as run

    new, old = found.rankers
    result = run(new, old, found.dataset, names=named, **given)
    if deliver(result.as_dict(), as_json):
        from cldrank.documents import render_terminal

        render_terminal(result.document(), console)
