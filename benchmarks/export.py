"""Which format can express which ranker, and how near its engine comes: the table of docs/reference/export.md.

    CLDRANK_DATA=… python benchmarks/export.py [--data msrd mq2008] [--format solr json] [--kind 'linear*']

On each data set one small ranker of each kind learns from labels (MSRD, MQ2008 fold 1, the sample of WEB10K). Each is
written in every format and replayed on the test features, at most `--rows` of them. Prints one JSON line a cell, and
the table in Markdown at the end.

    outcome    exact, refused or approximate; what is refused is asked for again with `approximate`; skipped where a
               package that the format needs is not installed
    largest    the largest difference of scores, `scale` the largest score
    swapped    pairs of candidates that the engine puts in opposite order, of `pairs`
    tied       pairs that only one of the two ties: float32 has fewer scores

A cell whose outcome is exact must be within 1e-4 of the largest score, as `cldrank export` demands; otherwise the last
line says so, and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import numpy as np

import cldrank as cr
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, MissingDependencyError
from cldrank.export import ExportFormat, ExportRequest, Parity, export_formats
from cldrank.export.format import InexpressibleError
from cldrank.export.replay import NamedTable
from cldrank.methods import Oracle
from cldrank.models import MLP, Linear, Run, Trees
from cldrank.rankers import Ranker
from cldrank.scaling import MinMax, SignedLog, Standard

TOLERANCE = 1e-4
SETS = {"msrd": "msrd", "mq2008": "mq2008:fold1", "web10k-sample": "web10k-sample"}
LABELS = {"msrd": "MSRD", "mq2008": "MQ2008", "web10k-sample": "WEB10K sample"}
CLIPPED, UNCLIPPED = Standard(clip=5.0), Standard(clip=None)
GAPS = 0.1  # the share of values that is missing where some are

KINDS: dict[str, Callable[[], Any]] = {
    "linear, unscaled": lambda: Linear(scaling=None),
    "linear, standard, clip 5": lambda: Linear(scaling=CLIPPED),
    "linear, standard, no clip": lambda: Linear(scaling=UNCLIPPED),
    "linear, minmax, clipped": lambda: Linear(scaling=MinMax()),
    "linear, minmax, no clip": lambda: Linear(scaling=MinMax(clip=False)),
    "linear, log, clip 5": lambda: Linear(scaling=SignedLog(clip=5.0)),
    "network, ELU, clip 5": lambda: MLP(activation="elu", scaling=CLIPPED, epochs=1),
    "network, ReLU, clip 5": lambda: MLP(activation="relu", scaling=CLIPPED, epochs=1),
    "network, ReLU, no clip": lambda: MLP(activation="relu", scaling=UNCLIPPED, epochs=1),
    "trees": lambda: Trees(rounds=100),
    "trees, missing values": lambda: Trees(rounds=100),
}
Cell = dict[str, Any]


def with_gaps(data: RankingDataset, seed: int) -> RankingDataset:
    """The same with a tenth of the values missing, drawn at random."""
    gaps = np.random.default_rng(seed).random(data.features.shape) < GAPS
    rows = np.where(gaps, np.float32(np.nan), data.features)
    return RankingDataset.from_arrays(
        rows, data.row_queries, data.labels, feature_names=data.feature_names, missing="keep"
    )


def loaded(name: str, kind: str, rows: int) -> tuple[RankingDataset, RankingDataset]:
    """What to learn from, and what to replay on."""
    reference = SETS[name] + ("/" if ":" in SETS[name] else ":")
    train, test = cr.load(f"{reference}train"), cr.load(f"{reference}test")
    test = test[: max(1, int(np.searchsorted(test.offsets, rows, side="right")) - 1)]
    return (with_gaps(train, 0), with_gaps(test, 1)) if "missing" in kind else (train, test)


def trained(kind: str, train: RankingDataset) -> Ranker:
    """The ranker of a kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CldrankWarning)
        ranker: Ranker = Oracle(model=KINDS[kind](), run=Run(seed=0)).fit(train).ranker_
    return ranker


