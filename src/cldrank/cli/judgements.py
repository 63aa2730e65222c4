"""`cldrank judgements`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.output import print_json, print_line, print_table, say, working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.judgements import Judgements

_BY_ID = (
    "queries are named by their ids, and this tool searches by text; if the ids are not the texts, name a file with "
    "the columns query_id and query_text: --query-texts FILE."
)


@declared
class JudgementsCommand(options.Sources, options.JsonOutput):
    """Judge documents by clicks, for tools that measure relevance: corrected for position, with an interval.

    Relevance is the probability that a document is clicked if it is examined. Documents shown a few times are drawn
    towards the average at their position, or of those there that are rated alike (`--ratings`). With `--features`,
    documents that were never shown are listed as unknown.

    Example: `cldrank judgements log/ -f candidates.parquet -p rho.json --to workbench --out judgements.json`
    """

    clicks: list[str] = argument("LOG", "A file of cells, a folder of days, or raw logs.")
    features: list[str] | None = option(  # type: ignore[assignment]  # which training cannot do without
        "-f FILE", "All candidates of each query. Those never shown are unknown."
    )
    propensity: str = option(
        "-p power:ETA|FILE",
        "Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` wrote (with "
        "--method trust-bias, it corrects for trust as well), or none.",
        ...,
    )
    out: Path = option("-o FILE", "The file to write.", ...)
    grades: str = option("NUMBERS", "The least relevance of grades 1, 2, …, separated by commas.", "0.05,0.2,0.5")
    confidence: float = option("NUMBER", "The confidence level of the intervals.", 0.9)
    envelope: str = option("raise|warn|off", "What to do if clicks refute an assumed curve.", "raise")
    seed: int = option("INTEGER", "The same seed gives the same result.", 0, min=0)
    to: str = option(
        "workbench|quepid|trec|parquet",
        "`workbench`: JSON of relevance, for OpenSearch's Search Relevance Workbench. `quepid`: CSV with query, docid, "
        "grade. `trec`: qrels. `parquet`: everything, with intervals and unknown documents.",
        "parquet",
    )
    query_texts: Path | None = option(
        "FILE", "The texts of queries, CSV or Parquet with query_id and query_text, for tools that search by text."
    )
    name: str = option("TEXT", "The name of the list of judgements in the Workbench.", "judgements from clicks")

    def run(self) -> None:
        """Judge, and write the judgements for a tool."""
        from cldrank.judgements import judge_documents, write_judgements

        asked, wanted = self._judging(), self._delivery()
        others = options.named(self.query_texts, self.ratings)
        options.check_outputs([self.out], [*self.clicks, *(self.features or []), *others])
        table = self._read()
        curve: Any = self.curve_for(table)  # never None: the option must be given
        with working("judging …"):
            judged = judge_documents(table, curve, **asked)
        write_judgements(judged, self.out, **wanted)
        if self.as_json:
            known = int(judged.known.sum())
            unknown = len(judged) - known
            counts: dict[str, Any] = {"path": str(self.out), "format": self.to, "written": known, "unknown": unknown}
            if self.ratings is not None:
                counts["ratings"] = [agreement.as_dict() for agreement in judged.agreements]
            print_json({**counts, "grades": _by_grade(judged), "thresholds": judged.thresholds})
            return
        if table.ratings is not None:
            for agreement in judged.agreements:
                print_line(f"{agreement}.")
            say(f"{table.ratings.account}.")
        self._print(judged)
        if self.to in ("workbench", "quepid") and self.query_texts is None:
            say(_BY_ID)
        if not self.features:
            say("without --features, the documents are those of the log, and none is unknown.")

    def _judging(self) -> dict[str, Any]:
        """The arguments of `judge_documents`, checked before anything is read."""
        from cldrank.arguments import check_choice, check_number
        from cldrank.judgements.document_judgements import checked_grades
        from cldrank.propensity.curve_checks import EnvelopeUse

        check_choice("envelope", self.envelope, get_args(EnvelopeUse))
        return {
            "grades": checked_grades(_numbers(self.grades)),
            "confidence": check_number("confidence", self.confidence, above=0, below=1),
            "envelope": self.envelope,
            "seed": self.seed,
        }

    def _delivery(self) -> dict[str, Any]:
        """The arguments of `write_judgements`, checked before anything is judged."""
        from cldrank.judgements import check_delivery, read_query_texts

        texts = None if self.query_texts is None else read_query_texts(self.query_texts)
        wanted: dict[str, Any] = {"to": self.to, "query_texts": texts}
        check_delivery(**wanted)
        return {**wanted, "name": self.name}

    def _read(self) -> ClickTable:
        """The clicks, on all candidates if --features names them."""
        if not self.features:
            return self.clicks_on(None)
        return self.clicks_on(replace(self, missing=self.missing or "keep").load(self.features))

    def _print(self, judged: Judgements) -> None:
        ends, rows = (0.0, *judged.thresholds, 1.0), []
        for grade, n_rows in _by_grade(judged).items():
            share = f"{judged.one_grade[judged.grade == grade].mean():.0%}" if n_rows else "–"
            rows.append((grade, f"{ends[grade]:g} … {ends[grade + 1]:g}", f"{n_rows:,}", share))
        print_table("", ("grade", "relevance", "judgements", "within one grade"), rows)
        print_line(f"{self.out}: {judged.summary()}.")


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"--grades {text!r} are not numbers separated by commas, such as 0.05,0.2,0.5.") from None


def _by_grade(judged: Judgements) -> dict[int, int]:
    return {grade: int((judged.grade == grade).sum()) for grade in range(len(judged.thresholds) + 1)}
