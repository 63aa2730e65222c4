from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.cli.methods import Method
from cldrank.clicks.simulate import NeighbourSwaps, Simulation, TrustBiased
from cldrank.propensity import AffineClicks

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
SMALL = ("--hidden", "8,4", "--epochs", "3")


def given(method: str) -> tuple[str, ...]:
    """What a method learns from."""
    if method == "oracle":
        return FROM[:2]
    return FROM[:4] if method in ("naive", "heckman", "pijd") else FROM


@pytest.fixture
def data(folder: Path) -> cr.RankingDataset:
    return cr.load(folder / "train.parquet")


@pytest.fixture
def clicks(folder: Path, data: cr.RankingDataset) -> cr.ClickTable:
    return cr.ClickTable.read(folder / "cells.parquet", data)


class TestNetworks:
    @pytest.mark.parametrize(
        ("method", "options", "expected"),
        [
            ("cld-pair", SMALL, cr.CLDPair(model=cr.MLP((8, 4)), epochs=3)),
            ("cld-pair", ("--model", "linear", "--epochs", "2"), cr.CLDPair(model="linear", epochs=2)),
            ("rankagg", (*SMALL, "--weights", "2,1"), cr.RankAgg((2, 1), model=cr.MLP((8, 4)), epochs=3)),
            ("cld", ("--model", "mlp", *SMALL), cr.CLD(model=cr.MLP((8, 4)), epochs=3)),
            ("ips", ("--model", "mlp", *SMALL, "--clip", "0.3"), cr.IPS(clip=0.3, model=cr.MLP((8, 4)), epochs=3)),
            ("naive", ("--model", "mlp", *SMALL), cr.Naive(model=cr.MLP((8, 4)), epochs=3)),
            ("oracle", ("--model", "mlp", *SMALL), cr.Oracle(model=cr.MLP((8, 4)), epochs=3)),
            ("affine-ips", ("--model", "mlp", *SMALL), cr.AffineIPS(model=cr.MLP((8, 4)), epochs=3)),
            (
                "policy-aware-ips",
                ("--model", "mlp", *SMALL, "--clip", "0.3"),
                cr.PolicyAwareIPS(clip=0.3, model=cr.MLP((8, 4)), epochs=3),
            ),
        ],
    )
    def test_the_same_ranker_as_from_python(
        self,
        run: Run,
        data: cr.RankingDataset,
        clicks: cr.ClickTable,
        method: str,
        options: tuple[str, ...],
        expected: Any,
    ) -> None:
        trained = run("train", method, *given(method), *options, "-o", "ranker", "--json")
        assert trained.code == 0, trained.err
        assert "held-out" not in trained.err  # no bar beside JSON
        told = trained.json
        assert told["status"] == "completed"
        assert [epoch["number"] for epoch in told["history"]] == list(range(1, expected.epochs + 1))
        assert told["history"][told["best_epoch"] - 1]["best"]
        expected.fit(data, clicks, cr.Propensities.power(1, 5))
        np.testing.assert_array_equal(cr.load_ranker("ranker").score(data), expected.predict(data))

    def test_all_options_arrive(self, run: Run) -> None:
        options = ("--selection-weight", "0.3", "--unshown-ratio", "2", "--learning-rate", "0.01", "--seed", "5")
        training = ("--batch-queries", "16", "--patience", "2", "--validation", "0.3", "--precision", "bfloat16")
        shown = run(
            "train", "cld-pair", *FROM, *SMALL, *options, *training, "--dropout", "0", "-o", "ranker", "--summary"
        )
        assert shown.code == 0, shown.err
        said = "".join(shown.out.split())
        for part in (
            "epochs=3",
            "learning_rate=0.01",
            "model=MLP(hidden=(8,4),dropout=0.0,activation='elu')",
            "seed=5",
            "selection_weight=0.3",
            "Training(batch_queries=16,validation=0.3,patience=2,precision='bfloat16')",
            "unshown_ratio=2.0",
        ):
            assert part in said, part
        assert "of 3 kept: loss" in shown.out
        assert "held-out concordance" in shown.err

    @pytest.mark.parametrize("method", [str(method) for method in Method])
    def test_every_method_has_a_summary(self, run: Run, method: str) -> None:
        shown = run("train", method, *given(method), "-o", "ranker", "--summary")
        assert shown.code == 0, shown.err
        assert "estimator" in shown.out
        told = run("train", method, *given(method), "-o", "ranker", "--summary", "--json").json
        assert told["summary"].startswith("estimator ")

    @pytest.mark.parametrize(
        ("method", "targets"),
        [
            ("cld-pair", "clicks over propensity"),
            ("rankagg", "clicks over propensity"),
            ("naive", "clicks as they are"),
            ("policy-aware-ips", "clicks over the chance to be shown and examined"),
            ("affine-ips", "clicks with trust taken off"),
            ("oracle", "labels"),
        ],
    )
    def test_held_out_concordance_says_what_it_is_measured_against(self, run: Run, method: str, targets: str) -> None:
        call = ("train", method, *given(method), "--model", "mlp", *SMALL, "-o", "ranker")
        shown = run(*call, "--summary")
        (line,) = [line for line in shown.out.splitlines() if "of 3 kept: loss" in line]
        assert line.endswith(f" with {targets}")
        assert shown.out.count(f" with {targets}") == 2  # the summary says so too
        assert "it does not compare methods" in " ".join(shown.err.split())
        assert run(*call, "--json").json["held_out_targets"] == targets
        silent = run(*call, "--validation", "0")
        assert "nothing held out" in silent.out
        assert "does not compare methods" not in silent.err

    def test_what_does_not_fit_is_refused(self, run: Run) -> None:
        cases: list[tuple[str, list[str]]] = [
            ("heckman has no option --model", ["heckman", "--model", "mlp"]),
            ("pijd has no option --epochs", ["pijd", "--epochs", "3"]),
            ("naive has no option --selection-weight", ["naive", "--selection-weight", "1"]),
            ("cld-pair has no option --gamma", ["cld-pair", "--gamma", "0.1"]),
            ("--epochs is for networks; cld is linear unless", ["cld", "--epochs", "3"]),
            ("--checkpoint is for networks", ["ips", "--checkpoint", "x"]),
            ("--device is for networks", ["naive", "--device", "cuda"]),
            ("--hidden shapes a network", ["cld-pair", "--model", "linear", "--hidden", "8"]),
            ("--dropout shapes a network", ["oracle", "--dropout", "0.5"]),
            ("--hidden lists the sizes", ["cld-pair", "--hidden", "wide"]),
            ("hidden must be the sizes", ["cld-pair", "--hidden", "0"]),
            ("--weights is two numbers", ["rankagg", "--weights", "one"]),
            ("scores would be infinite", ["rankagg", "--weights", "1e308,1", "--model", "linear"]),
            ("weights must be two numbers", ["rankagg", "--weights", "1,2,3", "--model", "linear"]),
            ("target='clicks' is for model='linear'", ["cld", "--model", "mlp", "--target", "clicks"]),
            ("validation must be a number between", ["cld-pair", "--validation", "2"]),
            ("--resume goes on from a checkpoint; name it with", ["cld-pair", "--resume"]),
            ("no checkpoint to resume from", ["cld-pair", "--checkpoint", "none", "--resume", *SMALL]),
            ("makes a network of 1e+12 weights", ["cld-pair", "--hidden", "1000000,1000000"]),
            ("hidden must be the sizes", ["cld-pair", "--hidden", "8,-1"]),
            ("--hidden lists the sizes", ["cld-pair", "--hidden", "8,,4"]),
            ("validation=0 holds none out", ["cld-pair", "--patience", "2", "--validation", "0"]),
            ("heckman has no option --clip", ["heckman", "--clip", "0.3"]),
        ]
        for message, call in cases:
            ran = run("train", *call, *given(call[0]), "-o", "x")
            assert (ran.code, message in ran.err) == (2, True), ran
        assert not Path("x").exists()
        for method in ("cld-pair", "rankagg"):
            ran = run("train", method, *FROM[:4], "-o", "x")
            assert (ran.code, "needs the propensities" in ran.err) == (2, True)
            assert "`cldrank propensity estimate` wrote" in " ".join(ran.err.split())

    def test_missing_packages_are_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
        ran = run("train", "cld-pair", *FROM, *SMALL, "-o", "x", "--tensorboard", "curves")
        assert (ran.code, "needs tensorboard" in ran.err) == (1, True)
        monkeypatch.setitem(sys.modules, "torch", None)
        ran = run("train", "cld-pair", *FROM, *SMALL, "-o", "x")
        assert ran.code == 1
        assert "pip install 'cldrank[neural]'" in ran.err
        assert run("train", "cld", *FROM, "-o", "linear").code == 0


