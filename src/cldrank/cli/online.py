"""`cldrank online`: pages for small experiments, from files, and the verdict of an experiment."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cldrank.cli import options
from cldrank.cli.clicks import RawLogReading
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.compare import tell_verdict
from cldrank.cli.option_names import columns_by
from cldrank.cli.options import of_reading
from cldrank.cli.output import check_parquet_name, print_json, print_line, save_table, working
from cldrank.errors import UsageError
from cldrank.wording import count, some

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cldrank.data.dataset import RankingDataset
    from cldrank.online import VariedPage

_DEEPEST = 1_000  # ranks that an assumed curve gives a worth
_RANKED_BY = "The folder of a saved ranker, a file of scores, or `column:NAME`, a feature to rank by."


@declared
class PageDrawing(options.Reading, options.JsonOutput):
    """What commands that draw pages share."""

    features: list[str] = option("-f FILE", f"{options.CANDIDATES} Repeat it for several.", ...)
    out: Path = option("-o FILE", "The Parquet file to write: a row per result, with what a log must keep.", ...)
    depth: int = option("-k COUNT", "How many results a page shows.", 10, min=1)
    pages: int = option("COUNT", "How many pages of each query are drawn, numbered in the column `variant`.", 1, min=1)
    experiment: str = option("NAME", "The name of the experiment; with another, other pages are drawn.", "experiment")

    def read(self, *rankers: str, also: list[str] | None = None) -> tuple[RankingDataset, list[NDArray[Any]]]:
        """The candidates, and their scores by each ranker."""
        check_parquet_name(self.out)
        for named in rankers:
            if not named.startswith("column:") and not Path(named).exists():
                raise UsageError(f"{named}: no such file or folder; name a ranker, a file of scores, or column:NAME.")
        files = [named for named in rankers if not named.startswith("column:")]
        options.check_outputs([self.out], [*self.features, *files, *(also or [])])
        for named in files:
            options.check_outside(self.out, Path(named))
        dataset = self.load(self.features)
        return dataset, [options.ranked_by(named, dataset)[0] for named in rankers]

    def keys(self, dataset: RankingDataset) -> list[tuple[str, str, int]]:
        """What each page is drawn from, query after query."""
        return [
            (self.experiment, str(query), variant)
            for query in dataset.query_ids.tolist()
            for variant in range(1, self.pages + 1)
        ]

    def write(self, dataset: RankingDataset, page: NDArray[Any], rows: NDArray[Any], columns: dict[str, Any]) -> None:
        """Save a row per result, in the order of pages, and say so; `columns` follow those that all pages have."""
        import numpy as np
        import pyarrow as pa

        from cldrank.clicks.candidates import Candidates

        candidates = Candidates.of(dataset)
        starts = np.flatnonzero(np.diff(page, prepend=-1))
        place = np.arange(len(page)) - np.repeat(starts, np.diff([*starts, len(page)]))
        shared = {
            "query_id": candidates.query_ids[page // self.pages],
            "variant": page % self.pages + 1,
            "doc_id": candidates.doc_ids[rows],
            "position": place + 1,
        }
        experiment = pa.repeat(self.experiment, len(page))
        save_table(pa.table({**shared, **columns, "experiment": experiment}), self.out)
        pages = dataset.n_queries * self.pages
        if self.as_json:
            print_json({"path": str(self.out), "queries": dataset.n_queries, "pages": pages, "results": len(page)})
        else:
            print_line(f"{self.out}: {count(pages, 'page')} of {count(dataset.n_queries, 'query', 'queries')}.")

    def write_varied(self, dataset: RankingDataset, scores: NDArray[Any], draw: Callable[..., VariedPage]) -> None:
        """Draw pages of production's order with `draw(query, rows, key)`, and save them."""
        import numpy as np

        from cldrank import segments

        order = segments.descending_order(scores, dataset.offsets)
        ends = pairwise(dataset.offsets.tolist())
        tops = [order[start : min(start + self.depth, end)].tolist() for start, end in ends]
        keys = enumerate(self.keys(dataset))
        drawn = [draw(page // self.pages, tops[page // self.pages], key) for page, key in keys]
        lengths = [len(page.ids) for page in drawn]
        columns = {
            "propensity": np.array([chance for page in drawn for chance in page.propensities]),
            "ranker_id": np.repeat([page.layout for page in drawn], lengths),
        }
        rows = np.array([row for page in drawn for row in page.ids], dtype=np.int64)
        self.write(dataset, np.repeat(np.arange(len(drawn)), lengths), rows, columns)


@declared
class OnlineInterleaveCommand(PageDrawing):
    """Draw pages that two rankers make together by team draft, with the team and both ranks of each result.

    Example: `cldrank online interleave new/ old/ --features candidates.parquet --out pages.parquet`
    """

    new: str = argument("NEW", f"The new ranker. {_RANKED_BY}")
    old: str = argument("OLD", "The ranker in use, likewise.")

    def run(self) -> None:
        """Draw and write."""
        import numpy as np
        import pyarrow as pa

        from cldrank.online import interleave_pages
        from cldrank.online.interleaving import TEAMS

        dataset, (new, old) = self.read(self.new, self.old)
        with working("drawing pages …"):
            queries = np.repeat(np.arange(dataset.n_queries), self.pages)
            pages = interleave_pages(new, old, dataset.offsets, self.depth, self.keys(dataset), queries)
            shown = pages.rows >= 0
        teams = pa.DictionaryArray.from_arrays(pa.array(pages.team[shown]), pa.array(TEAMS))
        ranks = {"new_rank": pages.new_rank[shown], "old_rank": pages.old_rank[shown]}
        self.write(dataset, np.nonzero(shown)[0], pages.rows[shown], {"team": teams, **ranks})


@declared
class OnlineSwapCommand(PageDrawing):
    """Draw pages of one ranker on a share of which two neighbours are swapped, with the display probabilities.

    The log of such pages shows examination probabilities (`cldrank propensity estimate --method all-pairs`).

    Example: `cldrank online swap ranker/ --features candidates.parquet --share 0.2 --pages 100 --out pages.parquet`
    """

    ranker: str = argument("RANKER", _RANKED_BY)
    share: float = option("NUMBER", "The share of pages with a swap.", 0.5, min=0, max=1)

    def run(self) -> None:
        """Draw and write."""
        from cldrank.online import swap

        dataset, (scores,) = self.read(self.ranker)
        self.write_varied(dataset, scores, lambda _, rows, key: swap(rows, self.share, key))


@declared
class OnlineExploreCommand(PageDrawing, options.LogReading):
    """Draw pages of one ranker on a share of which a candidate is tried that the log never showed.

    Example: `cldrank online explore ranker/ -f candidates.parquet -c log/ --share 0.1 --pages 100 --out pages.parquet`
    """

    ranker: str = argument("RANKER", _RANKED_BY)
    clicks: list[str] = option("-c FILE", "What was shown: a file of cells, a folder of days, or raw logs.", ...)
    share: float = option("NUMBER", "The share of pages with a trial.", 0.1, min=0, max=1)

    def run(self) -> None:
        """Draw and write."""
        import numpy as np

        from cldrank.clicks.table import ClickTable
        from cldrank.online import explore

        dataset, (scores,) = self.read(self.ranker, also=self.clicks)
        with working("reading clicks …"):
            named: Any = self.clicks[0] if len(self.clicks) == 1 else self.clicks
            cells = ClickTable.read(named, dataset, **self.log_arguments())
        was_shown = np.zeros(dataset.n_rows, dtype=np.bool_)
        was_shown[cells.row[cells.impressions > 0]] = True

        def draw(query: int, rows: list[int], key: Any) -> VariedPage:
            first, last = dataset.offsets[query : query + 2]
            never = np.setdiff1d(first + np.flatnonzero(~was_shown[first:last]), rows, assume_unique=True)
            return explore(rows, never.tolist(), self.share, key)

        self.write_varied(dataset, scores, draw)


# -- what they show --------------------------------------------------------------------------------------------------


@declared
class OnlineAnalyseCommand(RawLogReading, options.JsonOutput):
    """Judge an experiment by its log: interleaved pages, or an A/B test.

    The log is one that `cldrank clicks aggregate` reads, with one more column: `team` of each result (`new`, `old` or
    `both`), or `arm` of each page (`new` or `old`); perhaps `user_id`, `timestamp`, `experiment`, and `new_rank` and
    `old_rank` of each result. The verdict holds at every look: look each day, and stop when you like. It exits as
    `cldrank compare` does: 0 if the new ranker is better, 3 if it is worse, 4 if there is no difference, 5 if it cannot
    tell.

    Example: `cldrank online analyse experiment/ --html experiment.html`
    """

    kind: Literal["interleaving", "ab"] | None = option(
        "interleaving|ab", "What the experiment was. [default: as the column `team` or `arm` has it]"
    )
    measure: str | None = option(
        "-m MEASURE",
        "What decides: `team credit` or `counterfactual credit`; `clicks`, `clicks@3` or `abandonment` per page; with "
        "`--event-weight` also `value` or `value@3`. "
        "[default: the first]",
    )
    margin: float | None = option(
        "DIFFERENCE", "The smallest difference that matters, per page. [default: 1% of the old value]"
    )
    confidence: float = option("NUMBER", "The confidence level of the intervals, all looks together.", 0.95)
    planned: float = option(
        "PAGES", "How many pages you plan, before you look: there, intervals are shortest.", 10_000.0, above=0
    )
    names: str = option("NEW,OLD", "What the log calls the new side and the old.", "new,old")
    shares: str = option("NEW,OLD", "A/B: the shares of persons that the arms were to have.", "0.5,0.5")
    experiment: str | None = option("NAME", "Which experiment to read, where the log has several.")
    before: list[str] | None = option("LOG", "A/B: the log of a period before, for shorter intervals (CUPED).")
    new_scores: Path | None = option(
        "FILE", "Interleaving: all candidates' scores by the new ranker, where ranks are not logged."
    )
    old_scores: Path | None = option("FILE", "The same by the old ranker.")
    propensity: str | None = option(
        "-p power:ETA|FILE",
        "Counterfactual credit: a click is worth the examination probability of its rank. "
        "[default: 1 / log2(1 + rank)]",
    )
    max_rejected: float = option("NUMBER", "Fail if more rows, or pages, must be set aside.", 0.05, min=0, max=1)
    html: Path | None = option("FILE", "Write the verdict as a page that needs no other files.")
    memory_limit: str = of_reading("SIZE", "Spill to disk beyond this.", "1500MB")

    def run(self) -> None:
        """Print the verdict; the exit code says it, too."""
        from cldrank.online import analyse

        options.check_outputs([self.html], [*self.log, *(self.before or [])])
        arguments = self._arguments()
        with working(f"analysing {some(self.log)} …"), columns_by("--log-column"):
            result = analyse(self.log, **arguments)
        tell_verdict(result, result.verdict, html=self.html, as_json=self.as_json)

    def _arguments(self) -> dict[str, Any]:
        """The arguments of `analyse`."""
        given = ("kind", "measure", "margin", "confidence", "planned", "experiment", "before", "max_rejected")
        if (self.new_scores is None) != (self.old_scores is None):
            raise UsageError("name the scores of both rankers: --new-scores and --old-scores.")
        scores = {} if self.new_scores is None else {"rankings": (self.new_scores, self.old_scores)}
        curve = {} if self.propensity is None else {"propensities": _curve(self.propensity)}
        sides = {"names": _two("names", self.names), "shares": tuple(map(_number, _two("shares", self.shares)))}
        return {**self.log_arguments(), **{name: getattr(self, name) for name in given}, **sides, **scores, **curve}


def _two(name: str, text: str) -> tuple[str, str]:
    """The values of the new and of the old side."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"`{name}` must be two, of the new side and of the old, separated by a comma, not {text!r}.")
    return parts[0], parts[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"`shares` must be two numbers, not {text!r}.") from None


def _curve(text: str) -> Any:
    """The examination probabilities that are named, or in a file."""
    from cldrank.propensity import Propensities
    from cldrank.propensity.curve_files import load_curve

    return Propensities.parse(text, _DEEPEST) if text.startswith("power:") else load_curve(Path(text))


app = group_of(
    """Small experiments that settle what a log cannot: interleaved pages, swaps, trials; and what they show.""",
    OnlineInterleaveCommand,
    OnlineSwapCommand,
    OnlineExploreCommand,
    OnlineAnalyseCommand,
)
