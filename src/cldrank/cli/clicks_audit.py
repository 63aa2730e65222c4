"""`cldrank clicks audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.output import console, new_table, print_json, print_line, print_title, say, working
from cldrank.files import save_text
from cldrank.wording import count

if TYPE_CHECKING:
    from rich.table import Table

    from cldrank.clicks.audit import Audit

_COLOURS = {"ok": "green", "note": "blue", "warning": "yellow", "blocking": "red"}
_MOST_POSITIONS = 30
BLOCKED = 3  # the exit code of a log that should not be trained on


@with_options
def audit(
    source: log_options.LogOptions,
    window: log_options.Window,
    features: options.OptionalFeatures = None,
    html: Annotated[
        Path | None, options.spelled("--html FILE", "Write a page with charts that needs no other files.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find out what a click log can and cannot support, before training on it.

    Clicks by position, candidates never shown, odd pages, suspicious users, drift, and whether propensities can be
    estimated, by which method and how precisely. Takes logs as `cldrank clicks aggregate` does, a file of cells, or a
    folder of days. Exits with code 3 if the verdict is blocking, after everything is written; otherwise with 0.

    Example: `cldrank clicks audit logs/ --features train.parquet --html audit.html`
    """
    from cldrank.clicks.audit import audit as run

    options.check_outputs([html], [*source.log, *(features or [])])
    dataset = options.load_features(features)
    with working(f"auditing {', '.join(source.log)} …"):
        result = run(source.log, dataset, **source.reading(), **window.window()).said("shell")
    if html:
        save_text(html, result.to_html())
    if as_json:
        print_json(result.as_dict())
    else:
        _print(result)
    if html:
        say(f"wrote {html}")
    if result.verdict.severity == "blocking":
        raise typer.Exit(BLOCKED)


def _print(result: Audit) -> None:
    facts, verdict = result.facts, result.verdict
    print_title(
        f"{facts.source}: {count(facts.impressions, 'impression')}, {count(facts.clicks, 'click')}, "
        f"{count(facts.queries.searched, 'query', 'queries')}, {count(facts.depth, 'position')} deep"
    )
    console.print(_by_position(result))
    if len(facts.curve) > _MOST_POSITIONS:
        console.print(f"and {len(facts.curve) - _MOST_POSITIONS} more positions", style="dim")
    console.print(
        "in common: candidates also shown at the position above; error: standard error of the log ratio of the two "
        "propensities, from clicks on those\n",
        style="dim",
    )
    for finding in verdict.findings:
        console.print(f"[{_COLOURS[finding.severity]}]{finding.severity:>8}[/]", end="  ")
        print_line(f"{finding.topic}: {finding.found}")
        if finding.severity != "ok":
            console.print(f"{'':>8}  {finding.advice}", markup=False, style="dim", soft_wrap=True)
    console.print()
    console.print(verdict.sentence, markup=False, style=f"bold {_COLOURS[verdict.severity]}", soft_wrap=True)


def _by_position(result: Audit) -> Table:
    curve = result.facts.curve
    errors = {entry.position: entry for entry in result.facts.precision}
    table = new_table("position", "impressions", "clicks", "rate", "95% interval", "in common", "error")
    for entry in curve[:_MOST_POSITIONS]:
        error = errors.get(entry.position)
        table.add_row(
            f"{entry.position}",
            f"{entry.impressions:,}",
            f"{entry.clicks:,}",
            f"{entry.rate:.4f}",
            f"{entry.low:.4f} … {entry.high:.4f}",
            f"{error.candidates:,}" if error else "",
            f"{error.step:.3f}" if error and error.step is not None else "",
        )
    return table
