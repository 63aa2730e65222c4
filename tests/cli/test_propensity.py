from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.clicks.log.layout import NO_SEGMENT
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, ShuffledShare, Simulation, TopK, TrustBiased
from cldrank.propensity import AffineClicks, AllPairs, Propensities, SegmentPropensities

Run = Callable[..., Any]


@pytest.fixture
def propensity(run: Run) -> Run:
    """`cldrank propensity …`."""
    return partial(run, "propensity")


@dataclass(frozen=True)
class Logs:
    """Simulated logs of one world, as files."""

    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """`data`, cells `one` (one ranker), `swaps`, `shuffled`, raw logs `swaps_log`, `shuffled_log`, `devices`."""
    found = Logs(tmp_path_factory.mktemp("logs"))
    random = np.random.default_rng(0)
    features = random.normal(size=(80 * 8, 2))
    labels = np.clip(np.round(2 + features @ [1.0, 0.5]), 0, 4)
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(80), 8), labels)
    data.save(found.data)
    scores = features[:, 0] + random.normal(0, 1, len(labels))

    def simulation(eta: float, policy: Any) -> Simulation:
        return Simulation(data, scores, PositionBased(eta=eta, noise=0.1), policy, depth=4)

    simulation(1, TopK()).draw(4e4, seed=0).save(found.one)
    for name, policy in (("swaps", NeighbourSwaps(0.4)), ("shuffled", ShuffledShare(1.0))):
        written = simulation(1, policy).save_log(found.folder / f"{name}_log.parquet", 2e4, seed=1)
        written.save(found.folder / f"{name}.parquet")
    parts = []
    for number, (eta, device) in enumerate([(0.3, "phone"), (1.5, "Desktop / Web"), (1, None)]):
        path = found.folder / "part.parquet"
        simulation(eta, NeighbourSwaps(0.5)).save_log(path, 2e4, seed=number)
        part = pq.read_table(path)
        sessions = pa.array([f"{device}-{session}" for session in part["session_id"].to_pylist()])
        part = part.set_column(part.column_names.index("session_id"), "session_id", sessions)
        parts.append(part.append_column("device", pa.array([device] * len(part), pa.string())))
    pq.write_table(pa.concat_tables(parts), found.devices)
    trusting = TrustBiased(eta=1, epsilon_plus=0.95, epsilon_minus=(0.6, 0.4, 0.25, 0.15))
    Simulation(data, scores, trusting, NeighbourSwaps(0.5), depth=4).draw(1e6, seed=0).save(found.trust)
    return found


def examined(result: dict[str, Any]) -> list[float]:
    return [entry["examined"] for entry in result["positions"]]


