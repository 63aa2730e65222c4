"""`cldrank online`: pages for small experiments, from files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.online_analysis import OnlineAnalyseCommand
from cldrank.cli.output import check_parquet_name, print_json, print_line, save_table, working
from cldrank.errors import UsageError
from cldrank.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cldrank.data.dataset import RankingDataset
    from cldrank.online import VariedPage

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


app = group_of(
    """Small experiments that settle what a log cannot: interleaved pages, swaps, trials; and what they show.""",
    OnlineInterleaveCommand,
    OnlineSwapCommand,
    OnlineExploreCommand,
    OnlineAnalyseCommand,
)