def written(ranker: Ranker, form: ExportFormat, test: RankingDataset, approximate: bool = False) -> Cell:
    """The cell of a ranker in a format."""
    request = ExportRequest(approximate=approximate)
    try:
        exported = form.export(ranker, request)
    except InexpressibleError as error:
        if approximate:
            return {"outcome": "refused", "reason": str(error)}
        return {"reason": str(error)} | written(ranker, form, test, approximate=True)
    own = ranker.predict(test)
    scores = form.replay(exported.files, NamedTable(exported.names, test.features), request)
    parity = Parity.of(own, scores, test.offsets, exported.shift)
    sizes = np.diff(test.offsets)
    return {
        "outcome": "approximate" if exported.losses else "exact",
        "losses": list(exported.losses),
        **parity.as_dict(),
        "pairs": int((sizes * (sizes - 1) // 2).sum()),
        "bytes": sum(map(len, exported.files.values())),
    }


def cells(sets: list[str], kinds: list[str], formats: list[ExportFormat], rows: int) -> Iterator[Cell]:
    """All cells, set by set."""
    for name in sets:
        for kind in kinds:
            train, test = loaded(name, kind, rows)
            ranker = trained(kind, train)
            for form in formats:
                start = time.perf_counter()
                try:
                    found = written(ranker, form, test)
                except MissingDependencyError as error:
                    found = {"outcome": "skipped", "reason": str(error)}
                seconds = round(time.perf_counter() - start, 2)
                yield {"data": name, "kind": kind, "format": form.name, **found, "seconds": seconds}


def is_near(cell: Cell) -> bool:
    """Whether a cell keeps what its outcome promises."""
    return cell["outcome"] != "exact" or bool(cell["largest"] <= TOLERANCE * max(cell["scale"], 1.0))


def in_words(cell: Cell) -> str:
    """A cell as the table has it."""
    if cell["outcome"] in ("refused", "skipped"):
        return str(cell["outcome"])
    relative = cell["largest"] / max(cell["scale"], 1e-30)
    order = "" if cell["same_order"] else f", {cell['swapped']:,} swapped, {cell['tied']:,} tied"
    return f"{cell['outcome']}: {relative:.0e}{order}" if relative else f"{cell['outcome']}: equal{order}"


def table(found: list[Cell], formats: list[ExportFormat], sets: list[str]) -> str:
    """Markdown: a table a format, kinds of rankers by data sets, and the reasons of what is refused."""
    lines: list[str] = []
    for form in formats:
        own = [cell for cell in found if cell["format"] == form.name]
        lines += [f"**{form.label}**", "", f"| ranker | {' | '.join(LABELS[name] for name in sets)} |"]
        lines += ["|---|" + "---|" * len(sets)]
        for kind in dict.fromkeys(cell["kind"] for cell in own):
            words = [in_words(cell) for cell in own if cell["kind"] == kind]
            lines.append(f"| {kind} | {' | '.join(words)} |")
        reasons: dict[str, list[str]] = {}
        for cell in own:
            if "reason" in cell:
                reasons.setdefault(cell["reason"].split(": ", 1)[-1], []).append(cell["kind"])
        lines += ["", *(f"- {', '.join(dict.fromkeys(kinds))}: {reason}" for reason, kinds in reasons.items()), ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--format", nargs="+", choices=list(export_formats()), default=[])
    parser.add_argument("--kind", default="*", help="a pattern, such as 'trees*'")
    parser.add_argument("--rows", type=int, default=20_000, help="most rows of the test features to replay on")
    arguments = parser.parse_args()
    formats = [form for name, form in export_formats().items() if name in (arguments.format or export_formats())]
    kinds = [kind for kind in KINDS if fnmatch(kind, arguments.kind)]
    found: list[Cell] = []
    for cell in cells(arguments.data, kinds, formats, arguments.rows):
        found.append(cell)
        print(json.dumps(cell, ensure_ascii=False), flush=True)
    print()
    print(table(found, formats, arguments.data))
    far = [cell for cell in found if not is_near(cell)]
    if far:
        print(f"{len(far)} cells do not keep their promise, the first: {json.dumps(far[0], ensure_ascii=False)}")
    return bool(far)


if __name__ == "__main__":
    sys.exit(main())
