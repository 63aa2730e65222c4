from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_pipeline import run, write_definition, write_world

import cldrank as cr
from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.files import holding
from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline
from cldrank.pipeline.running import runs_in
from cldrank.pipeline.steps import Workbench, train_task

EVERY = ["audit", "aggregate", "propensities", "train", "verdict", "export", "card"]


def done(record: RunRecord) -> list[str]:
    """The steps that ran."""
    return [step.name for step in record.steps if step.state == "done"]


def written(record: RunRecord) -> dict[str, Any]:
    return {step.name: dict(step.wrote) for step in record.steps}


def test_a_run_ships_what_the_single_functions_make(ran: Path, record: RunRecord) -> None:
    assert record.status == "shipped"
    assert list(record.states) == EVERY
    data = cr.load(ran / "train.parquet")
    clicks = cr.ClickTable.read(ran / "log.parquet", data)
    rho = cr.propensity.AllPairs().fit(clicks)
    held = cr.data.held_out(data.query_ids, 0.2)
    ranker = cr.IPS().fit(data[~held], clicks[~held], rho).ranker_
    shipped = cr.load_ranker(ran / "shipped" / "ranker")
    np.testing.assert_array_equal(shipped.predict(data), ranker.predict(data))
    verdict = cr.compare(ranker, "production", data[held], clicks=clicks[held], propensities=rho)
    facts: Any = record.step("verdict")
    assert facts.facts["decision"] == verdict.verdict.decision == "better"
    assert facts.facts["low"] == pytest.approx(verdict.first.interval.low)


def test_the_log_chooses_the_method(ran: Path, record: RunRecord) -> None:
    def described(*changes: tuple[str, str]) -> Workbench:
        pipeline = read_pipeline(write_definition(ran, [('method = "ips"', 'method = "auto"'), *changes]))
        return Workbench(pipeline, ran / "runs", results={step.name: step for step in record.steps})

    bench, for_onnx = described(), described(('["onnx", "opensearch"]', '["onnx"]'))
    assert train_task(bench).key != train_task(for_onnx).key  # as engines have a say
    choice = cr.auto(bench.dataset, bench.clicks, bench.curve, export_to=["onnx", "opensearch"])
    trained = bench.store.carry_out(train_task(bench))
    assert trained.decided.endswith(choice.reason)
    ranker = cr.load_ranker(bench.store.folder / trained.folder / "ranker")
    assert (ranker.provenance.chosen, ranker.provenance.estimator) == (choice.reason, type(choice.method).__name__)


def test_a_run_leaves_all_that_is_needed_to_repeat_it(ran: Path, record: RunRecord) -> None:
    folder = ran / "runs" / record.name
    assert (folder / "pipeline.toml").read_text() == (ran / "pipeline.toml").read_text()
    found = RunRecord.load(folder)
    assert found.versions["cldrank"] == cr.__version__
    assert found.command == "cldrank pipeline run"
    assert set(found.inputs) == {"log", "features"}
    assert found.inputs["log"].keys() == {"log.parquet"}
    trained: Any = found.step("train")
    assert (ran / "runs" / "steps" / trained.folder / "ranker" / "ranker.json").is_file()
    assert (folder / "run.html").is_file()


def test_a_second_run_computes_nothing(ran: Path, record: RunRecord) -> None:
    before = (ran / "shipped").stat().st_ino
    again = run(ran)
    assert set(again.states.values()) == {"reused"}
    assert "cldrank pipeline run pipeline.toml" in (ran / "shipped" / "ranker" / "README.md").read_text()
    assert not again.changed
    assert again.status == "shipped"
    assert again.name != record.name
    assert (ran / "shipped").stat().st_ino == before


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (('method = "ips"', 'method = "ips"\nl2 = 10'), ["train", "verdict", "export", "card"]),
        (('["onnx", "opensearch"]', '["onnx"]'), ["export", "card"]),
        (("[train]", '[audit]\nstop_at = "never"\n[train]'), ["audit"]),  # whose verdict is the same
        (
            ("[train]", '[propensities]\nassume = "power:1.0"\n[train]'),
            ["propensities", "train", "verdict", "export", "card"],
        ),
        (("features.", 'log.memory_limit = "1GB"\nfeatures.'), []),  # which decides nothing
    ],
)
def test_a_changed_setting_runs_its_step_and_what_depends_on_it(
    ran: Path, change: tuple[str, str], steps: list[str]
) -> None:
    assert done(run(ran, change)) == steps


def test_other_features_run_all_that_reads_them(ran: Path) -> None:
    data = cr.load(ran / "train.parquet")
    replace(data, features=data.features * 2).save(ran / "train.parquet")
    assert done(run(ran)) == [name for name in EVERY if name != "propensities"]  # of the same cells


def test_going_back_finds_what_there_was(ran: Path, record: RunRecord) -> None:
    run(ran, ('method = "ips"', 'method = "naive"'))
    back = run(ran)
    assert done(back) == ["export", "card"]  # which must be shipped again
    assert written(back) == written(record)


def test_a_damaged_result_is_made_again(ran: Path, record: RunRecord) -> None:
    (ran / "runs" / "steps" / record.step("propensities").folder / "rho.json").write_text("{}")  # type: ignore[union-attr]
    again = run(ran)
    assert done(again) == ["propensities"]
    assert written(again) == written(record)


@pytest.mark.parametrize("lost", [".", "onnx", "ranker/README.md", "opensearch/featureset.json"])
def test_what_is_no_longer_shipped_is_shipped_again(ran: Path, lost: str) -> None:
    path = ran / "shipped" / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert done(run(ran)) == ["export", "card"]
    assert path.exists()
    assert not run(ran).changed


