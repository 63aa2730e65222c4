"""`cldrank clicks aggregate` and `show`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

Run = Callable[..., Any]


class TestClicks:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        rows = [(s, f"q{s % 3}", f"d{k}", k, int((s + k) % 4 == 0)) for s in range(60) for k in range(1, 5)]
        rows += [(0, "q0", "d1", 1, 1), (7, "", "d1", 1, 0)]  # a row again with a click, a missing query
        path = tmp_path / "log.csv"
        lines = ["session_id,query_id,doc_id,position,clicked", *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines))
        return path

    def test_aggregate_show_and_add(self, run: Run, log: Path, tmp_path: Path) -> None:
        made = run("clicks", "aggregate", log, "-o", "cells.parquet", "--rejects", "rejects.parquet", "--json").json
        assert made["log"]["rows"] == 242
        assert made["log"]["reasons"] == {"null key": 1, "second view": 1}
        assert made["impressions"] == 240
        assert pq.read_table(tmp_path / "rejects.parquet")["reason"].to_pylist() == ["null key", "second view"]
        shown = run("show", "cells.parquet", "--json").json
        assert [entry["impressions"] for entry in shown["positions"]] == [60] * 4
        assert shown["sources"] == ["log.csv"]
        twice = run("clicks", "aggregate", log, log, "-o", "sum.parquet")
        assert (twice.code, "log.csv is named twice" in twice.err) == (2, True)
        assert "2 set aside" in run("clicks", "aggregate", log, "-o", "cells.parquet").out
        assert "click rate" in run("show", "cells.parquet").out

    def test_a_folder_of_days(self, run: Run, log: Path, tmp_path: Path) -> None:
        lines = log.read_text().splitlines()
        days = [f"{line},2026-11-{13 + at % 3}T0{at % 7}:00:00Z" for at, line in enumerate(lines[1:])]
        log.write_text("\n".join([f"{lines[0]},timestamp", *days]))
        made = run("clicks", "aggregate", log, "--add-to", "cells/", "--json").json
        assert list(made["written"]) == [f"cells/2026-11-{day}.parquet" for day in (13, 14, 15)]
        assert sum(day["impressions"] for day in made["written"].values()) == 240
        assert "cells is as it was" in run("clicks", "aggregate", log, "--add-to", "cells").out
        assert run("show", "cells/", "--last", "1d", "--json").json["impressions"] == 80
        (tmp_path / "cells" / "2026-11-14.parquet").unlink()
        assert "1 is missing" in run("show", "cells/", "--last", "2d").err
        for message, arguments in (
            ("or a folder of days with --add-to", ["--add-to", "cells", "-o", "x.parquet"]),
            ("added to a folder of days", ["--add-to", "cells.parquet"]),
            ("name the file of cells to write with --out", []),
        ):
            ran = run("clicks", "aggregate", log, *arguments)
            assert (ran.code, message in ran.err) == (2, True), ran

    def test_logs_that_count_from_zero(self, run: Run, tmp_path: Path) -> None:
        rows = [f"{s},q,d{k},{k},{int(k == s % 24)}" for s in range(120) for k in range(24)]
        (tmp_path / "zero.csv").write_text("\n".join(["session_id,query_id,doc_id,position,clicked", *rows]))
        refused = run("clicks", "aggregate", "zero.csv", "-o", "c.parquet")
        assert (refused.code, "--first-position 0" in refused.err) == (1, True)
        assert not (tmp_path / "c.parquet").exists()
        assert run("propensity", "estimate", "zero.csv", "-o", "rho.json").code == 1
        audited = run("clicks", "audit", "zero.csv", "--html", "audit.html")
        assert audited.code == 3
        assert "counts positions from 0" in audited.out
        assert (tmp_path / "audit.html").exists()
        assert run("clicks", "audit", "zero.csv", "--first-position", "0").code == 0
        assert run("clicks", "aggregate", "zero.csv", "-o", "c.parquet", "--first-position", "0").code == 0

    def test_too_many_rejects_fail_and_leave_the_rejects(self, run: Run, log: Path, tmp_path: Path) -> None:
        ran = run("clicks", "aggregate", log, "-o", "c.parquet", "--max-rejected", "0.001", "--rejects", "r.parquet")
        assert ran.code == 1
        assert "0.8% of 242 rows had to be set aside, more than the 0.1% allowed" in ran.err
        assert not (tmp_path / "c.parquet").exists()
        assert pq.read_table(tmp_path / "r.parquet").num_rows == 2

    def test_errors(self, run: Run, log: Path) -> None:
        cases: list[tuple[int, str, list[str | Path]]] = [
            (2, "no such file", ["clicks", "aggregate", "absent.csv", "-o", "x.parquet"]),
            (1, "the limit of 1KB", ["clicks", "audit", log, "--memory-limit", "1KB"]),
            (2, "cannot be both doc_id and clicked", ["clicks", "audit", log, "--log-column", "clicked=doc_id"]),
            (2, "--one-query treats all pages", ["clicks", "audit", log, "-f", "train.parquet", "--one-query"]),
            (2, "must end in .parquet", ["clicks", "aggregate", log, "-o", "x.parquet", "--rejects", "r.csv"]),
            (2, "takes one column", ["clicks", "aggregate", log, "-o", "x.parquet", "--log-column", "doc_id=a,b"]),
        ]
        for code, message, arguments in cases:
            ran = run(*arguments)
            assert (ran.code, message in ran.err) == (code, True), ran
