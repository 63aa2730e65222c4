from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank import cli


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Call the command line in an empty folder, as `main` would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["cldrank", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
        captured = capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def train(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        f"{int(x > 0.5) + int(x > 0.8)} qid:{q} 1:{x:.4f} 2:{y:.4f} 3:1"
        for q in range(30)
        for x, y in rng.random((8, 2))
    ]
    path = tmp_path / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


class TestTheWholeWay:
    def test_train_evaluate_compare(self, run: Run, train: Path, tmp_path: Path) -> None:
        trained = run("train", "oracle", "--features", train, "--out", "ranker", "--json")
        assert trained.code == 0
        assert trained.json["constant_features"] == ["f3"]

        result = run("evaluate", "ranker", "-f", train, "-m", "nDCG@3,AP", "-m", "P(rel=2)@1", "--json").json
        assert list(result["measures"]) == ["nDCG@3", "AP", "P(rel=2)@1"]
        expected = cr.evaluate(cr.load_ranker("ranker"), cr.load(train), "nDCG@3")["nDCG@3"]
        assert result["measures"]["nDCG@3"]["mean"] == expected > 0.95
        assert result["measures"]["nDCG@3"]["low"] <= expected <= result["measures"]["nDCG@3"]["high"]

        data = cr.load(train)
        (tmp_path / "random.txt").write_text("\n".join(map(str, data.features[:, 1])))
        compared = run("compare", "ranker", "random.txt", "-f", train, "-m", "nDCG@3", "--json").json
        assert compared["measures"]["nDCG@3"]["difference"] > 0.1
        assert compared["measures"]["nDCG@3"]["p_value"] < 0.01

    def test_the_same_for_people(self, run: Run, train: Path) -> None:
        assert (
            "note: constant in the training data, no weight: f3"
            in run("train", "oracle", "-f", train, "-o", "ranker").err
        )
        shown = run("evaluate", "ranker", "-f", train)
        assert shown.code == 0
        assert "ranker on train, 30 queries" in shown.out
        assert "90% interval" in shown.out
        compared = run("compare", "ranker", "ranker", "-f", train, "-m", "AP")
        assert "0/30/0" in compared.out

    def test_per_query_values(self, run: Run, train: Path, tmp_path: Path) -> None:
        run("train", "oracle", "-f", train, "-o", "ranker")
        run("evaluate", "ranker", "-f", train, "-m", "RR", "--per-query", "values.parquet")
        table = pq.read_table(tmp_path / "values.parquet")
        assert table.column_names == ["query_id", "RR"]
        assert table.num_rows == 30

    def test_train_from_clicks(self, run: Run, train: Path) -> None:
        run("simulate", train, "--out", "cells.parquet", "--sessions", "2000", "--fraction", "1")
        arguments: list[str | Path] = ["-f", train, "-c", "cells.parquet", "-p", "power:1.0"]
        for method in ("cld", "naive", "ips", "heckman", "pijd"):
            uses = arguments if method in ("cld", "ips") else arguments[:4]
            trained = run("train", method, *uses, "-o", method, "--json")
            assert trained.code == 0, trained
            if method != "pijd":  # production ranks by one feature alone, which its position effects then explain
                found = run("evaluate", method, "-f", train, "-m", "nDCG@3", "--json").json
                assert found["measures"]["nDCG@3"]["mean"] > 0.9
        assert "std. error" in run("train", "cld", *arguments, "-o", "cld", "--gamma", "0.2", "--summary").out
        cases: list[tuple[str, list[str | Path]]] = [
            ("learns from clicks", ["train", "cld", "-f", train, "-o", "x"]),
            ("needs the propensities", ["train", "ips", "-f", train, "-c", "cells.parquet", "-o", "x"]),
            ("naive has no option --gamma", ["train", "naive", *arguments, "-o", "x", "--gamma", "0.1"]),
            ("--gamma is a number", ["train", "cld", *arguments, "-o", "x", "--gamma", "much"]),
        ]
        for message, call in cases:
            ran = run(*call)
            assert (ran.code, message in ran.err) == (2, True), ran

    def test_nothing_that_is_read_is_written_over(self, run: Run, train: Path, tmp_path: Path) -> None:
        run("data", "convert", train, "-o", "train.parquet")
        run("train", "oracle", "-f", train, "-o", "ranker")
        (tmp_path / "log.csv").write_text("session_id,query_id,doc_id,position,clicked\n1,0,1,1,0\n")
        contents = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        calls: list[list[str]] = [
            ["simulate", "train.parquet", "--out", "train.parquet", "--fraction", "1"],
            ["evaluate", "ranker", "-f", "train.parquet", "--per-query", "train.parquet"],
            ["data", "convert", "train.parquet", "-o", "./train.parquet"],
            ["clicks", "audit", "log.csv", "--html", "log.csv"],
            ["clicks", "aggregate", "log.csv", "-o", "c.parquet", "--rejects", "c.parquet"],
            ["clicks", "aggregate", "log.csv", "-f", "train.parquet", "-o", "train.parquet"],
        ]
        for call in calls:
            ran = run(*call)
            assert ran.code == 2, (call, ran)
            assert "written" in ran.err
        assert {path: path.read_bytes() for path in contents} == contents


class TestData:
    def test_show(self, run: Run, train: Path) -> None:
        summary = run("data", "show", train, "--json").json
        assert (summary["queries"], summary["rows"], summary["features"]) == (30, 240, 3)
        assert summary["candidates"] == {"least": 8, "median": 8.0, "most": 8}
        assert sum(summary["labels"].values()) == pytest.approx(1)
        assert "RankingDataset(train: 30 queries" in run("data", "show", train).out

    def test_convert_with_columns(self, run: Run, train: Path, tmp_path: Path) -> None:
        assert run("data", "convert", train, "--out", "a.parquet").code == 0
        assert run("data", "convert", train, "--out", "b.parquet", "--list").code == 0
        for name in ("a.parquet", "b.parquet"):
            np.testing.assert_array_equal(cr.load(tmp_path / name).features, cr.load(train).features)
        shown = run("data", "show", "a.parquet", "--column", "label=f1", "--column", "features=f2,f3", "--json").json
        assert shown["features"] == 2

    def test_make_streams_the_same_as_in_memory(self, run: Run, tmp_path: Path) -> None:
        made = run("data", "make", "yahoo-like", "--queries", "20", "--seed", "3", "--out", "y.parquet", "--json").json
        data = cr.load(tmp_path / "y.parquet")
        assert (made["rows"], made["synthetic"]) == (data.n_rows, True)
        assert data.synthetic

    def test_list_and_info(self, run: Run) -> None:
        names = [source["key"] for source in run("data", "list", "--json").json]
        assert {"web10k", "web30k", "yahoo", "istella-s", "mq2007", "mq2008", "msrd", "ranklens"} <= set(names)
        assert "mq2008" in run("data", "list").out
        assert "15,211 rows" in run("data", "info", "mq2008").out
        assert run("data", "info", "mq2008", "--json").json["key"] == "mq2008"

    def test_fetching_a_gated_set_tells_how_to_place_it(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CLDRANK_DATA", raising=False)
        refused = run("data", "fetch", "yahoo")
        assert refused.code == 1
        assert "Webscope" in refused.err

    def test_cache(self, run: Run) -> None:
        assert set(run("data", "cache", "--clear", "--json").json) == {"folder", "entries", "bytes", "removed"}


class TestErrors:
    def test_exit_codes_and_one_or_two_lines(self, run: Run, train: Path, tmp_path: Path) -> None:
        (tmp_path / "bad.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
        (tmp_path / "two.txt").write_text("1\n2\n")
        run("train", "oracle", "-f", train, "-o", "ranker")
        cases: list[tuple[int, str, list[str]]] = [
            (1, "bad.txt:2:11: the value of feature 1 is 'x'", ["data", "show", "bad.txt"]),
            (2, "absent.txt: no such file", ["data", "show", "absent.txt"]),
            (1, "has 2 scores for 240 rows", ["evaluate", "two.txt", "-f", "train.txt"]),
            (2, "absent.txt: no such file", ["data", "convert", "absent.txt", "-o", "x.parquet"]),
            (2, "no file matches", ["data", "show", "absent-*.txt"]),
            (2, "no such group file", ["data", "show", "train.txt", "--groups", "absent"]),
            (2, "absent.txt: no such file", ["evaluate", "ranker", "-f", "absent.txt"]),
            (2, "nothing does not exist", ["evaluate", "nothing", "-f", "train.txt"]),
            (2, "nothing does not exist", ["compare", "ranker", "nothing", "-f", "train.txt"]),
            (2, "no measure 'nGCD'", ["evaluate", "ranker", "-f", "train.txt", "-m", "nGCD@3"]),
            (2, "must end in .parquet", ["data", "convert", "train.txt", "--out", "x.csv"]),
            (2, "no synthetic kind 'web'", ["data", "make", "web"]),
            (2, "no data set 'mq208'", ["data", "info", "mq208"]),
            (2, "not of the form ROLE=NAME", ["data", "show", "train.txt", "--column", "label"]),
            (2, "No such command", ["trian"]),
            (2, "Missing option", ["train", "oracle", "--out", "x"]),
            (2, "Invalid value for '--queries'", ["data", "make", "web10k-like", "--queries", "lots"]),
            (2, "does not exist", ["data", "convert", "train.txt", "--out", "no/such/folder.parquet"]),
            (1, "a saved ranker has ranker.json", ["evaluate", ".", "-f", "train.txt"]),
        ]
        for code, message, arguments in cases:
            ran = run(*arguments)
            assert ran.code == code, (arguments, ran)
            assert message in ran.err, (arguments, ran)
            assert "Traceback" not in ran.err
            assert ran.err.strip().count("\n") <= 1, ran.err
            assert ran.out == ""

    def test_a_ranker_that_a_kill_left_between_two_renames(self, run: Run, train: Path, tmp_path: Path) -> None:
        run("train", "oracle", "-f", train, "-o", "ranker")
        (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")
        assert run("evaluate", "ranker", "-f", train, "-m", "AP").code == 0

    def test_scores_of_a_file_with_scattered_queries_follow_its_rows(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "scattered.txt").write_text("1 qid:a 1:0\n0 qid:b 1:0\n0 qid:a 1:0\n1 qid:b 1:0\n")
        for name in ("right.txt", "right.npy", "right.parquet"):
            scores = np.array([2.0, 1.0, 1.0, 2.0])
            if name.endswith("txt"):
                np.savetxt(tmp_path / name, scores)
            elif name.endswith("npy"):
                np.save(tmp_path / name, scores)
            else:
                pq.write_table(pa.table({"score": scores}), tmp_path / name)
            found = json.loads(run("evaluate", name, "-f", "scattered.txt", "-m", "RR", "--json").out)
            assert found["measures"]["RR"]["mean"] == 1.0
        (tmp_path / "wrong.txt").write_text("2\n2\n1\n1\n")  # right if the rows had been taken query by query
        found = json.loads(run("evaluate", "wrong.txt", "-f", "scattered.txt", "-m", "RR", "--json").out)
        assert found["measures"]["RR"]["mean"] == 0.75

    def test_debug_shows_the_traceback_wherever_it_stands(self, run: Run) -> None:
        for arguments in (["--debug", "data", "show", "absent.txt"], ["data", "show", "absent.txt", "--debug"]):
            with pytest.raises(cr.errors.UsageError, match="no such file"):
                run(*arguments)

    def test_a_fault_of_ours_asks_for_a_report(self, run: Run, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError("oops")

        monkeypatch.setattr("cldrank.data.loading.load", broken)
        ran = run("data", "show", train)
        assert ran.code == 1
        assert "a fault in cldrank itself (ZeroDivisionError: oops)" in ran.err

    def test_ctrl_c(self, run: Run, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("cldrank.data.loading.load", interrupted)
        assert run("data", "show", train).code == 130

    def test_an_interrupted_write_leaves_nothing(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object, **__: object) -> Any:
            yield cr.RankingDataset.from_arrays([[1.0]], [1])
            raise KeyboardInterrupt

        monkeypatch.setattr("cldrank.data.synthetic.generate", interrupted)
        assert run("data", "make", "web10k-like", "--out", "x.parquet").code == 130
        assert list(tmp_path.iterdir()) == []


class TestStart:
    def test_version_and_help(self, run: Run) -> None:
        assert run("--version").out == f"cldrank {cr.__version__}\n"
        for command in ([], ["data"], ["train"], ["evaluate"], ["compare"], ["demo"], ["data", "make"]):
            shown = run(*command, "--help")
            assert shown.code == 0
            assert "Usage" in shown.out

    def test_nothing_heavy_is_imported_for_help(self) -> None:
        script = (
            "import sys, cldrank, cldrank.cli\n"
            "heavy = {'numpy', 'scipy', 'torch', 'pyarrow', 'numba', 'sklearn', 'duckdb', 'pyspark', 'ibis'}\n"
            "print(sorted(heavy & set(sys.modules)))"
        )
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"

    def test_help_starts_quickly(self) -> None:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "cldrank", "--help"], capture_output=True, check=True)
            times.append(time.perf_counter() - start)
        assert min(times) < 0.5

    def test_a_termination_leaves_no_temporary_file(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "cldrank", "data", "make", "web10k-like", "-n", "50000", "-o", "big.parquet"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        process.terminate()
        try:
            assert process.wait(timeout=120) == 143
        finally:
            process.kill()
            process.wait()
        assert list(tmp_path.iterdir()) == []

    def test_a_reader_that_goes_away(self) -> None:
        command = f"{sys.executable} -m cldrank data list --json | head -1"
        found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)  # noqa: S607
        assert "Traceback" not in found.stderr
