from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.methods import methods
from cldrank.propensity import AffineClicks, SegmentPropensities

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
SMALL = ("--hidden", "8,4", "--epochs", "3")


def given(method: str) -> tuple[str, ...]:
    """What a method learns from."""
    kept = {"labels": 2, "clicks": 4}.get(methods()[method].needs, 6)
    return FROM[:kept]


class TestNetworks:
    @pytest.mark.parametrize(("method", "targets"), [("cld-pair", "clicks over propensity"), ("oracle", "labels")])
    def test_held_out_concordance_says_what_it_is_measured_against(self, run: Run, method: str, targets: str) -> None:
        call = ("train", method, *given(method), "--model", "mlp", *SMALL, "-o", "ranker")
        shown = run(*call, "--summary")
        (line,) = [line for line in shown.out.splitlines() if "of 3 kept: loss" in line]
        assert line.endswith(f" with {targets}")
        assert f"held target        {targets}" in shown.out
        assert "it does not compare methods" in " ".join(shown.err.split())
        assert run(*call, "--json").json["held_out_targets"] == targets
        silent = run(*call, "--validation", "0")
        assert "nothing held out" in silent.out
        assert "does not compare methods" not in silent.err

    def test_what_does_not_fit_is_refused(self, run: Run) -> None:
        cases: list[tuple[str, list[str]]] = [
            ("--device is not for a linear model", ["naive", "--device", "cuda"]),
            ("--resume needs the checkpoint to resume from; name it with --checkpoint", ["cld-pair", "--resume"]),
        ]
        for message, call in cases:
            ran = run("train", *call, *given(call[0]), "-o", "x")
            assert (ran.code, message in " ".join(ran.err.split())) == (2, True), ran
            assert len([line for line in ran.err.splitlines() if line.startswith("error: ")]) == 1
        assert not Path("x").exists()
        ran = run("train", "cld-pair", *FROM[:4], "-o", "x")
        assert (ran.code, "`cldrank propensity estimate` wrote" in " ".join(ran.err.split())) == (2, True)


class TestPositions:
    def test_slopes_and_bases(self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable) -> None:
        trust = AffineClicks.of(examined=1 / np.arange(1, 6), relevant=0.95, irrelevant=[0.5, 0.4, 0.3, 0.2, 0.1])
        trust.save("trust.json")
        shown = run("train", "affine-ips", *FROM[:4], "-p", "trust.json", "-o", "ranker", "--summary")
        assert shown.code == 0, shown.err
        assert "AffineClicks(slope 0.45, " in shown.out
        expected = cr.AffineIPS().fit(data, clicks, trust).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), expected)
        for message, call in (
            ("with --method trust-bias, it corrects for trust", ["affine-ips", *FROM[:4]]),
            ("not an AffineClicks", ["ips", *FROM[:4], "-p", "trust.json"]),
            ("policy-aware-ips needs the propensities", ["policy-aware-ips", *FROM[:4]]),
        ):
            ran = run("train", *call, "-o", "x")
            assert (ran.code, message in " ".join(ran.err.split())) == (2, True), ran
        assert not Path("x").exists()

    def test_pages_that_end_where_the_propensities_do(
        self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable
    ) -> None:
        rho = cr.Propensities.power(1, 3)
        rho.save("rho.json")
        call = ("train", "cld", *FROM[:4], "-p", "rho.json", "-o", "ranker")
        refused = run(*call)
        assert refused.code == 2
        said = " ".join(refused.err.split())
        assert "rho.json reaches down to position 3, the clicks to 5; --depth 3 treats pages as if" in said
        assert run(*call, "--depth", "3").code == 0
        expected = cr.CLD().fit(data, clicks.first(3), rho).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), expected)

    def test_every_segment_has_its_curve(
        self, run: Run, folder: Path, data: cr.RankingDataset, clicks: cr.ClickTable
    ) -> None:
        cells = (clicks.candidates, clicks.row, clicks.position, clicks.impressions, clicks.clicks)
        segment = clicks.candidates.row_queries[clicks.row] % 2
        split = cr.ClickTable(*cells, segment=segment, segment_names=("desktop", "phone"))
        split.save(folder / "split.parquet")
        curves = {"phone": cr.Propensities.power(1.2, 5), "desktop": cr.Propensities.power(0.5, 5)}
        typed = ("-c", "split.parquet", "-p", "phone=power:1.2,desktop=power:0.5")
        assert run("train", "cld", "-f", "train.parquet", *typed, "-o", "ranker").code == 0
        expected = cr.CLD().fit(data, split, SegmentPropensities.of(curves)).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), expected)


