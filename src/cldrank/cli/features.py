"""`cldrank features`: candidates and features from search engines."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

from cldrank.cli import options
from cldrank.cli.commands import declared, group_of, option
from cldrank.cli.output import check_parquet_name, counting, print_json, print_line, say


@declared
class CollectCommand(options.JsonOutput):
    """Collect the candidates of queries, with their features, from a search engine.

    The engine finds candidates by `--search`, and computes the features of `--featureset`, the file that was uploaded
    to it. Missing values stay missing. With `--log`, what was shown is asked for as well, and features that were logged
    with it go first. The same command goes on where it was stopped.

    Credentials come from the environment: CLDRANK_ENGINE_USER and CLDRANK_ENGINE_PASSWORD, CLDRANK_ENGINE_API_KEY, or
    CLDRANK_ENGINE_TOKEN. SSL_CERT_FILE names certificates to trust.

    Example: `cldrank features collect --from opensearch --url https://localhost:9200/products --queries queries.csv
    --featureset features.json --search '{"match": {"title": "{{query}}"}}' --out train.parquet`
    """

    engine: str = option(
        "--from NAME", "`opensearch` (or Elasticsearch with its plugin), `elasticsearch`, `solr` or `vespa`.", ...
    )
    url: str = option(
        "URL", "The index or collection, such as https://localhost:9200/products; Vespa: the container.", ...
    )
    queries: list[str] = option(
        "FILE", "Files with query_id and query; with query_id alone, if it is the text; or queries of UBI.", ...
    )
    featureset: Path = option("FILE", "The features, as uploaded: JSON, or Vespa's rank profile.", ...)
    search: str = option(
        "QUERY", "What finds candidates: JSON with {{query}}; Solr: with $qq; Vespa: YQL with userQuery().", ...
    )
    out: Path = option("-o FILE", "The Parquet file to write.", ...)
    log: list[str] | None = option("FILE", "A plain log; what it shows is collected, too.")
    size: int = option("COUNT", "How many candidates of each query.", 200, min=1)
    per_second: float | None = option("NUMBER", "Requests a second at most.", above=0)
    retries: int = option("COUNT", "How often to repeat a request that fails, ever more slowly.", 5, min=0)
    threads: int = option("COUNT", "Queries asked at once.", 4, min=1, max=64)
    id_field: str | None = option("NAME", "The field with the ids of the log. [default: _id; Solr and Vespa: id]")

    def run(self) -> None:
        """Ask for query after query, and write the file when all are there."""
        from cldrank.collect import collect_features

        check_parquet_name(self.out)
        options.check_outputs([self.out], [*self.queries, *(self.log or []), self.featureset])
        given = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "as_json"}
        with counting("queries", 0, shown=not self.as_json) as tell:
            try:
                result = collect_features(**given, progress=lambda done, total: tell(done, total=total))
            finally:
                if any(Path(f"{self.out}.parts").glob("part-*")):
                    say(f"what was collected is kept in {self.out}.parts; the same command goes on from there.")
        if self.as_json:
            print_json(asdict(result))
            return
        print_line(str(result))
        print_line(f"wrote {self.out}, with the features of {result.featureset[:-52]}")


app = group_of("Candidates and features from search engines.", CollectCommand)