class TestPositions:
    def test_slopes_and_bases(self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable) -> None:
        trust = AffineClicks.of(examined=1 / np.arange(1, 6), relevant=0.95, irrelevant=[0.5, 0.4, 0.3, 0.2, 0.1])
        trust.save("trust.json")
        shown = run("train", "affine-ips", *FROM[:4], "--affine", "trust.json", "-o", "ranker", "--summary")
        assert shown.code == 0, shown.err
        assert "AffineClicks(slope 0.45, " in shown.out
        expected = cr.AffineIPS().fit(data, clicks, trust).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("ranker").score(data), expected)
        for message, call in (
            ("ips has no option --affine", ["ips", *FROM, "--affine", "trust.json"]),
            ("both say how clicks depend", ["affine-ips", *FROM, "--affine", "trust.json"]),
            ("estimate --method trust-bias` writes", ["affine-ips", *FROM[:4]]),
            ("holds slopes and bases, not propensities", ["ips", *FROM[:4], "-p", "trust.json"]),
            ("policy-aware-ips needs the propensities", ["policy-aware-ips", *FROM[:4]]),
        ):
            ran = run("train", *call, "-o", "x")
            assert (ran.code, message in " ".join(ran.err.split())) == (2, True), ran
        cr.Propensities.power(1, 5).save("rho.json")
        ran = run("train", "affine-ips", *FROM[:4], "--affine", "rho.json", "-o", "x")
        assert (ran.code, "rho.json: holds no slopes and bases" in ran.err) == (1, True)

    @pytest.mark.parametrize("method", ["cld", "affine-ips"])
    def test_pages_that_end_where_the_propensities_do(
        self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable, method: str
    ) -> None:
        kinds = {"cld": cr.CLD, "affine-ips": cr.AffineIPS}
        rho = cr.Propensities.power(1, 3)
        rho.save("rho.json")
        call = ("train", method, *FROM[:4], "-p", "rho.json", "-o", "ranker")
        refused = run(*call)
        assert refused.code == 2
        said = " ".join(refused.err.split())
        assert "rho.json reaches down to position 3, the clicks to 5; --depth 3 takes pages as if" in said
        assert run(*call, "--depth", "3").code == 0
        expected = kinds[method]().fit(data, clicks.first(3), rho).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("ranker").score(data), expected)

    def test_an_option_without_an_effect_is_refused(self, run: Run) -> None:
        cases: list[tuple[str, list[str]]] = [
            ("naive takes clicks as they are and uses no propensities; leave --propensity out", ["naive", *FROM]),
            ("heckman corrects for selection, not for positions and uses no propensities", ["heckman", *FROM]),
            ("pijd corrects for positions by itself and uses no propensities", ["pijd", *FROM]),
            ("oracle learns from labels and uses no propensities", ["oracle", *FROM]),
            ("oracle learns from labels, not from clicks; leave --clicks out", ["oracle", *FROM[:4]]),
            ("oracle learns from labels, not from clicks; leave --depth out", ["oracle", *FROM[:2], "--depth", "2"]),
            ("--depth 9 is deeper than the clicks, which reach down to position 5", ["cld", *FROM, "--depth", "9"]),
        ]
        for message, call in cases:
            ran = run("train", *call, "-o", "x")
            assert (ran.code, message in " ".join(ran.err.split())) == (2, True), ran
        assert not Path("x").exists()
        assert run("train", "cld", *FROM, "--depth", "5", "-o", "x").code == 0

    @pytest.mark.filterwarnings("ignore:the clicks refute")  # trust bias does
    def test_what_was_estimated_trains(self, run: Run, folder: Path, data: cr.RankingDataset) -> None:
        simulation = Simulation(data, data.features[:, 0], TrustBiased(eta=1), NeighbourSwaps(0.5), depth=4)
        simulation.draw(300_000, seed=0).save(folder / "swapped.parquet")
        for method, options in (("trust-bias", ()), ("all-pairs", ("--depth", "3"))):
            made = run("propensity", "estimate", "swapped.parquet", "-o", "found.json", "--method", method, *options)
            assert made.code == 0, made.err
            (line,) = [line for line in made.err.splitlines() if line.startswith("next: ")]
            command = line.removeprefix("next: cldrank ").replace("FEATURES", "train.parquet").split()
            assert run(*command).code == 0
            assert Path("ranker").is_dir()


