"""`cldrank clicks`: from raw click logs to cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import clicks_audit, clicks_import, options
from cldrank.cli.derived import with_options
from cldrank.cli.output import check_parquet_name, console, new_table, print_json, save_table, say, working

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Account
    from cldrank.clicks.table import ClickTable

app = typer.Typer(no_args_is_help=True, help="Turn click logs into cells, look at cells, audit logs.")
app.command("audit")(clicks_audit.audit)
app.command("import")(clicks_import.import_log)


@app.command()
@with_options
def aggregate(
    source: options.PageOptions,
    out: Annotated[Path, options.spelled("--out -o FILE", "The Parquet file of cells to write.", show_default=False)],
    features: options.OptionalFeatures = None,
    every_click: Annotated[
        bool, options.spelled("--every-click", "Count each click on a result in a session, not just one.")
    ] = False,
    add_to: Annotated[
        Path | None, options.spelled("--add-to FILE", "Add the counts of these cells, such as yesterday's.")
    ] = None,
    again: Annotated[
        bool, options.spelled("--again", "Count files even if they are named twice, or went into --add-to already.")
    ] = False,
    rejects: Annotated[
        Path | None, options.spelled("--rejects FILE", "Write the rows set aside, with reasons, to this Parquet file.")
    ] = None,
    max_rejected: Annotated[
        float, options.spelled("--max-rejected", "Fail if a larger share of rows has to be set aside.", min=0, max=1)
    ] = 0.05,
    as_json: options.Json = False,
) -> None:
    """Aggregate impression logs to cells: how often each candidate was shown at each position, and clicked.

    A log is Parquet, CSV or JSON Lines, perhaps a partitioned folder, with columns session_id, query_id, doc_id,
    position (from 1) and clicked, or one row per page with documents and clicked_positions. Rows that cannot be right
    are set aside, counted and reported, never silently dropped.

    Example: `cldrank clicks aggregate logs/ --features train.parquet --out cells.parquet`
    """
    from cldrank.clicks.aggregate import TooManyRejectsError
    from cldrank.clicks.aggregate import aggregate as run
    from cldrank.clicks.table import ClickTable

    for path in (out, rejects):
        if path is not None:
            check_parquet_name(path)
    options.check_outputs([out, rejects], [*source.log, *(features or [])])
    dataset = options.load_features(features)
    earlier = ClickTable.read(add_to, dataset) if add_to else None
    try:
        with working(f"aggregating {', '.join(source.log)} …"):
            result = run(
                source.log, dataset, **source.reading(), every_click=every_click, max_rejected=max_rejected, again=again
            )
    except TooManyRejectsError as error:
        if rejects:
            save_table(error.rejects, rejects)
            say(f"the rows set aside: {rejects}")
        say(str(error.account))
        raise
    if rejects:
        save_table(result.rejects, rejects)
    cells = earlier.merge(result.clicks, again=again) if earlier is not None else result.clicks
    cells.save(out)
    if as_json:
        print_json({"out": str(out), **_summary(cells), "log": _account(result.account)})
        return
    console.print(str(result.account), markup=False)
    if result.account.rejected and rejects:
        console.print(f"the rows set aside: {rejects}", markup=False)
    elif result.account.rejected:
        say("Write them to a file with --rejects FILE.")
    console.print(f"wrote {out}: {cells!r}", markup=False)


@app.command()
def show(
    cells: Annotated[Path, typer.Argument(help="A file of cells.", show_default=False)],
    features: options.OptionalFeatures = None,
    as_json: options.Json = False,
) -> None:
    """Show what a file of cells holds: impressions, clicks and click-through rate by position.

    Example: `cldrank clicks show cells.parquet`
    """
    from cldrank.clicks.cell_file import is_cells
    from cldrank.clicks.table import ClickTable
    from cldrank.errors import DataError, UsageError

    if not cells.exists():
        raise UsageError(f"{cells}: no such file.")
    if not is_cells(cells):
        raise DataError(f"{cells} does not hold cells; make some with `cldrank clicks aggregate`.")
    table = ClickTable.read(cells, options.load_features(features))
    summary = _summary(table)
    if as_json:
        print_json({"cells": str(cells), **summary})
        return
    console.print(repr(table), markup=False)
    shown = new_table("position", "impressions", "clicks", "click rate")
    for entry in summary["positions"]:
        shown.add_row(
            f"{entry['position']}", f"{entry['impressions']:,}", f"{entry['clicks']:,}", f"{entry['click_rate']:.4f}"
        )
    console.print(shown)


def _summary(table: ClickTable) -> dict[str, Any]:
    import numpy as np

    impressions = np.bincount(table.position, table.impressions, table.depth + 1)
    clicks = np.bincount(table.position, table.clicks, table.depth + 1)
    return {
        "queries": table.n_queries,
        "queries_shown": int((table.query_impressions > 0).sum()),
        "candidates": table.candidates.n_rows,
        "candidates_shown": int(table.shown.sum()),
        "cells": table.n_cells,
        "impressions": int(table.impressions.sum()),
        "clicks": int(table.clicks.sum()),
        "sources": [source.name for source in table.sources],
        "positions": [
            {
                "position": position,
                "impressions": int(impressions[position]),
                "clicks": int(clicks[position]),
                "click_rate": clicks[position] / impressions[position],
            }
            for position in range(1, table.depth + 1)
            if impressions[position]
        ],
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "rows": account.rows,
        "set_aside": account.n_rejected,
        "share_set_aside": account.share_rejected,
        "reasons": dict(account.rejected),
        "seconds": round(account.seconds, 3),
    }
