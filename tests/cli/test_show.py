"""`cldrank show`: what a path holds is recognised by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cldrank as cr
from cldrank.export import export_ranker

Run = Callable[..., Any]


def test_each_kind_by_its_content(run: Run, data: cr.RankingDataset) -> None:
    cr.Oracle().fit(data).ranker_.save("ranker")
    cr.Propensities.power(1.0, 5).save("rho.json")
    kinds = {"train.parquet": "data", "cells.parquet": "cells", "rho.json": "curves", "ranker": "ranker"}
    for path, kind in kinds.items():
        assert run("show", path, "--json").json["kind"] == kind
        assert run("show", path).out
    assert run("show", "ranker", "--json").json["provenance"]["estimator"] == "Oracle"


def test_what_is_none_of_them_is_refused(run: Run, folder: Path) -> None:
    cases = [
        (2, "absent", ["absent"]),
        (2, "train.parquet holds candidates; --plot draws propensities", ["train.parquet", "--plot", "x.svg"]),
        (2, "are shown one at a time", ["cells.parquet", "train.parquet"]),
    ]
    (folder / "empty").mkdir()
    for code, message, call in [*cases, (1, "the folder holds no file", ["empty"])]:
        ran = run("show", *call)
        assert (ran.code, message in ran.err) == (code, True), ran


def test_what_other_commands_show_is_named(run: Run, data: cr.RankingDataset, folder: Path) -> None:
    ranker = cr.Oracle().fit(data).ranker_
    ranker.save("shipped/ranker")
    (folder / "shipped" / "shipped.json").write_text("{}")
    export_ranker(ranker, "opensearch", folder / "engine")
    (folder / "runs" / "steps").mkdir(parents=True)
    (folder / "pipeline.toml").touch()
    (folder / "log.jsonl").touch()
    for path, words in {
        "runs": "see `cldrank pipeline show`",
        "shipped": "see `cldrank show shipped/ranker`",
        "engine": "as `cldrank export` wrote it",
        "pipeline.toml": "see `cldrank pipeline show pipeline.toml`",
        "log.jsonl": "log.jsonl looks like a click log; see `cldrank clicks audit log.jsonl`",
    }.items():
        ran = run("show", path)
        assert (ran.code, words in ran.err) == (2, True), ran
