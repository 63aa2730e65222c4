"""The model card at the command line: what training writes, what evaluations add, what its command repeats."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.rankers import model_card

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")


def command_of(folder: str) -> list[str]:
    """The command that the card gives, as a shell splits it."""
    (block,) = re.findall(r"^```sh\n(cldrank train .*?)\n```$", Path(folder, "README.md").read_text(), re.M | re.S)
    assert cr.load_ranker(folder).provenance.command == block
    return shlex.split(block)


CALLS = {
    "held out": ("cld", *FROM, "--hold-out", "0.25", "-o", "first"),
    "labels": ("oracle", "-f", "train.parquet", "--summary", "--out=first", "--json"),
    "network": ("cld-pair", *FROM, "--hidden", "8,4", "--epochs", "2", "--checkpoint", "state", "-ofirst"),
    "trees": ("naive", *FROM[:4], "--model", "trees", "--rounds", "3", "--depth", "4", "--seed", "5", "-o", "first"),
}


class TestTheCommand:
    @pytest.mark.parametrize("name", CALLS)
    def test_repeats_the_ranker(self, run: Run, name: str) -> None:
        assert run("train", *CALLS[name]).code == 0
        command = command_of("first")
        assert command[0] == "cldrank"
        assert command[-2:] == ["--out", "first"]
        files = {path.name: path.read_bytes() for path in Path("first").iterdir()}
        assert run(*command[1:]).code == 0
        assert {path.name: path.read_bytes() for path in Path("first").iterdir()} == files

    def test_in_a_process_of_its_own(self, run: Run) -> None:
        name = "o'brien's $HOME `data`.parquet"
        Path("train.parquet").rename(name)
        assert run("train", "cld", "-f", name, "-c", "cells.parquet", "-p", "power:1.0", "-o", "first").code == 0
        (block,) = re.findall(r"^(`{3,})sh\n(cldrank train .*?)\n\1$", Path("first/README.md").read_text(), re.M | re.S)
        script = f'cldrank() {{ "{sys.executable}" -m cldrank "$@"; }}\n{block[1]}\n'
        Path("first").rename("earlier")
        subprocess.run(["/bin/bash", "-c", script], check=True, capture_output=True)
        for file in ("weights.safetensors", "ranker.json", "README.md"):
            assert Path("first", file).read_bytes() == Path("earlier", file).read_bytes(), file


class TestRecording:
    def test_an_evaluation_becomes_part_of_the_card(self, run: Run) -> None:
        run("train", "cld", *FROM, "-o", "ranker")
        weights = Path("ranker/weights.safetensors").read_bytes()
        assert "No evaluation is recorded" in Path("ranker/README.md").read_text()
        silent = run("evaluate", "ranker", "-f", "train.parquet")
        assert "recorded" not in silent.err
        assert "No evaluation is recorded" in Path("ranker/README.md").read_text()

        told = run("evaluate", "ranker", "-f", "train.parquet", "-m", "nDCG@3,AP", "--record", "--json").json
        (one,) = cr.load_ranker("ranker").provenance.evaluations
        assert one.measures == told["measures"]
        assert one.fingerprint == told["fingerprint"] == cr.load("train.parquet").fingerprint
        card = Path("ranker/README.md").read_text()
        assert f"| AP | {told['measures']['AP']['mean']:.4f} |" in card
        assert "on the data it was trained on" in card
        assert card == model_card(cr.load_ranker("ranker"))
        assert Path("ranker/weights.safetensors").read_bytes() == weights

        said = run("evaluate", "ranker", "-f", "train.parquet", "-m", "RR", "--record", "--skip-empty")
        assert "recorded in ranker/README.md" in said.err
        run("evaluate", "ranker", "-f", "train.parquet", "-m", "RR", "--record")
        skip, zero = cr.load_ranker("ranker").provenance.evaluations
        assert (list(skip.measures), skip.empty) == (["RR"], "skip")
        assert (list(zero.measures), zero.empty) == (["nDCG@3", "AP", "RR"], "zero")
        card = Path("ranker/README.md").read_text()
        assert card.count("on the data it was trained on") == 1
        assert "| empty | skip |" in card

    def test_what_cannot_be_recorded_is_refused_before_any_work(self, run: Run) -> None:
        np.savetxt("scores.txt", np.zeros(480))
        refused = run("evaluate", "scores.txt", "-f", "train.parquet", "--record")
        assert (refused.code, "--record is for rankers; scores.txt is a file" in refused.err) == (2, True)
        run("train", "naive", *FROM[:4], "-o", "ranker")
        Path("ranker/README.md").write_text("mine")
        before = Path("ranker/ranker.json").read_bytes()
        for call in (("evaluate", "ranker", "--record"), ("train", "naive", "-c", "nor this", "-o", "ranker")):
            refused = run(*call, "-f", "no such file")
            assert (refused.code, "README.md was edited" in " ".join(refused.err.split())) == (2, True)
        assert (Path("ranker/README.md").read_text(), Path("ranker/ranker.json").read_bytes()) == ("mine", before)
        assert run("evaluate", "ranker", "-f", "train.parquet").code == 0


class TestOtherFeatures:
    CALLS = (("evaluate", "ranker"), ("export", "ranker", "--to", "onnx", "-o", "ranker.onnx"))

    @pytest.fixture(autouse=True)
    def ranker(self, folder: Path) -> None:
        cr.Oracle().fit(cr.load(folder / "train.parquet")).ranker_.save("ranker")

    @pytest.mark.parametrize("call", CALLS)
    def test_the_file_is_named(self, run: Run, call: tuple[str, ...]) -> None:
        Path("other.txt").write_text("1 qid:1 1:1 2:2\n0 qid:1 1:2 5:1\n")
        refused = run(*call, "--check" if call[0] == "export" else "-f", "other.txt")
        assert refused.code == 1
        expected = "other.txt: does not suit the ranker in ranker: 5 features instead of the ranker's 4"
        assert expected in " ".join(refused.err.split())


def test_the_example_of_the_docs_is_what_its_commands_write(run: Run) -> None:
    reference = Path(__file__).parents[2] / "docs" / "reference"
    page = (reference / "model-card.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(cldrank data make .*?)\n```$", page, re.M | re.S)
    for line in commands.splitlines():
        assert run(*shlex.split(line)[1:]).code == 0, line
    card = (reference / "model-card-example.txt").read_text(encoding="utf-8")
    written = Path("ranker/README.md").read_text(encoding="utf-8")
    digest = re.compile(r"\b[0-9a-f]{64}\b")  # the last bits of generated features depend on the machine
    for part in card.split("…\n"):  # which stands for what the page leaves out
        assert digest.sub("digest", part) in digest.sub("digest", written)
