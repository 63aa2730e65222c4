"""`cldrank judgements`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.learning_task import Sources
from cldrank.cli.output import console, new_table, print_json, print_line, say, working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.judgements import Judgements, WrittenJudgements

_BY_ID = (
    "queries are named by their ids, and {} searches by text; if the ids are not the texts, name a file with the "
    "columns query_id and query_text: --query-texts FILE."
)
_ENDINGS = {".json": "workbench", ".csv": "quepid", ".parquet": "parquet"}
_TOOLS = {"workbench": "the Workbench", "quepid": "Quepid"}


@dataclass(frozen=True)
class Judging:
    """How documents are judged; each field is an option."""

    features: Annotated[
        list[str] | None,
        options.spelled(
            "--features -f FILE",
            "All candidates of each query: Parquet, CSV or LETOR files, a folder, or a data set such as `msrd:test`. "
            "Those never shown are unknown.",
            show_default=False,
        ),
    ] = None
    fill: Annotated[
        Path | None,
        options.spelled(
            "--fill RANKER",
            "Fill in documents that were never shown by the score of this ranker (its folder), and mark them; needs "
            "--features.",
            show_default=False,
        ),
    ] = None
    grades: Annotated[
        str, options.spelled("--grades NUMBERS", "The least relevance of grades 1, 2 and so on, with commas.")
    ] = "0.05,0.2,0.5"
    confidence: Annotated[float, options.spelled("--confidence", "The confidence level of the intervals.")] = 0.9
    envelope: Annotated[
        str,
        options.spelled("--envelope raise|warn|off", "What is done with an assumed curve where the clicks refute it."),
    ] = "raise"
    seed: options.Seed = 0

    def arguments(self) -> dict[str, Any]:
        """As `judge_documents` takes them, checked before anything is read."""
        from cldrank.arguments import check_choice, check_number
        from cldrank.judgements.document_judgements import checked_grades
        from cldrank.propensity.curve_checks import EnvelopeUse

        if self.fill is not None and not self.features:
            raise UsageError("--fill scores documents by their features; name these with --features.")
        check_choice("envelope", self.envelope, get_args(EnvelopeUse))
        return {
            "grades": checked_grades(_numbers(self.grades)),
            "confidence": check_number("confidence", self.confidence, above=0, below=1),
            "envelope": self.envelope,
            "seed": self.seed,
        }

    def read(self, sources: Sources, log: log_options.LogReading) -> tuple[ClickTable, Any]:
        """The clicks and, where documents are to be filled in, the scores of a ranker."""
        from cldrank.rankers import load_ranker

        if self.fill is None or not self.features:
            return sources.clicks_on(options.load_features(self.features), log), None
        ranker = load_ranker(self.fill)
        dataset = options.load_for_ranker(ranker, self.fill, options.Reading(), self.features)
        return sources.clicks_on(dataset, log), ranker.predict(dataset)


@dataclass(frozen=True)
class Delivery:
    """What is written of the judgements; each field is an option."""

    to: Annotated[
        str,
        options.spelled(
            "--to workbench|quepid|trec|parquet",
            "`workbench`: JSON that OpenSearch's Search Relevance Workbench imports. `quepid`: CSV with query, docid, "
            "rating. `trec`: qrels. `parquet`: everything, with intervals and unknown documents.",
        ),
    ] = "parquet"
    rating: Annotated[
        str | None,
        options.spelled(
            "--rating relevance|grade",
            "What a tool gets. [default: the relevance for workbench, the grade for quepid and trec]",
            show_default=False,
        ),
    ] = None
    sure: Annotated[
        float | None,
        options.spelled(
            "--sure WIDTH",
            "Leave out judgements whose interval is wider than this, and count them.",
            show_default=False,
        ),
    ] = None
    query_texts: Annotated[
        Path | None,
        options.spelled(
            "--query-texts FILE",
            "The texts of queries, CSV or Parquet with query_id and query_text, for tools that search by text.",
            show_default=False,
        ),
    ] = None
    name: Annotated[str, options.spelled("--name TEXT", "The name of the list of judgements in the Workbench.")] = (
        "judgements from clicks"
    )

    def arguments(self, out: Path) -> dict[str, Any]:
        """As `write_judgements` takes them, checked before anything is judged."""
        from cldrank.arguments import check_number
        from cldrank.judgements import check_delivery, read_query_texts

        if self.sure is not None:
            check_number("sure", self.sure, above=0, most=1)
        texts = None if self.query_texts is None else read_query_texts(self.query_texts)
        found: dict[str, Any] = {"to": self.to, "rating": self.rating, "query_texts": texts}
        check_delivery(**found)
        usual = _ENDINGS.get(out.suffix, self.to)
        if self.to != usual:
            raise UsageError(
                f"{out} ends in {out.suffix}, but --to {self.to} writes another format; write --to {usual}, or give "
                "the file another name."
            )
        return {**found, "name": self.name}


@with_options
def judgements(
    clicks: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="A file of cells, a folder of days, or raw logs.", show_default=False),
    ],
    propensity: Annotated[
        str,
        options.spelled(
            "--propensity -p power:ETA|FILE",
            "Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` "
            "wrote (with --method trust-bias, it corrects for trust as well), or none.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, options.spelled("--out -o FILE", "The file to write.", show_default=False)],
    judging: Judging,
    delivery: Delivery,
    log: log_options.LogReading,
    trust_propensity: Annotated[
        bool, options.spelled("--trust-propensity", "Use --propensity even where the log's own pages show another.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Judge documents by clicks, for tools that measure relevance: corrected for position, with an interval.

    Relevance is the probability that a document is clicked if it is examined. What was shown a few times is drawn
    towards what is usual at its position. With `--features`, documents that were never shown are listed as unknown.

    Example: `cldrank judgements log/ -f candidates.parquet -p rho.json --to workbench --out judgements.json`
    """
    from cldrank.judgements import judge_documents, write_judgements

    sources = Sources(
        features=judging.features or [], clicks=clicks, propensity=propensity, trust_propensity=trust_propensity
    )
    asked, wanted = judging.arguments(), delivery.arguments(out)
    others = [path for path in (judging.fill, delivery.query_texts) if path is not None]
    options.check_outputs([out], [*clicks, *sources.features, *others])
    table, scores = judging.read(sources, log)
    curve: Any = sources.curve_for(table)  # never None: the option must be given
    with working("judging …"):
        judged = judge_documents(table, curve, fill=scores, **asked)
    kept = judged if delivery.sure is None else _sure(judged, delivery.sure)
    done = write_judgements(kept, out, **wanted)
    too_wide = len(judged) - len(kept)
    if as_json:
        grades = {str(grade): rows for grade, rows in _by_grade(judged).items()}
        print_json({**asdict(done), "too_wide": too_wide, "grades": grades, "thresholds": judged.thresholds})
        return
    _print(judged, done)
    if delivery.sure is not None:
        print_line(f"left out since their interval is wider than {delivery.sure:g}: {too_wide:,}.")
    if done.format in _TOOLS and delivery.query_texts is None:
        say(_BY_ID.format(_TOOLS[done.format]))
    if not sources.features:
        say("without --features, the documents are those of the log, and none is unknown.")


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"--grades {text!r} are not numbers with commas between them, such as 0.05,0.2,0.5.") from None


def _sure(judged: Judgements, width: float) -> Judgements:
    kept = judged.sure(width)
    if not kept.known.any():
        narrowest = float((judged.high - judged.low)[judged.known].min())
        raise UsageError(f"--sure {width:g} leaves no judgement; the narrowest interval is {narrowest:.2g} wide.")
    return kept


def _by_grade(judged: Judgements) -> dict[int, int]:
    return {grade: int((judged.grade == grade).sum()) for grade in range(len(judged.thresholds) + 1)}


def _print(judged: Judgements, done: WrittenJudgements) -> None:
    ends = (0.0, *judged.thresholds, 1.0)
    table = new_table("grade", "relevance", "judgements", "within one grade")
    for grade, rows in _by_grade(judged).items():
        share = f"{judged.one_grade[judged.grade == grade].mean():.0%}" if rows else "–"
        table.add_row(str(grade), f"{ends[grade]:g} … {ends[grade + 1]:g}", f"{rows:,}", share)
    console.print(table)
    print_line(f"{done.path}: {done}.")
