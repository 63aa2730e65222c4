"""`cldrank score` and `cldrank serve`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.output import messages, print_json, print_line, say
from cldrank.errors import UsageError
from cldrank.files import replacing_folder
from cldrank.wording import count


@declared
class ScoreCommand(options.Layout, options.ComputePlace, options.JsonOutput):
    """Score the candidates of any file with a ranker: query, document, score and rank, in the order of the file.

    Memory does not grow with the file. With `--engine spark`, the candidates are scored where they are, and the scores
    are a folder of Parquet files, in no particular order.

    Example: `cldrank score ranker/ --features test.parquet --out scores.parquet`
    """

    ranker: Path = argument("RANKER", "The folder of a saved ranker.")
    features: list[str] = option(
        "-f FILE", "The candidates, as `cldrank train` takes them. Repeat it for several.", ...
    )
    out: Path = option("-o FILE", "The file to write: .parquet or .csv.", ...)
    top: int | None = option("K", "Keep only the first K of each query.", min=1)
    device: str | None = option("TEXT", "Where networks and trees compute: cpu, or cuda for a GPU.")

    def run(self) -> None:
        """Score here, or on Spark."""
        from cldrank.rankers import load_ranker
        from cldrank.scoring import score

        options.check_outside(self.out, self.ranker)
        with self.session() as session:
            if session is not None:
                self._run_on_spark(session)
                return
        options.check_outputs([self.out], [*self.features, self.ranker])
        reading = self.layout()
        ranker = load_ranker(self.ranker)
        with messages.status("scoring …") as status:

            def show(rows: int) -> None:
                status.update(f"scoring … {rows:,} rows")

            scored = score(ranker, self.features, self.out, top=self.top, device=self.device, on_rows=show, **reading)
        if self.as_json:
            print_json({"ranker": str(self.ranker), **asdict(scored)})
            return
        kept = "" if self.top is None else f", of which {scored.written:,} are kept"
        print_line(f"{self.out}: {scored.summary()}{kept}.")

    def _run_on_spark(self, session: Any) -> None:
        """Write a folder of Parquet files."""
        from cldrank.rankers import load_ranker
        from cldrank.spark import SparkDataset
        from cldrank.spark.folding import explained

        if self.device is not None:
            raise UsageError("--device is for files that are scored here, not on Spark.")
        if self.out.suffix == ".csv":
            raise UsageError(f"--out {self.out}: on Spark, scores are a folder of Parquet files; name a folder.")
        columns, ranker = self.spark_columns(), load_ranker(self.ranker)
        columns.setdefault("features", list(ranker.feature_names))
        with messages.status("scoring …"):
            scores = SparkDataset.read(session, self.features, columns).scored(ranker, top=self.top)
            with replacing_folder(self.out) as folder, explained():
                scores.write.mode("overwrite").option("compression", "zstd").parquet(str(folder.absolute()))
                rows = session.read.parquet(str(folder.absolute())).count()
        if self.as_json:
            print_json({"ranker": str(self.ranker), "out": str(self.out), "written": rows})
        else:
            print_line(f"{self.out}: the scores of {rows:,} rows.")


@declared
class ServeCommand:
    """Serve a ranker over HTTP: `POST /rank` puts candidates in order; `/docs` explains the rest.

    With `--against OLD`, `POST /interleave` answers with pages that both rankers make together.

    When another ranker is saved to the folder, it takes over within a second, without dropping a request; a broken
    ranker is refused. On SIGTERM and Ctrl-C, it answers requests in flight first.

    Example: `cldrank serve ranker/ --port 8000 --workers 2`
    """

    ranker: Path = argument("RANKER", "The folder of a saved ranker.")
    against: Path | None = option("FOLDER", "The folder of another ranker, usually the one in use, to interleave with.")
    host: str = option("ADDRESS", "The address to listen at.", "127.0.0.1")
    port: int = option("NUMBER", "The port; 0 takes any free port.", 8000, min=0, max=65535)
    workers: int = option("COUNT", "Processes that answer requests.", 1, min=1, max=256)
    max_body: int = option("MIB", "Largest body of a request, in MiB.", 32, min=1)
    max_candidates: int = option("COUNT", "Most candidates of a request.", 10_000, min=1)
    body_timeout: float = option("SECONDS", "Time within which a body must arrive.", 10.0, min=0.1, max=3600)
    stop_timeout: float = option("SECONDS", "Time for requests in flight when stopped.", 30.0, min=1, max=3600)
    token_file: Path | None = option(
        "FILE",
        "A file with the token that `POST /reload` must show; without it, the environment variable CLDRANK_TOKEN.",
    )

    def run(self) -> None:
        """Serve until stopped."""
        from cldrank.service.serving import MEBIBYTE, ServiceSettings, read_token, serve_ranker

        settings = ServiceSettings(
            max_body=self.max_body * MEBIBYTE,
            max_candidates=self.max_candidates,
            body_timeout=self.body_timeout,
            stop_timeout=self.stop_timeout,
            token=read_token(self.token_file),
        )

        def started(address: str, loaded: str) -> None:
            workers = count(self.workers, "worker")
            other = "" if self.against is None else f" against {self.against}"
            say(f"serving {self.ranker}{other}: {loaded}")
            say(f"at {address} ({workers}; the API is explained at {address}/docs); Ctrl-C stops it.")

        code = serve_ranker(
            self.ranker,
            against=self.against,
            host=self.host,
            port=self.port,
            workers=self.workers,
            settings=settings,
            started=started,
        )
        if code:
            raise click.exceptions.Exit(code)
