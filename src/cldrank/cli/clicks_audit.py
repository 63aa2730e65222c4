"""`cldrank clicks audit`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.option_names import as_options, columns_by
from cldrank.cli.output import console, print_json, say, working
from cldrank.files import save_text

BLOCKED = 3  # the exit code of a log that should not be trained on


@with_options
def audit(
    source: log_options.LogOptions,
    window: log_options.Window,
    features: options.OptionalFeatures = None,
    column: Annotated[
        list[str] | None,
        options.of_reading("--column ROLE=NAME", "Which column of the features is `query_id` or `doc_id`."),
    ] = None,
    html: Annotated[
        Path | None, options.spelled("--html FILE", "Write a page with charts that needs no other files.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find out what a click log can and cannot support, before training on it.

    Clicks by position, candidates never shown, odd pages, suspicious users, broken days, drift, and whether
    propensities can be estimated, by which method and how precisely. Takes logs as `cldrank clicks aggregate` does, a
    file of cells, or a folder of days. Exits with code 3 if the verdict is blocking, after everything is written;
    otherwise with 0.

    Example: `cldrank clicks audit logs/ --features train.parquet --html audit.html`
    """
    from cldrank.auditing import audit as run
    from cldrank.auditing.audit_document import audit_summary
    from cldrank.documents import render_terminal

    options.check_outputs([html], [*source.log, *(features or [])])
    dataset = options.Reading(column=column, missing="keep").load(features) if features else None
    with working(f"auditing {', '.join(source.log)} …"), columns_by("--log-column"):
        result = run(source.log, dataset, **source.reading(), **window.window()).worded(_of_log)
    if html:
        save_text(html, result.to_html())
    if as_json:
        print_json(result.as_dict())
    else:
        render_terminal(audit_summary(result), console)
    if html:
        say(f"wrote {html}")
    if result.verdict.severity == "blocking":
        raise typer.Exit(BLOCKED)


def _of_log(advice: str) -> str:
    """Advice in the words of the shell; columns that it names are those of the log."""
    return as_options(re.sub(r"`columns=\{\W*(\w+)\W+(\w+)\W*`", r"--log-column \1=\2", advice))
