"""`cldrank clicks import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.output import check_parquet_name, console, print_json, print_warning, say, working
from cldrank.errors import UsageError
from cldrank.files import check_writable

_READING = "Reading files"


def _how(usage: str, about: str, **more: Any) -> Any:
    return options.spelled(usage, about, rich_help_panel=_READING, show_default=False, **more)


def import_log(
    source: Annotated[str, options.spelled("--from ubi|metarank|yandex", "The format of the log.", show_default=False)],
    out: Annotated[
        Path,
        options.spelled("--out -o FILE", "The log to write: a Parquet file; with Spark, a folder.", show_default=False),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="Metarank, Yandex: log files, folders or patterns.", show_default=False
        ),
    ] = None,
    queries: Annotated[
        list[str] | None,
        options.spelled("--queries FILE", "UBI: files, folders or patterns of queries. Repeat it for several."),
    ] = None,
    events: Annotated[
        list[str] | None,
        options.spelled("--events FILE", "UBI: files, folders or patterns of events. Repeat it for several."),
    ] = None,
    rejects: Annotated[
        Path | None,
        options.spelled("--rejects FILE", "Write the records set aside, with reasons, to this Parquet file."),
    ] = None,
    min_joined: Annotated[
        float,
        options.spelled(
            "--min-joined", "Fail if a smaller share of events finds its query, or of clicks its result.", min=0, max=1
        ),
    ] = 0.8,
    click_action: Annotated[
        list[str] | None, _how("--click-action NAME", "What counts as a click; repeat it for several. [default: click]")
    ] = None,
    impression_action: Annotated[
        list[str] | None,
        _how("--impression-action NAME", "UBI: what is an impression; repeat it for several. [default: impression]"),
    ] = None,
    impressions: Annotated[
        str,
        _how(
            "--impressions auto|events|returned",
            "UBI: what was shown: as events say, or all that was returned. [default: auto, events if there are any]",
        ),
    ] = "auto",
    object_id: Annotated[
        str, _how("--object-id object_id|internal_id", "UBI: which id is the document. [default: object_id]")
    ] = "object_id",
    surface: Annotated[
        str,
        _how(
            "--surface FIELD",
            "UBI: the field of a query with its surface, such as `query_attributes.device`. [default: application]",
        ),
    ] = "application",
    first_position: Annotated[
        int | None,
        _how("--first-position 0|1", "UBI: where ordinals begin. [default: as the log shows]", min=0, max=1),
    ] = None,
    query_field: Annotated[
        str | None, _how("--query-field NAME", "Metarank: the field of a ranking that holds its query.")
    ] = None,
    normalise: Annotated[
        bool, _how("--normalise/--as-typed", "Queries in lower case with single blanks, or as they were typed.")
    ] = True,
    engine: Annotated[str, _how("--engine duckdb|spark", "The engine that joins. [default: duckdb]")] = "duckdb",
    master: Annotated[str, _how("--master URL", "Spark: where it runs. [default: local[*]]")] = "local[*]",
    memory_limit: Annotated[
        str, _how("--memory-limit SIZE", "DuckDB: spill to disk beyond this; Spark: driver memory. [default: 3GB]")
    ] = "3GB",
    as_json: options.Json = False,
) -> None:
    """Turn the log of another program into the plain log that all other commands take.

    UBI (User Behavior Insights of OpenSearch and Solr): queries and events as JSON Lines, with or without `_source`, or
    Parquet. Metarank: its events as JSON Lines. Yandex: the log of the relevance prediction challenge. Every record is
    in the log, or set aside, counted and reported.

    Example: `cldrank clicks import --from ubi --queries queries.jsonl --events events.jsonl --out log.parquet`
    """
    from cldrank.clicks.imports import import_log as run

    inputs = [*(files or []), *(queries or []), *(events or [])]
    _check_outputs(out, rejects, inputs, engine)
    with working(f"importing {', '.join(inputs)} …") as progress:
        report = run(
            source,
            files or None,
            out=out,
            queries=queries or None,
            events=events or None,
            click_action=click_action or "click",
            impression_action=impression_action or "impression",
            impressions=impressions,
            object_id=object_id,
            surface=surface,
            first_position=first_position,
            query_field=query_field,
            normalise=normalise,
            min_joined=min_joined,
            rejects=rejects,
            engine=engine,
            master=master,
            memory_limit=memory_limit,
            progress=progress,
        ).said("shell")
    if report.returned_only:
        print_warning(f"{report.remarks[0]}.")
    if as_json:
        print_json(report.as_dict())
        return
    console.print(str(report), markup=False, soft_wrap=True)
    if report.set_aside:
        if rejects:
            console.print(f"the records set aside: {rejects}", markup=False)
        else:
            say("Write the records set aside to a file with --rejects FILE.")
    console.print(f"wrote {out}", markup=False)


def _check_outputs(out: Path, rejects: Path | None, inputs: list[str], engine: str) -> None:
    """Refuse outputs that cannot be written; Spark writes folders."""
    for path in (out, rejects):
        if path is not None:
            check_parquet_name(path)
    if engine != "spark":
        options.check_outputs([out, rejects], inputs)
        return
    for path in (out, rejects):
        if path is not None:
            options.check_folder(path)
            check_writable(path.parent / f"{path.name}.check")
            if any(Path(source).resolve() == path.resolve() for source in inputs):
                raise UsageError(f"{path} is an input and would be overwritten; name another folder to write.")
    if rejects is not None and rejects.resolve() == out.resolve():
        raise UsageError(f"{out} would be written twice; name different folders.")
