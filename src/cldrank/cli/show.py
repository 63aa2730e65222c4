"""`cldrank show`: the content of a file or folder of any kind."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.output import console, print_json, print_line, print_table, print_title, say
from cldrank.errors import UsageError
from cldrank.files import recover_folder
from cldrank.wording import listed, some

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import AffineClicks, Propensities

_KINDS = {"cells": "holds cells", "curves": "holds propensities", "data": "holds candidates", "ranker": "is a ranker"}
_OTHERS = {  # folders by an entry, files by their ending
    "record.json": "is the run of a pipeline; see `cldrank pipeline show {}`",
    "steps": "holds the runs of a pipeline; see `cldrank pipeline show`",
    "shipped.json": "is what a pipeline shipped; see `cldrank show {}/ranker`",
    "export.json": "is a ranker as `cldrank export` wrote it for an engine; show the ranker that it was made of",
    ".toml": "is the file of a pipeline or of an experiment; see `cldrank pipeline show {}`",
    ".html": "is a page; open it in a browser",
    ".jsonl": "looks like a click log; see `cldrank clicks audit {}`",
}


@declared
class ShowCommand(options.Reading, options.Window, options.JsonOutput):
    """Show what a file holds: candidates with features, cells of clicks, propensities, or a ranker.

    Example: `cldrank show train.txt`, `cldrank show cells.parquet`, `cldrank show ranker/`

    Several files of propensities, and all segments, go into one chart.

    Example: `cldrank show rho.json cells.parquet.json --plot both.svg`
    """

    paths: list[str] = argument("PATH", "Files, folders or patterns, or a known data set such as `mq2008:train`.")
    plot: Path | None = option("FILE", "Propensities: draw the curves into this SVG file.")

    def run(self) -> None:
        """Recognise files and folders by their content, and show it."""
        kind = self._kind()
        options.check_outputs([self.plot], self.paths)
        if self.plot and kind != "curves" and Path(self.paths[0]).exists():
            raise UsageError(f"{some(self.paths)} {_KINDS[kind]}; --plot draws propensities.")
        if self.window() and kind != "cells":
            raise UsageError(f"{some(self.paths)} {_KINDS[kind]}; --last and --until choose days of cells.")
        if kind in ("cells", "ranker") and len(self.paths) > 1:
            raise UsageError(f"{listed(self.paths[:2])} are shown one at a time.")
        facts = getattr(self, f"_show_{kind}")()
        if self.as_json:
            print_json({"kind": kind, **facts})

    def _kind(self) -> str:
        from cldrank.clicks.cells_file import is_cells
        from cldrank.clicks.days import DayFolder

        path = Path(self.paths[0])
        recover_folder(path)
        if (path / "ranker.json").is_file():
            return "ranker"
        if is_cells(path) or DayFolder.is_one(path):
            return "cells"
        entries = {entry.name for entry in path.iterdir()} if path.is_dir() else {path.suffix}
        other = next((about for mark, about in _OTHERS.items() if mark in entries), None)
        if other:
            raise UsageError(f"{path} {other.format(path)}.")
        return "curves" if path.suffix == ".json" else "data"

    def _show_data(self) -> dict[str, Any]:
        dataset = self.load(self.paths)
        summary = data_summary(dataset)
        if not self.as_json:
            print_line(repr(dataset))
            print_line(f"features: {some(dataset.feature_names)}")
            for name in ("candidates", "labels", "constant_features", "missing"):
                print_line(f"{name.replace('_', ' ')}: {_in_words(summary[name])}")
        return summary

    def _show_cells(self) -> dict[str, Any]:
        from cldrank.clicks.table import ClickTable

        table = ClickTable.read(self.paths[0], **self.window())
        summary = cells_summary(table)
        if self.as_json:
            return {"path": self.paths[0], **summary}
        print_line(repr(table))
        contexts = "not known" if table.contexts is None else f"{len(table.contexts):,}"
        print_line(f"contexts (cells by the last click above): {contexts}")
        for name, part in summary.get("segments", {"": summary}).items():
            print_positions(name, part["positions"])
        return summary

    def _show_curves(self) -> dict[str, Any]:
        from cldrank.documents import render_terminal
        from cldrank.propensity.affine_clicks import curve_of
        from cldrank.propensity.curve_document import curve_document, save_chart

        curves = {name: curve for file in self.paths for name, curve in self._named_curves(file).items()}
        if self.plot:
            save_chart({name: curve_of(curve) for name, curve in curves.items()}, self.plot)
        if self.as_json:
            return {"curves": {name: curve_facts(curve) for name, curve in curves.items()}}
        for name, curve in curves.items():
            print_title(name)
            render_terminal(curve_document(curve), console)
        if self.plot:
            print_line(f"wrote {self.plot}")
        return {}

    def _named_curves(self, file: str) -> dict[str, Propensities | AffineClicks]:
        """The curve of a file, or those of its segments, which have names of their own if it is the only file."""
        from cldrank.propensity import SegmentPropensities
        from cldrank.propensity.curve_files import load_curve

        curve = load_curve(file)
        if isinstance(curve, SegmentPropensities):
            return {name if len(self.paths) == 1 else f"{file}, {name}": rho for name, rho in curve.items()}
        return {file: curve}

    def _show_ranker(self) -> dict[str, Any]:
        from cldrank.rankers import load_ranker

        ranker = load_ranker(self.paths[0])
        if not self.as_json:
            print_line(f"{ranker!r}")
            print_line(f"features: {some(ranker.feature_names)}")
            print_line(f"trained by: {ranker.provenance.command or 'not known'}")
            say(f"{Path(self.paths[0]) / 'README.md'} says more.")
        return {"features": list(ranker.feature_names), "provenance": ranker.provenance.as_dict()}


# -- facts of each kind --------------------------------------------------------------------------------------------


def _in_words(values: dict[str, float] | list[str]) -> str:
    words = values if isinstance(values, list) else [f"{name} {value:g}" for name, value in values.items()]
    return some(words) or "none"


def data_summary(dataset: RankingDataset) -> dict[str, Any]:
    """A summary of candidates, for programs."""
    import numpy as np

    labels: dict[str, float] = {}
    if dataset.labels is not None:
        values, counts = np.unique(dataset.labels, return_counts=True)
        labels = {f"{value:g}": count / dataset.n_rows for value, count in zip(values, counts, strict=True)}
    low, high = (np.full(dataset.n_features, np.nan) for _ in range(2))  # missing values aside
    missing = np.zeros(dataset.n_features, dtype=np.int64)
    for part in dataset.blocks():
        low, high = np.fmin(low, np.fmin.reduce(part.features)), np.fmax(high, np.fmax.reduce(part.features))
        missing += np.isnan(part.features).sum(axis=0) if dataset.has_missing else 0
    shares = missing / dataset.n_rows
    return {
        "name": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "candidates": {
            "least": int(dataset.sizes.min()),
            "median": float(np.median(dataset.sizes)),
            "most": int(dataset.sizes.max()),
        },
        "labels": labels,
        "constant_features": [name for name, flat in zip(dataset.feature_names, low == high, strict=True) if flat],
        "missing": {name: float(share) for name, share in zip(dataset.feature_names, shares, strict=True) if share},
        "document_ids": dataset.doc_ids is not None,
        "regrouped": dataset.source_rows is not None,
    }


def cells_summary(table: ClickTable) -> dict[str, Any]:
    """Counts in all, by position, and by segment where there are any, for programs."""
    summary: dict[str, Any] = {
        "queries": table.n_queries,
        "queries_shown": int((table.query_impressions > 0).sum()),
        "candidates": table.candidates.n_rows,
        "candidates_shown": int(table.shown.sum()),
        **cells_totals(table),
        "contexts": None if table.contexts is None else len(table.contexts),
        "sources": [source.name for source in table.sources],
        "positions": positions_of(table),
    }
    if table.has_segments:
        summary["segments"] = {
            name: {"pages": int(part.query_impressions.sum()), **cells_totals(part), "positions": positions_of(part)}
            for name, part in table.by_segment().items()
        }
    return summary


def cells_totals(table: ClickTable) -> dict[str, int]:
    """The numbers of cells, impressions and clicks."""
    counts = {"impressions": table.impressions, "clicks": table.clicks, **table.events}
    return {"cells": table.n_cells, **{name: int(values.sum()) for name, values in counts.items()}}


def print_positions(title: str, positions: list[dict[str, Any]]) -> None:
    """A table of what `positions_of` counts."""
    rows = [
        (at["position"], f"{at['impressions']:,}", f"{at['clicks']:,}", f"{at['click_rate']:.4f}") for at in positions
    ]
    print_table(title, ("position", "impressions", "clicks", "click rate"), rows)


def positions_of(table: ClickTable) -> list[dict[str, Any]]:
    """Impressions, clicks and click rate of each position that was shown, for programs."""
    import numpy as np

    counts = (np.bincount(table.position, values) for values in (table.impressions, table.clicks))
    return [
        {"position": position, "impressions": int(shown), "clicks": int(clicked), "click_rate": clicked / shown}
        for position, (shown, clicked) in enumerate(zip(*counts, strict=True))
        if shown
    ]


def curve_facts(curve: Propensities | AffineClicks) -> dict[str, Any]:
    """All about a curve, for programs: positions with intervals, the fit, the notes."""
    from cldrank.propensity import AffineClicks

    checks: dict[str, Any] = {}
    columns: dict[str, Any]
    if isinstance(curve, AffineClicks):
        columns = {"slope": curve.slope, "base": curve.base}
        for name in ("slope", "base") if curve.confidence is not None else ():
            columns[f"{name}_low"], columns[f"{name}_high"] = curve.interval(name)
    else:
        columns = {"examined": curve.values, **{name: getattr(curve, name) for name in ("low", "high")}}
        checks = {"goodness": curve.goodness and asdict(curve.goodness)}
    known = {name: column for name, column in columns.items() if column is not None}
    positions = [
        {"position": at + 1, **{name: float(column[at]) for name, column in known.items()}} for at in range(len(curve))
    ]
    described = {"origin": curve.origin, "confidence": curve.confidence, "positions": positions}
    return {**described, **checks, "notes": list(curve.notes)}