def test_what_was_changed_where_it_is_shipped_is_shipped_again(ran: Path) -> None:
    path = ran / "shipped" / "ranker" / "ranker.json"
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    assert done(run(ran)) == ["export", "card"]
    assert path.read_bytes() == before


def test_an_export_that_was_edited_where_it_is_shipped_is_not_replaced(ran: Path) -> None:
    path = ran / "shipped" / "opensearch" / "model.json"
    edited = path.read_bytes() + b"\n"
    path.write_bytes(edited)
    with pytest.raises(UsageError, match=r"model\.json was edited"):
        run(ran)
    assert path.read_bytes() == edited


def test_definitions_that_a_user_completed_are_kept(ran: Path) -> None:
    file = ran / "shipped" / "opensearch" / "featureset.json"
    completed = file.read_text().replace("TODO", "title_bm25", 1)
    file.write_text(completed)
    rest = ("trust_propensity = false", "trust_propensity = false\nconfidence = 0.8")
    assert done(run(ran, rest)) == ["verdict", "card"]
    assert file.read_text() == completed
    assert done(run(ran, rest, ('method = "ips"', 'method = "naive"'))) == ["train", "verdict", "export", "card"]
    assert file.read_text() == completed


def test_definitions_of_an_earlier_export_are_replaced(ran: Path) -> None:
    renamed = run(ran, ("[export]", '[export]\nname = "other"'))
    shipped, own = ran / "shipped", ran / "runs" / "steps" / renamed.step("export").folder  # type: ignore[union-attr]
    for file in ("opensearch/featureset.json", "opensearch/model.json"):
        assert (shipped / file).read_bytes() == (own / file).read_bytes()
    assert "other" in (shipped / "opensearch" / "featureset.json").read_text()


def test_the_place_of_another_pipeline_is_refused(ran: Path) -> None:
    other = read_pipeline(write_definition(ran, name="other.toml"))
    with pytest.raises(UsageError, match=r"belongs to pipeline\.toml"):
        run_pipeline(other)


def test_what_a_killed_run_shipped_is_new_to_the_next(ran: Path, record: RunRecord) -> None:
    assert record.new
    changed = ('method = "ips"', 'method = "naive"')
    killed = run(ran, changed)
    assert killed.new
    replace(killed, status="running", new=False).save(ran / "runs" / killed.name)  # as if it had ended before its end
    after = run(ran, changed)
    assert (after.changed, after.new) == (False, True)
    assert after.shipped == killed.shipped != record.shipped
    assert not run(ran, changed).new


def test_two_runs_at_once_are_refused(ran: Path) -> None:
    with holding(ran / "runs"), pytest.raises(CldrankError, match="in use"):
        run(ran)


def test_a_log_that_changes_meanwhile_is_refused(place: Path) -> None:
    def say(text: str) -> None:
        if text == "aggregating the log":
            write_world(place, seed=1)

    with pytest.raises(DataError, match=r"log\.parquet was changed"):
        run(place, say=say)
    found = runs_in(place / "runs")[-1][1]
    assert found.status == "failed"
    assert found.states["aggregate"] == "failed"
    assert done(run(place)) == EVERY


def test_an_error_is_recorded(place: Path) -> None:
    with pytest.raises(UsageError, match=r"window.depth = 9 is deeper"):
        run(place, ("[train]", "[window]\ndepth = 9\n[train]"))
    found = runs_in(place / "runs")[-1][1]
    assert found.status == "failed"
    assert "window.depth" in found.reason
    assert found.states == dict.fromkeys(EVERY, "not run") | {"audit": "done", "aggregate": "failed"}
    assert not (place / "shipped").exists()


def test_ctrl_c_leaves_what_is_finished(place: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cldrank.pipeline.steps._trained", stop)
        with pytest.raises(KeyboardInterrupt):
            run(place)
    found = runs_in(place / "runs")[-1][1]
    assert found.status == "interrupted"
    assert found.states["train"] == "not run"
    again = run(place)
    assert done(again) == EVERY[3:]
    assert written(again) == written(record)


def test_a_network_that_is_stopped_goes_on_from_its_checkpoint(place: Path, tmp_path: Path) -> None:
    changes = [('method = "ips"', 'method = "ips"\nmodel = "mlp"\nepochs = 4\nhidden = [4]')]
    whole = run(shutil.copytree(place, tmp_path / "whole" / place.name), *changes)

    def stop_at(epoch: str) -> Callable[[str], None]:
        def say(text: str) -> None:
            if f"epoch {epoch}" in text:
                raise KeyboardInterrupt

        return say

    with pytest.raises(KeyboardInterrupt):
        run(place, *changes, say=stop_at("2 of 4"))
    assert list((place / "runs" / "unfinished").iterdir())
    said: list[str] = []
    again = run(place, *changes, say=said.append)
    assert not any("epoch 1 of" in text for text in said)
    assert any("epoch 4 of" in text for text in said)
    assert written(again) == written(whole)
    assert not list((place / "runs" / "unfinished").iterdir())


def test_old_runs_and_their_results_are_removed(ran: Path) -> None:
    keep = ('["onnx", "opensearch"]', '["onnx", "opensearch"]\n[runs]\nkeep = 2')
    for l2 in (1, 2, 3):
        run(ran, ('method = "ips"', f'method = "ips"\nl2 = {l2}'), keep)
    assert len(runs_in(ran / "runs")) == 2
    results = [folder.name.partition("-")[0] for folder in (ran / "runs" / "steps").iterdir()]
    assert sorted(results) == sorted(["audit", "aggregate", "propensities", *EVERY[3:] * 2])
