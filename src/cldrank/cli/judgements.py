"""`cldrank judgements`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.learning_task import Sources
from cldrank.cli.output import console, new_table, print_json, print_line, say, working
from cldrank.cli.propensity_methods import LogSource
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.judgements import Judgements, WrittenJudgements

_BY_ID = (
    "queries are named by their ids, and {} searches by text; if the ids are not the texts, name a file with the "
    "columns query_id and query_text: --query-text FILE."
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
    segment: Annotated[
        str | None,
        options.spelled(
            "--segment COLUMN",
            "The device, layout or surface, in a raw log, where -p has a curve for each; cells know their segments.",
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
        from cldrank.judgements.judging import checked_grades
        from cldrank.propensity.checks.raising import EnvelopeUse

        if self.fill is not None and not self.features:
            raise UsageError("--fill scores documents by their features; name these with --features.")
        check_choice("envelope", self.envelope, get_args(EnvelopeUse))
        return {
            "grades": checked_grades(_numbers(self.grades)),
            "confidence": check_number("confidence", self.confidence, above=0, below=1),
            "envelope": self.envelope,
            "seed": self.seed,
        }

    def read(self, source: LogSource) -> tuple[ClickTable, Any]:
        """The clicks and, where documents are to be filled in, the scores of a ranker."""
        from cldrank.rankers import load_ranker

        if self.fill is None or not self.features:
            return source.table(options.load_features(self.features), self.segment), None
        ranker = load_ranker(self.fill)
        dataset = options.load_for_ranker(ranker, self.fill, options.Reading(), self.features)
        return source.table(dataset, self.segment), ranker.predict(dataset)


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
    query_text: Annotated[
        Path | None,
        options.spelled(
            "--query-text FILE",
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
        texts = None if self.query_text is None else read_query_texts(self.query_text)
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
    source: LogSource,
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
    as_json: options.Json = False,
) -> None:
    """Judge documents by clicks, for tools that measure relevance: corrected for position, with an interval.

    Relevance is the probability that a document is clicked if it is examined. What was shown a few times is drawn
    towards what is usual at its position. With `--features`, documents that were never shown are listed as unknown.

    Example: `cldrank judgements log/ -f candidates.parquet -p rho.json --to workbench --out judgements.json`
    """
    from cldrank.judgements import write_judgements

    features, sure = judging.features or [], delivery.sure
    asked, wanted = judging.arguments(), delivery.arguments(out)
    others = [one for one in (judging.fill, delivery.query_text) if one is not None]
    options.check_outputs([out], [*source.log, *features, *others])
    table, scores = judging.read(source)
    curve = Sources(features=features, propensity=propensity).curve_for(table)
    found = _judged(table, curve, fill=scores, **asked)
    kept = found if sure is None else _sure(found, sure)
    done = write_judgements(kept, out, **wanted)
    wide = len(found) - len(kept)
    if as_json:
        print_json({**asdict(done), "too_wide": wide, **_facts(found)})
        return
    _print(found, done, wide, sure)
    if done.format in _TOOLS and delivery.query_text is None:
        say(_BY_ID.format(_TOOLS[done.format]))
    if not features:
        say("without --features, the documents are those of the log, and none is unknown.")


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"--grades {text!r} are not numbers with commas between them, such as 0.05,0.2,0.5.") from None


def _judged(table: ClickTable, curve: Any, **asked: Any) -> Judgements:
    from cldrank.judgements import judge_documents

    with working("judging …"):
        return judge_documents(table, curve, **asked)


def _sure(found: Judgements, width: float) -> Judgements:
    kept = found.sure(width)
    if not kept.known.any():
        narrowest = float((found.high - found.low)[found.known].min())
        raise UsageError(f"--sure {width:g} leaves no judgement; the narrowest interval is {narrowest:.2g} wide.")
    return kept


def _facts(found: Judgements) -> dict[str, Any]:
    return {"grades": {str(grade): rows for grade, rows in _by_grade(found).items()}, "thresholds": found.thresholds}


def _by_grade(found: Judgements) -> dict[int, int]:
    return {grade: int((found.grade == grade).sum()) for grade in range(len(found.thresholds) + 1)}


def _print(found: Judgements, done: WrittenJudgements, wide: int, sure: float | None) -> None:
    ends = (0.0, *found.thresholds, 1.0)
    table = new_table("grade", "relevance", "judgements", "within one grade")
    for grade, rows in _by_grade(found).items():
        at = found.grade == grade
        alone = f"{found.one_grade[at].mean():.0%}" if rows else "–"
        table.add_row(str(grade), f"{ends[grade]:g} … {ends[grade + 1]:g}", f"{rows:,}", alone)
    console.print(table)
    print_line(f"{done.path}: {done}.")
    if sure is not None:
        print_line(f"left out since their interval is wider than {sure:g}: {wide:,}.")
