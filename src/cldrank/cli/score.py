"""`cldrank score`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.output import messages, print_json, print_line
from cldrank.errors import UsageError
from cldrank.files import replacing_folder


@with_options
def score(
    ranker: Annotated[Path, typer.Argument(help="The folder of a saved ranker.", show_default=False)],
    features: options.Features,
    out: Annotated[
        Path,
        options.spelled(
            "--out -o FILE",
            "The file to write: .parquet, .csv, or .run or .trec for a run as TREC has them.",
            show_default=False,
        ),
    ],
    top: Annotated[int | None, options.spelled("--top K", "Keep only the first K of each query.", min=1)] = None,
    device: Annotated[
        str | None, options.spelled("--device DEVICE", "Where networks and trees compute: cpu, or cuda for a GPU.")
    ] = None,
    engine: options.Engine = "local",
    master: options.Master = "local[*]",
    *,
    reading: options.Layout,
    as_json: options.Json = False,
) -> None:
    """Score the candidates of any file with a ranker: query, document, score and rank, in the order of the file.

    Memory does not grow with the file. With `--engine spark`, the candidates are scored where they are, and the scores
    are a folder of Parquet files, in no particular order.

    Example: `cldrank score ranker/ --features test.parquet --out scores.parquet`
    """
    from cldrank.rankers import load_ranker
    from cldrank.scoring import score as run

    options.check_outside(out, ranker)
    with options.place(engine, master) as session:
        if session is not None:
            _score_on_spark(session, ranker, features, out, top, reading, device, as_json=as_json)
            return
    options.check_outputs([out], [*features, ranker])
    arguments = reading.chosen()
    loaded = load_ranker(ranker)
    with messages.status("scoring …") as status:

        def show(rows: int) -> None:
            status.update(f"scoring … {rows:,} rows")

        found = run(loaded, features, out, top=top, device=device, on_rows=show, **arguments)
    if as_json:
        print_json({"ranker": str(ranker), **asdict(found)})
        return
    kept = "" if top is None else f", of which {found.written:,} are kept"
    print_line(f"{out}: {found.summary()}{kept}.")


def _score_on_spark(
    session: Any,
    ranker: Path,
    features: list[str],
    out: Path,
    top: int | None,
    reading: options.Layout,
    device: str | None,
    *,
    as_json: bool,
) -> None:
    """Score on Spark, and write a folder of Parquet files."""
    from cldrank.rankers import load_ranker
    from cldrank.spark import SparkDataset
    from cldrank.spark.folding import explained

    if device is not None:
        raise UsageError("--device is for files that are scored here, not on Spark.")
    if out.suffix in (".csv", ".run", ".trec"):
        raise UsageError(f"--out {out}: on Spark, scores are a folder of Parquet files; name a folder.")
    columns, loaded = reading.spark_columns(), load_ranker(ranker)
    columns.setdefault("features", list(loaded.feature_names))
    with messages.status("scoring …"):
        scores = SparkDataset.read(session, features, columns).scored(loaded, top=top)
        with replacing_folder(out) as folder, explained():
            scores.write.mode("overwrite").option("compression", "zstd").parquet(str(folder.absolute()))
            rows = session.read.parquet(str(folder.absolute())).count()
    if as_json:
        print_json({"ranker": str(ranker), "out": str(out), "written": rows})
        return
    print_line(f"{out}: the scores of {rows:,} rows.")