class TestEstimate:
    def test_the_file_is_what_the_library_finds_and_trains(self, propensity: Run, logs: Logs) -> None:
        result = propensity(
            "estimate", logs.swaps, "--out", "rho.json", "--method", "all-pairs", "--seed", "3", "--json"
        ).json
        expected = AllPairs(seed=3).fit(cr.ClickTable.read(logs.swaps))
        saved = Propensities.load("rho.json")
        np.testing.assert_array_equal(saved.values, expected.values)
        np.testing.assert_array_equal(saved.low, expected.low)
        assert examined(result) == expected.values.tolist()
        assert result["goodness"]["p_value"] == expected.goodness.p_value  # type: ignore[union-attr]
        assert result["behaviour"]["looks"] == "position-based"
        assert (result["method"], result["chosen_because"], result["out"]) == ("all-pairs", None, "rho.json")
        data = cr.load(logs.data)
        cr.IPS().fit(data, cr.ClickTable.read(logs.swaps, data), saved)

    def test_people_see_table_choice_and_what_to_do_next(self, propensity: Run, logs: Logs) -> None:
        ran = propensity("estimate", logs.swaps, "-o", "rho.json", "--features", logs.data)
        assert ran.code == 0
        assert "90% interval" in ran.out
        assert "fit  clicks of the same candidates elsewhere agree" in ran.out
        assert "\nClicks do not refute the position-based model: " in ran.out
        assert "wrote rho.json\n" in ran.out
        assert "all-pairs was chosen: " in ran.err
        train = f"next: cldrank train cld-pair --model trees --features {logs.data} --clicks {logs.swaps} --propensity"
        assert f"{train} rho.json" in ran.err

    def test_without_xgboost_the_next_command_needs_none(
        self, propensity: Run, logs: Logs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cldrank.cli.propensity.find_spec", lambda _: None)
        ran = propensity("estimate", logs.swaps, "-o", "rho.json")
        assert f"next: cldrank train cld --features FEATURES --clicks {logs.swaps} " in ran.err

    def test_probabilities_of_the_log(self, propensity: Run, logs: Logs) -> None:
        result = propensity("estimate", logs.shuffled_log, "-o", "rho.json", "--method", "logged", "--json").json
        truth = [1, 1 / 2, 1 / 3, 1 / 4]
        for entry, value in zip(result["positions"], truth, strict=True):
            assert entry["low"] / 1.1 < value < entry["high"] * 1.1
        refused = propensity("estimate", logs.shuffled, "-o", "rho.json", "--method", "logged")
        assert refused.code == 2
        assert refused.err.startswith("error: logged: it needs the probability")


class TestRefusal:
    def test_one_ranker(self, propensity: Run, logs: Logs) -> None:
        ran = propensity("estimate", logs.one, "-o", "rho.json")
        assert ran.code == 1
        assert ran.out == ""
        assert "all-pairs, pivot, adjacent-chain: each candidate was shown at one position only" in ran.err
        assert "regression-em" in ran.err
        assert not Path("rho.json").exists()

    def test_what_is_possible_is_spelled_as_an_option(self, propensity: Run, logs: Logs) -> None:
        ran = propensity("estimate", logs.swaps, "-o", "rho.json", "--method", "pivot")
        assert ran.code == 1
        assert "--depth 3 estimates the first 3 positions" in ran.err
        assert propensity("estimate", logs.swaps, "-o", "rho.json", "--method", "pivot", "--depth", "3").code == 0


class TestModelsOfRelevance:
    def test_regression_says_how_far_it_can_be_trusted(self, propensity: Run, logs: Logs) -> None:
        ran = propensity("estimate", logs.one, "-o", "rho.json", "--method", "regression-em", "--features", logs.data)
        assert ran.code == 0
        assert "relevance is modelled, not held fixed" in ran.out
        assert ran.err.count("warning") == 0  # said once, with the result
        assert Propensities.load("rho.json").method == "RegressionEM"

    def test_an_option_that_a_method_lacks(self, propensity: Run, logs: Logs) -> None:
        ran = propensity("estimate", logs.swaps, "-o", "rho.json", "--method", "pivot", "--refits", "3")
        assert (ran.code, ran.err) == (2, "error: pivot has no option --refits; dual-learning has it.\n")


def test_slopes_and_bases(run: Run, propensity: Run, logs: Logs) -> None:
    ran = propensity("estimate", logs.trust, "-o", "trust.json", "--method", "trust-bias")
    assert ran.code == 0
    assert "slope, 90% interval" in ran.out
    assert "is refuted" in ran.out
    assert "cldrank train affine-ips --features FEATURES" in " ".join(ran.err.split())
    assert "--propensity trust.json --hold-out 0.2 --out ranker/" in " ".join(ran.err.split())
    found = AffineClicks.load("trust.json")
    assert len(found) == 4
    shown = run("show", "trust.json", "--json").json["curves"]["trust.json"]["positions"]
    assert [entry["slope"] for entry in shown] == found.slope.tolist()
    assert "base, 90% interval" in run("show", "trust.json").out


class TestSegments:
    def test_all_segments_in_one_file(self, run: Run, propensity: Run, logs: Logs) -> None:
        call = ("estimate", logs.devices, "--log-column", "segment=device", "-o", "rho.json")
        result = propensity(*call, "--json").json
        assert list(result["segments"]) == [NO_SEGMENT, "Desktop / Web", "phone"]
        found = SegmentPropensities.load("rho.json")
        phone, desktop = (found[name].values[3] for name in ("phone", "Desktop / Web"))
        assert phone == pytest.approx(4**-0.3, rel=0.1)
        assert desktop == pytest.approx(4**-1.5, rel=0.2)
        ran = propensity(*call)
        assert "Desktop / Web" in ran.out
        run("show", "rho.json", "--plot", "rho.svg")
        assert Path("rho.svg").read_text().count(", position ") == 12
        assert [path.name for path in Path().glob("rho*.json")] == ["rho.json"]
        assert list(run("show", "rho.json", "--json").json["curves"]) == list(found)

    def test_cells_and_methods_without_segments(self, propensity: Run, logs: Logs) -> None:
        cells = propensity("estimate", logs.swaps, "--log-column", "segment=device", "-o", "rho.json")
        assert (cells.code, "cells" in cells.err) == (2, True)
        for method in ("trust-bias", "logged"):
            ran = propensity(
                "estimate", logs.devices, "--log-column", "segment=device", "--method", method, "-o", "rho.json"
            )
            assert (ran.code, f"{method} does not take segments" in ran.err) == (2, True)


def test_what_was_written_is_shown(run: Run, propensity: Run, logs: Logs) -> None:
    written = propensity("estimate", logs.swaps, "-o", "rho.json", "--json").json
    Propensities.power(1, 4).save("truth.json")
    shown = run("show", "rho.json", "truth.json", "--plot", "both.svg", "--json").json["curves"]
    assert shown["rho.json"]["positions"] == written["positions"]
    assert shown["rho.json"]["notes"] == written["notes"]
    assert examined(shown["truth.json"]) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert "power law, eta 1" in run("show", "truth.json").out
    assert Path("both.svg").read_text().count(", position ") == 8


class TestComplaints:
    @pytest.mark.parametrize(
        ("arguments", "complaint", "code"),
        [
            (["{swaps}", "--method", "magic"], "--method", 2),
            (["{swaps_log}", "--log-column", "doc_id=page"], "'page'", 1),
            (["{swaps}", "--depth", "9"], "position 4", 2),
            (["{data}"], "'session_id'", 1),
            (["broken.csv"], "100.0% of 3 rows", 1),
        ],
    )
    def test_one_or_two_lines(
        self, propensity: Run, logs: Logs, arguments: list[str], complaint: str, code: int
    ) -> None:
        head = "session_id,query_id,doc_id,position,clicked\n"
        Path("broken.csv").write_text(head + "1,q,a,first,0\n" * 3)
        named = [str(getattr(logs, part[1:-1])) if part.startswith("{") else part for part in arguments]
        ran = propensity("estimate", *named, "-o", "rho.json")
        assert ran.code == code
        assert complaint in ran.err
        error = ran.err[ran.err.index("error: ") :]
        assert len(error.splitlines()) <= 2
        assert not Path("rho.json").exists()

    def test_a_curve_of_another_site_is_refused_unless_the_user_insists(self, run: Run, logs: Logs) -> None:
        call = ("train", "ips", "--features", logs.data, "--clicks", logs.swaps, "--propensity", "power:0.2")
        refused = run(*call, "--out", "ranker")
        assert refused.code == 1
        assert "position 2: 0.87 supplied, 0.5" in refused.err
        assert "--trust-propensity" in refused.err
        assert run(*call, "--trust-propensity", "--out", "ranker").code == 0