class TestInterruption:
    LONG = ("train", "cld-pair", *FROM, "--hidden", "16,8", "--epochs", "150", "--seed", "3", "--batch-queries", "8")

    def test_ctrl_c_saves_the_best_and_resuming_gives_the_same_ranker(
        self, run: Run, folder: Path, data: cr.RankingDataset
    ) -> None:
        command = [sys.executable, "-m", "cldrank", *self.LONG, "-o", "stopped", "--checkpoint", "state.safetensors"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _wait_for(folder / "state.safetensors", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        said = " ".join(err.split())
        assert "is saved in stopped; the same command with --resume goes on from state.safetensors." in said
        kept = int(out.split("epoch ")[1].split()[0])
        assert f"the ranker of epoch {kept} is saved" in said
        gone = int(said.split("stopped after epoch ")[1].split(";")[0])
        assert 1 <= kept <= gone < 150
        assert np.isfinite(cr.load_ranker("stopped").score(data)).all()

        resumed = run(*self.LONG, "-o", "resumed", "--checkpoint", "state.safetensors", "--resume", "--json").json
        whole = run(*self.LONG, "-o", "whole", "--json").json
        assert resumed["status"] == whole["status"] == "completed"
        curves = [[(epoch["loss"], epoch["validation"]) for epoch in one["history"]] for one in (resumed, whole)]
        assert curves[0] == curves[1]
        files = {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}
        assert {path.name: path.read_bytes() for path in (folder / "resumed").iterdir()} == files

    def test_before_the_first_epoch_is_over_nothing_is_saved(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("cldrank.models.network.loop.Run._epoch", interrupted)
        ran = run("train", "cld-pair", *FROM, *SMALL, "-o", "x", "--checkpoint", "state")
        assert ran.code == 130
        assert "stopped before there was a ranker; nothing is saved" in ran.err
        assert not Path("x").exists()
        assert not Path("state").exists()

    def test_without_a_checkpoint_it_says_how_to_have_one(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        from cldrank.models.network.loop import Run as Loop

        whole = Loop._epoch

        def second_time(self: Any, number: int, history: Any) -> Any:
            if number == 2:
                raise KeyboardInterrupt
            return whole(self, number, history)

        monkeypatch.setattr(Loop, "_epoch", second_time)
        for method in ("cld-pair", "rankagg"):
            ran = run("train", method, *FROM, *SMALL, "-o", method, "--json")
            assert ran.code == 130
            assert (ran.json["status"], ran.json["best_epoch"]) == ("interrupted", 1)
            assert "to be able to go on, train with --checkpoint FILE" in ran.err
            assert Path(method).exists()


def test_two_processes_train_one_ranker_and_one_of_them_speaks(run: Run, data: cr.RankingDataset) -> None:
    arguments = ["train", "cld-pair", *FROM, *SMALL, "--dropout", "0", "--batch-queries", "16"]
    together = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "cldrank"]
    ran = subprocess.run([*together, *arguments, "-o", "two"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("saved in two") == 1
    assert "Warning" not in ran.stderr
    run(*arguments, "-o", "one")
    scores = [cr.load_ranker(name).score(data) for name in ("one", "two")]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-4)


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        if path.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()


class TestRefusals:
    def test_propensities_are_no_slopes_and_bases(self, run: Run, folder: Path) -> None:
        cr.Propensities.power(1.0, k=5).save(folder / "rho.json")
        (folder / "junk.json").write_text("hello")
        for name, expected in (("rho.json", "holds no slopes and bases"), ("junk.json", "not JSON")):
            refused = run("train", "affine-ips", *FROM[:4], "--affine", name, "-o", "ranker")
            assert (refused.code, f"{name}: {expected}" in refused.err) == (1, True), refused.err

    def test_a_folder_that_cannot_be_written_is_named_as_the_user_named_it(self, run: Run, folder: Path) -> None:
        (folder / "file").write_text("")
        refused = run("train", "naive", *FROM[:4], "-o", "file/ranker")
        assert refused.code == 2
        assert "file is a file; name a folder to write." in refused.err
        assert ".part" not in refused.err


def test_ctrl_c_is_never_without_a_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cldrank.cli.options.Reading.load", interrupted)
    stopped = run("train", "naive", *FROM[:4], "-o", "ranker")
    assert (stopped.code, stopped.err) == (130, "error: stopped; nothing half-written is left behind.\n")
