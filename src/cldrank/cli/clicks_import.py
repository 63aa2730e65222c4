"""`cldrank clicks import`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.options import of_reading
from cldrank.cli.output import check_parquet_name, console, print_json, print_warning, say, working
from cldrank.errors import UsageError
from cldrank.files import check_writable


@dataclass(frozen=True, kw_only=True)
class ImportOptions(log_options.RowOptions, log_options.LogEngine):
    """How records are read, by the names that `import_log` has for it."""

    queries: Annotated[
        list[str] | None,
        options.spelled("--queries FILE", "UBI: files, folders or patterns of queries. Repeat it for several."),
    ] = None
    events: Annotated[
        list[str] | None,
        options.spelled("--events FILE", "UBI: files, folders or patterns of events. Repeat it for several."),
    ] = None
    min_joined: Annotated[
        float,
        options.spelled(
            "--min-joined", "Fail if a smaller share of events finds its query, or of clicks its result.", min=0, max=1
        ),
    ] = 0.8
    click_action: Annotated[
        list[str] | None,
        of_reading("--click-action NAME", "What counts as a click; repeat it for several. [default: click]"),
    ] = None
    impression_action: Annotated[
        list[str] | None,
        of_reading(
            "--impression-action NAME", "UBI: what is an impression; repeat it for several. [default: impression]"
        ),
    ] = None
    impressions: Annotated[
        str | None,
        of_reading(
            "--impressions auto|events|returned",
            "UBI: what was shown: as events say, or all that was returned. [default: auto, events if there are any]",
        ),
    ] = None
    object_id: Annotated[
        str | None,
        of_reading("--object-id object_id|internal_id", "UBI: which id is the document. [default: object_id]"),
    ] = None
    surface: Annotated[
        str | None,
        of_reading(
            "--surface FIELD",
            "UBI: the field of a query with its surface, such as `query_attributes.device`. [default: application]",
        ),
    ] = None
    first_position: Annotated[
        int | None,
        of_reading("--first-position 0|1", "UBI: where ordinals begin. [default: as the log shows]", min=0, max=1),
    ] = None
    query_field: Annotated[
        str | None, of_reading("--query-field NAME", "Metarank: the field of a ranking that holds its query.")
    ] = None
    normalise: Annotated[
        bool, of_reading("--normalise/--as-typed", "Queries in lower case with single blanks, or as they were typed.")
    ] = True

    def given(self) -> dict[str, Any]:
        """The arguments for `import_log`, as far as they were given."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value != []}


@with_options
def import_log(
    source: Annotated[str, options.spelled("--from ubi|metarank|yandex", "The format of the log.", show_default=False)],
    out: Annotated[
        Path,
        options.spelled("--out -o FILE", "The log to write: a Parquet file; with Spark, a folder.", show_default=False),
    ],
    reading: ImportOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="Metarank, Yandex: log files, folders or patterns.", show_default=False
        ),
    ] = None,
    rejects: Annotated[
        Path | None,
        options.spelled("--rejects FILE", "Write the records set aside, with reasons, to this Parquet file."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Turn the log of another program into the plain log that all other commands take.

    UBI (User Behavior Insights of OpenSearch and Solr): queries and events as JSON Lines, with or without `_source`, or
    Parquet. Metarank: its events as JSON Lines. Yandex: the log of Yandex relevance prediction. Every record is
    in the log, or set aside, counted and reported.

    Example: `cldrank clicks import --from ubi --queries queries.jsonl --events events.jsonl --out log.parquet`
    """
    from cldrank.clicks.imports import import_log as run

    inputs = [*(files or []), *(reading.queries or []), *(reading.events or [])]
    _check_outputs(out, rejects, inputs, reading.engine)
    with working(f"importing {', '.join(inputs)} …") as progress:
        report = run(source, files or None, out=out, rejects=rejects, progress=progress, **reading.given())
    if report.returned_only:
        print_warning(f"{report.notes[0]}.")
    if as_json:
        print_json(report.as_dict())
        return
    console.print(str(report), markup=False, soft_wrap=True)
    if report.set_aside and rejects:
        console.print(f"the records set aside: {rejects}", markup=False)
    elif report.set_aside:
        say("Write the records set aside to a file with --rejects FILE.")
    console.print(f"wrote {out}", markup=False)


def _check_outputs(out: Path, rejects: Path | None, inputs: list[str], engine: str) -> None:
    """Refuse outputs that cannot be written; Spark writes folders."""
    written = [path for path in (out, rejects) if path is not None]
    for path in written:
        check_parquet_name(path)
    if engine != "spark":
        options.check_outputs([out, rejects], inputs)
        return
    for path in written:
        options.check_folder(path)
        check_writable(path.parent / f"{path.name}.check")
        if any(Path(source).resolve() == path.resolve() for source in inputs):
            raise UsageError(f"{path} is an input and would be overwritten; name another folder to write.")
    if rejects is not None and rejects.resolve() == out.resolve():
        raise UsageError(f"{out} would be written twice; name different folders.")
