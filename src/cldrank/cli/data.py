"""`cldrank data`: convert, make and fetch ranking data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.output import check_parquet_name, console, print_json, print_line, print_table, say, working
from cldrank.cli.show import data_summary

if TYPE_CHECKING:
    from cldrank.catalogue import DataSource


@declared
class ListCommand(options.JsonOutput):
    """List the public data sets that cldrank knows, and which of them are on this machine; or describe a set.

    Example: `cldrank data list msrd`
    """

    name: str | None = argument("NAME", "A set to describe: shape, licence, how to get it.", None)

    def run(self) -> None:
        """Print a table of all sets, or the description of the named set."""
        from cldrank import catalogue

        sources = [catalogue.get(name) for name in ([self.name] if self.name else catalogue.names())]
        if self.as_json:
            described = [{**asdict(source), "folder": str(source.find() or "") or None} for source in sources]
            print_json(described[0] if self.name else described)
        elif self.name:
            console.print(_described(sources[0]), markup=False)
        else:
            ways = ["tools/prepare.py" if own.prepared else "by hand" if own.gated else "fetch" for own in sources]
            rows = [
                (source.key, source.size, way, "yes" if source.find() else "no")
                for source, way in zip(sources, ways, strict=True)
            ]
            print_table("", ("name", "size", "how to get it", "here"), rows)
            console.print("`cldrank data list NAME` describes a set and says how to get it.", style="dim")


def _described(source: DataSource) -> str:
    """All about a set, for people."""
    facts = {
        "size": source.size or "not counted here",
        "splits": ", ".join(source.splits) + (f" of {', '.join(source.folds)}" if source.folds else ""),
        "licence": source.licence,
        "cite": source.citation,
        "official": source.homepage,
        "present": source.find() or "no",
    }
    lines = [f"{source.key}: {source.title}", source.summary, ""]
    lines += [f"{name:<10} {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", "How to get it:", source.steps])


@declared
class FetchCommand(options.JsonOutput):
    """Download a data set, verify it and unpack it. If that needs a login or a tool, say what to do instead.

    Example: `cldrank data fetch istella-s --accept-licence`, after which every command knows `istella-s:train`.
    """

    name: str = argument("NAME", "The set.")
    accept_licence: bool = option("", "Confirm that you have read the licence and accept it.", False)

    def run(self) -> None:
        """Download the set unless it is there."""
        from cldrank import catalogue

        source = catalogue.get(self.name)
        size = sum(file.size for file in source.downloads)
        with working(f"fetching {source.key} ({size / 1e6:,.0f} MB) …"):
            folder = catalogue.fetch(source, accept_licence=self.accept_licence)
        if self.as_json:
            print_json({"name": source.key, "folder": str(folder)})
            return
        print_line(f"{source.key} is in {folder}")
        say(f"Licence: {source.licence} ({source.homepage}). Cite: {source.citation}")


@declared
class ConvertCommand(options.Layout, options.JsonOutput):
    """Convert LETOR/SVMlight text, CSV, or Parquet of another layout, to Parquet.

    Example: `cldrank data convert train.txt.gz --out train.parquet`
    """

    source: list[str] = argument("FILE", "What to read.")
    out: Path = option("-o FILE", "The Parquet file to write.", ...)

    def run(self) -> None:
        """Read, and write a Parquet file."""
        from cldrank.data.table_rows import save_parquet

        check_parquet_name(self.out)
        options.check_outputs([self.out], self.source)
        dataset = self.load(self.source)
        with working(f"writing {self.out} …"):
            save_parquet(dataset.blocks(), self.out)
        if self.as_json:
            print_json({"out": str(self.out), **data_summary(dataset)})
        else:
            print_line(f"wrote {self.out}: {dataset!r}")


@declared
class MakeCommand(options.JsonOutput):
    """Make a synthetic data set in the shape of a published set. Its results are always labelled synthetic.

    Blocks stream to disk, so the set may be larger than memory. Example: `cldrank data make web10k-like -n 500`
    """

    kind: str = argument("KIND", "`web10k-like` or `yahoo-like`.")
    n_queries: int = option("-n COUNT", "How many queries.", 1000, min=1)
    skip: int = option("COUNT", "Skip this many queries, to test on others than the same seed trains on.", 0, min=0)
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
        with working(f"making {target} …"):
            rows = save_parquet(synthetic.generate(self.kind, self.n_queries, self.seed, skip=self.skip), target)
        if self.as_json:
            facts = {"queries": self.n_queries, "skip": self.skip, "rows": rows, "seed": self.seed}
            print_json({"out": str(target), "kind": self.kind, "synthetic": True, **facts})
        else:
            print_line(f"wrote {target}: {self.n_queries:,} queries, {rows:,} rows, synthetic")


app = group_of("Convert, make and fetch ranking data.", ListCommand, FetchCommand, ConvertCommand, MakeCommand)
