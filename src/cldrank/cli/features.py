"""`cldrank features`: candidates and features from search engines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Literal

from cldrank.cli import options
from cldrank.cli.commands import declared, group_of, option
from cldrank.cli.options import of_reading
from cldrank.cli.output import check_parquet_name, counting, print_json, print_line, say
from cldrank.errors import CldrankError


@declared
class CollectCommand(options.JsonOutput):
    """Collect the candidates of queries, with their features, from a search engine.

    The engine finds candidates by `--search`, and computes the features of `--featureset`, the file that was uploaded
    to it. Missing values stay missing. With `--log`, what was shown is asked for as well, and features that were logged
    with it go first. Called again, it goes on where it was stopped.

    Credentials come from the environment: CLDRANK_ENGINE_USER and CLDRANK_ENGINE_PASSWORD, CLDRANK_ENGINE_API_KEY, or
    CLDRANK_ENGINE_TOKEN. SSL_CERT_FILE names certificates to trust.

    Example: `cldrank features collect --from opensearch --url https://localhost:9200/products --queries queries.csv
    --featureset features.json --search '{"match": {"title": "{{keywords}}"}}' --out features.parquet`
    """

    source: Literal["opensearch", "elasticsearch", "solr", "vespa"] = option(
        "--from ENGINE", "`opensearch` (or Elasticsearch with its plugin), `elasticsearch`, `solr` or `vespa`.", ...
    )
    url: str = option(
        "URL", "The index or collection, such as https://localhost:9200/products; Vespa: the container.", ...
    )
    queries: list[str] = option(
        "FILE", "Files with query_id and query; with query_id alone, if it is the text; or queries of UBI.", ...
    )
    featureset: Path = option("FILE", "The features, as uploaded: JSON, or Vespa's rank profile.", ...)
    search: str = option(
        "QUERY",
        "What finds candidates: JSON with {{query}} or another name for the text; Solr: with $qq; Vespa: YQL with "
        "userQuery().",
        ...,
    )
    out: Path = option("-o FILE", "The Parquet file to write.", ...)
    log: list[str] | None = option("FILE", "A plain log; what it shows is collected, too.")
    size: int = option("COUNT", "How many candidates of each query.", 200, min=1)
    per_second: float | None = option("NUMBER", "Requests a second at most.", above=0)
    retries: int = option("COUNT", "How often to repeat a request that the engine was too busy for.", 5, min=0)
    threads: int = option("COUNT", "Queries asked at once.", 4, min=1, max=64)
    id_field: str | None = option("NAME", "The field with the ids of the log. [default: _id; Solr and Vespa: id]")
    log_column: list[str] | None = of_reading(
        "ROLE=NAME", "Which column of the log is `query_id`, `doc_id`, `timestamp`."
    )
    normalise: bool = of_reading(
        "--normalise/--as-typed", "Queries of UBI in lower case with single blanks, or as they were typed.", True
    )

    def run(self) -> None:
        """Ask for query after query, and write the file when all are there."""
        from cldrank.collect import collect_features

        check_parquet_name(self.out)
        options.check_outputs([self.out], [*self.queries, *(self.log or []), self.featureset])
        with counting("queries", 0, shown=not self.as_json) as tell:
            try:
                result = collect_features(
                    self.source,
                    self.url,
                    queries=self.queries,
                    featureset=self.featureset,
                    search=self.search,
                    out=self.out,
                    log=self.log,
                    log_columns=options.log_columns(self.log_column),
                    size=self.size,
                    id_field=self.id_field,
                    normalise=self.normalise,
                    per_second=self.per_second,
                    retries=self.retries,
                    threads=self.threads,
                    progress=lambda done, total: tell(done, total=total),
                )
            except (CldrankError, KeyboardInterrupt):
                if any(Path(f"{self.out}.parts").glob("part-*")):
                    say(f"what was collected is kept in {self.out}.parts; the same command goes on from there.")
                raise
        if self.as_json:
            print_json(asdict(result))
        else:
            print_line(str(result))
            print_line(f"wrote {self.out}, with the features of {result.featureset[:-52]}")


app = group_of("Candidates and features from search engines.", CollectCommand)
