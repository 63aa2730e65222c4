"""`cldrank evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.judging import (
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
from cldrank.cli.output import console, save_table, say, working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.evaluation import Evaluation


@with_options
def evaluate(
    ranker: Annotated[str, typer.Argument(help=RANKER_HELP, show_default=False)],
    sources: Sources,
    per_query: Annotated[
        Path | None,
        options.spelled("--per-query FILE", "Write the values of every query to this Parquet file; by labels only."),
    ] = None,
    record: Annotated[
        bool,
        options.spelled(
            "--record", "Add the result to the ranker's folder: its description and its model card; by labels only."
        ),
    ] = False,
    *,
    measuring: Measuring,
    judging: ClickJudging,
    reading: options.Reading,
    log: log_options.LogReading,
    as_json: options.JsonFile = None,
) -> None:
    """Measure how well a ranker orders candidates, with intervals over queries: by labels, or by clicks alone.

    Example: `cldrank evaluate ranker/ --features test.txt -m nDCG@3,AP`

    With `--clicks LOG --propensity FILE`, no labels are needed, and the result says how much the log can see: the share
    of the ranker's top that was ever shown, and what the rest may be worth. Queries that the ranker was trained on are
    left out; see `train --hold-out`.

    Example: `cldrank evaluate ranker/ --features later.parquet --clicks log/ --propensity rho.json`
    """
    named = (ranker,)
    check_sources(named, sources, log, **vars(judging))
    place = Path(ranker)
    if sources.clicks and (per_query or record):
        raise UsageError(f"{'--per-query' if per_query else '--record'} is for labels; leave it out.")
    if ranker != PRODUCTION:
        options.check_outside(per_query, place)
        options.check_outside(options.json_path(as_json), place)
    inputs = [*sources.features, *(sources.clicks or ()), place]
    options.check_outputs([per_query, options.json_path(as_json)], inputs)
    if record:
        _check_recordable(place)
    given = {**measuring.by_clicks(), **judging.arguments()} if sources.clicks else measuring.by_labels()
    found = JudgedData.read(named, sources, reading, log)
    if sources.clicks:
        warn_of_scores(named, judging)
        _by_clicks(ranker, found, given, as_json)
    else:
        _by_labels(ranker, found, given, per_query, record, as_json)


def _by_clicks(ranker: str, found: JudgedData, given: dict[str, Any], as_json: str | None) -> None:
    from cldrank.documents import render_terminal
    from cldrank.evaluation import evaluate as run

    with working("judging by clicks …"):
        (model,) = found.rankers
        result = run(model, found.dataset, name=ranker, **found.evidence(), **given)
    if deliver(result.as_dict(), as_json):
        render_terminal(result.document(), console)


def _by_labels(
    ranker: str, found: JudgedData, given: dict[str, Any], per_query: Path | None, record: bool, as_json: str | None
) -> None:
    from cldrank.documents import render_terminal
    from cldrank.evaluation import evaluate as run
    from cldrank.evaluation.result_documents import evaluation_document

    (model,) = found.rankers
    result = run(model, found.dataset, **given)
    if per_query:
        _write_per_query(result, found.dataset, per_query)
    if record:
        from cldrank.rankers import record_evaluation

        record_evaluation(model, result, ranker)
    if deliver({"ranker": ranker, **result.as_dict()}, as_json):
        render_terminal(evaluation_document(result, ranker), console)
        if per_query:
            say(f"values of every query: {per_query}")
        if record:
            say(f"recorded in {Path(ranker) / 'README.md'}")


def _check_recordable(path: Path) -> None:
    """Refuse what the result cannot be recorded in, before anything is read."""
    from cldrank.rankers import check_replaceable

    if path.is_file():
        raise UsageError(f"--record is for rankers; {path} is a file of scores.")
    options.check_folder(path)
    check_replaceable(path)


def _write_per_query(result: Evaluation, dataset: RankingDataset, path: Path) -> None:
    import pyarrow as pa

    columns = {"query_id": pa.array(dataset.query_ids)}
    columns |= {str(measure): pa.array(values) for measure, values in result.per_query.items()}
    save_table(pa.table(columns), path)