class TestInterruption:
    @pytest.fixture
    def stopped(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
        """`cldrank train` that Ctrl-C stops at the beginning of epoch 4."""
        from cldrank.models.network.loop import Trainer

        epoch = Trainer._epoch

        def until_4(self: Any, number: int, history: Any) -> Any:
            if number == 4:
                raise KeyboardInterrupt
            return epoch(self, number, history)

        def call(*arguments: str) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(Trainer, "_epoch", until_4)
                return run("train", *arguments)

        return call

    def test_ctrl_c_saves_the_best_and_resuming_gives_the_same_ranker(
        self, run: Run, stopped: Run, folder: Path, data: cr.RankingDataset
    ) -> None:
        train = ("cld-pair", *FROM, "--hidden", "8,4", "--epochs", "6", "--seed", "3", "--batch-queries", "8")
        ran = stopped(*train, "-o", "stopped", "--checkpoint", "state.safetensors")
        assert ran.code == 130, ran.err
        said = " ".join(ran.err.split())
        assert "stopped after epoch 3;" in said
        assert "is saved in stopped; the same command with --resume continues from state.safetensors." in said
        assert np.isfinite(cr.load_ranker("stopped").predict(data)).all()

        more = ("--checkpoint", "state.safetensors", "--resume")
        resumed = run("train", *train, "-o", "resumed", *more, "--json").json
        whole = run("train", *train, "-o", "whole", "--json").json
        assert resumed["status"] == whole["status"] == "completed"
        curves = [[(epoch["loss"], epoch["validation"]) for epoch in told["history"]] for told in (resumed, whole)]
        assert curves[0] == curves[1]
        weights = "weights.safetensors"
        assert (folder / "resumed" / weights).read_bytes() == (folder / "whole" / weights).read_bytes()
        cards = [(folder / name / "README.md").read_text() for name in ("resumed", "whole")]
        assert cards[0].replace("--out resumed", "--out whole") == cards[1]

    def test_a_whole_ranker_is_not_replaced_by_that_of_a_stopped_fit(
        self, run: Run, stopped: Run, data: cr.RankingDataset
    ) -> None:
        assert run("train", "cld", *FROM, "-o", "ranker").code == 0
        before = {path.name: path.read_bytes() for path in Path("ranker").iterdir()}
        for _ in range(2):
            ran = stopped("cld-pair", *FROM, "--hidden", "8,4", "--epochs", "6", "-o", "ranker", "--json")
            assert (ran.code, ran.json["ranker"]) == (130, "ranker.interrupted"), ran.err
            assert "stopped after epoch 3; ranker is unchanged, and the ranker of epoch " in " ".join(ran.err.split())
            assert {path.name: path.read_bytes() for path in Path("ranker").iterdir()} == before
            learned = cr.load_ranker("ranker.interrupted")
            assert np.isfinite(learned.predict(data)).all()
            assert learned.provenance.command.endswith(" --out ranker")

    def test_trees_speak_of_rounds(self, run: Run) -> None:
        trees = ("train", "cld-pair", *FROM, "--model", "trees", "--rounds", "4", "--min-weight", "0.1", "-o", "trees")
        shown = run(*trees, "--summary", "--validation", "0")
        assert shown.code == 0, shown.err
        assert "round 4 of 4 kept: loss " in shown.out
        assert "nothing held out" in shown.out
        held = run(*trees, "--validation", "0.5", "--checkpoint", "rounds.json")
        assert ", held-out loss " in held.out
        assert "held-out loss chooses the round" in held.err
        resumed = run(*trees, "--validation", "0.5", "--checkpoint", "rounds.json", "--resume", "--json")
        assert len(resumed.json["history"]) == 4
        refused = run(*trees, "--dropout", "0.5")
        assert refused.code == 2
        assert "--dropout is not for boosted trees" in refused.err

    def test_without_a_checkpoint_it_says_how_to_have_one(self, stopped: Run) -> None:
        for method in ("cld-pair", "rankagg"):
            ran = stopped(method, *FROM, "--hidden", "8,4", "--epochs", "6", "-o", method, "--json")
            assert ran.code == 130
            assert ran.json["status"] == "interrupted"
            assert "to be able to continue, train with --checkpoint FILE" in ran.err
            assert Path(method).exists()
