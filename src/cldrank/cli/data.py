"""`cldrank data`: convert, make and fetch ranking data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.output import (
    check_parquet_name,
    console,
    print_json,
    print_line,
    print_table,
    progress_bar,
    say,
    working,
)
from cldrank.cli.show import data_summary

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset


@declared
class ListCommand(options.JsonOutput):
    """List the public data sets that cldrank knows, and which of them are on this machine; or describe one.

    Example: `cldrank data list msrd`
    """

    name: str | None = argument("NAME", "A set to describe: shape, licence, how to get it.", None)

    def run(self) -> None:
        """Print a table of all, or the description of one."""
        from cldrank import catalogue

        if self.name is not None:
            source = catalogue.get(self.name)
            if self.as_json:
                print_json(source.as_dict())
            else:
                console.print(source.describe(), markup=False)
            return
        sources = [catalogue.get(key) for key in catalogue.names()]
        if self.as_json:
            print_json([source.as_dict() for source in sources])
            return
        rows = []
        for source in sources:
            counts = (source.shape.queries, source.shape.rows, source.shape.features)
            shown = ["–" if count is None else f"{count:,}" for count in counts]
            way = "tools/prepare.py" if source.prepared else "by hand" if source.gated else "fetch"
            rows.append((source.key, *shown, way, "yes" if source.find() else "no"))
        print_table("", ("name", "queries", "rows", "features", "how to get it", "here"), rows)
        console.print("`cldrank data list NAME` describes one and says how to get it.", style="dim")


@declared
class FetchCommand(options.JsonOutput):
    """Download a data set, verify it and unpack it. If that needs a login, or a tool, print what to do instead.

    Example: `cldrank data fetch istella-s --accept-licence`, after which every command knows `istella-s:train`.
    """

    name: str = argument("NAME", "The set.")
    accept_licence: bool = option("", "Confirm that you have read the licence and accept it.", False)
    force: bool = option("", "Download it again even if it is present.", False)

    def run(self) -> None:
        """Download what is not there."""
        from cldrank import catalogue
        from cldrank.catalogue import download

        source = catalogue.get(self.name)
        tasks: dict[str, Any] = {}
        with progress_bar(of_bytes=True) as bar:

            def report(file: str, done: int, total: int) -> None:
                if file not in tasks:
                    tasks[file] = bar.add_task(file)
                bar.update(tasks[file], completed=done, total=total)

            fetched = download.fetch(source, accept_licence=self.accept_licence, force=self.force, progress=report)
        if self.as_json:
            print_json({"name": source.key, "folder": str(fetched.folder), "fresh": fetched.fresh})
            return
        print_line(f"{source.key} is {'now' if fetched.fresh else 'already'} in {fetched.folder}")
        say(f"Licence: {source.licence} ({source.homepage}). Cite: {source.citation}")


@declared
class ConvertCommand(options.Layout, options.JsonOutput):
    """Convert LETOR/SVMlight text, CSV, or Parquet of another layout, to Parquet.

    Example: `cldrank data convert train.txt.gz --out train.parquet`
    """

    source: list[str] = argument("FILE", "What to read.")
    out: Path = option("-o FILE", "The Parquet file to write.", ...)
    as_list: bool = option("--list", "One list column `features` instead of one column per feature.", False)

    def run(self) -> None:
        """Read, and write a Parquet file."""
        from cldrank.data.table_rows import save_parquet

        check_parquet_name(self.out)
        options.check_outputs([self.out], self.source)
        dataset = self.load(self.source)
        with working(f"writing {self.out} …"):
            save_parquet(dataset.blocks(), self.out, features="list" if self.as_list else "columns")
        if self.as_json:
            print_json({"out": str(self.out), **data_summary(dataset)})
        else:
            print_line(f"wrote {self.out}: {dataset!r}")


@declared
class MakeCommand(options.JsonOutput):
    """Make a synthetic data set in the shape of a published one. Its results are always labelled synthetic.

    Blocks stream to disk, so the set may be larger than memory. Example: `cldrank data make web10k-like -n 500`
    """

    kind: str = argument("KIND", "`web10k-like` or `yahoo-like`.")
    n_queries: int = option("-n COUNT", "How many queries.", 1000, min=1)
    skip: int = option("COUNT", "Leave out as many queries, to test on others than the same seed trains.", 0, min=0)
    seed: int = option("INTEGER", "The same seed gives the same result.", 0, min=0)
    out: Path | None = option(
        "-o FILE", "The Parquet file to write; by default KIND-QUERIES-SEED[-skipN].parquet here."
    )

    def run(self) -> None:
        """Write block after block."""
        from cldrank.data import synthetic
        from cldrank.data.table_rows import save_parquet

        skipped = f"-skip{self.skip}" if self.skip else ""
        target = self.out or Path(f"{self.kind}-{self.n_queries}-{self.seed}{skipped}.parquet")
        check_parquet_name(target)
        options.check_outputs([target], [])
        blocks = synthetic.generate(self.kind, self.n_queries, self.seed, skip=self.skip)
        with progress_bar() as bar:
            task = bar.add_task(f"making {self.kind}", total=self.n_queries)

            def counted() -> Iterator[RankingDataset]:
                for block in blocks:
                    yield block
                    bar.advance(task, len(block))

            rows = save_parquet(counted(), target)
        if self.as_json:
            facts = {"queries": self.n_queries, "skip": self.skip, "rows": rows, "seed": self.seed}
            print_json({"out": str(target), "kind": self.kind, "synthetic": True, **facts})
        else:
            print_line(f"wrote {target}: {self.n_queries:,} queries, {rows:,} rows, synthetic")


@declared
class CacheCommand(options.JsonOutput):
    """Show how much the cache of loaded files takes, or clear it."""

    clear: bool = option("", "Remove all of it. Downloaded data sets stay.", False)

    def run(self) -> None:
        """Clear the cache if asked for; say what it takes."""
        from cldrank.catalogue import cache_folder
        from cldrank.data import store

        removed = store.clear() if self.clear else 0
        entries, size = store.usage()
        if self.as_json:
            print_json({"folder": str(cache_folder()), "entries": entries, "bytes": size, "removed": removed})
        else:
            cleared = f"removed {removed}; " if self.clear else ""
            print_line(f"{cache_folder()}: {cleared}{entries} cached loads, {size / 2**20:,.1f} MiB")


app = group_of(
    "Convert, make and fetch ranking data.", ListCommand, FetchCommand, ConvertCommand, MakeCommand, CacheCommand
)
