from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from small_pipeline import run, write_definition

import cldrank as cr
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.pipeline import read_pipeline, run_pipeline
from cldrank.pipeline.running import runs_in
from cldrank.pipeline.steps import Workbench


def bench(place: Path, *changes: tuple[str, str]) -> Workbench:
    pipeline = read_pipeline(write_definition(place, changes))
    return Workbench(pipeline, place / "runs")


def write_halves(place: Path, rows: int = 10000) -> None:
    """The log in two folders, in files of the same name."""
    table = pq.read_table(place / "log.parquet")
    for name, half in (("a", table.slice(0, rows)), ("b", table.slice(20000))):
        (place / name).mkdir(exist_ok=True)
        pq.write_table(half, place / name / "log.parquet")


def test_files_of_one_name_in_two_folders_are_two(place: Path) -> None:
    named = ('"log.parquet"', '["a/log.parquet", "b/log.parquet"]')
    write_halves(place)
    before = bench(place, named)
    first = before.hashes("log")
    assert before.inputs["log"].keys() == {"a/log.parquet", "b/log.parquet"}
    write_halves(place, rows=5000)
    assert bench(place, named).hashes("log") != first


def test_a_file_that_is_named_twice_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.parquet.*twice"):
        bench(place, ('"train.parquet"', '["train.parquet", "train.parquet"]')).hashes("features")


def test_features_with_gaps_name_the_key_that_fills_them(place: Path) -> None:
    table = pq.read_table(place / "train.parquet")
    gaps = pc.if_else(pc.greater(table["age"], 1.5), None, table["age"])
    pq.write_table(table.set_column(table.column_names.index("age"), "age", gaps), place / "train.parquet")
    with pytest.raises(
        DataError, match=r"train\.parquet.*'age'.*`features\.missing = 0\.0`.*`features\.missing = .keep.`"
    ):
        run_pipeline(read_pipeline(write_definition(place)))
    filled = [('features.files = "train.parquet"', 'features = { files = "train.parquet", missing = 0 }')]
    assert run_pipeline(read_pipeline(write_definition(place, filled))).status == "shipped"


def test_columns_that_are_not_found_are_asked_for_as_keys(place: Path) -> None:
    table = pq.read_table(place / "train.parquet")
    names = {"query_id": "search"}
    pq.write_table(
        table.rename_columns([names.get(name, name) for name in table.column_names]), place / "train.parquet"
    )
    with pytest.raises(DataError, match=r'`features\.columns\.query_id = "…"`'):
        run(place)
    assert "columns={" not in runs_in(place / "runs")[0][1].reason


@pytest.mark.parametrize("happens", ["arrived", "was removed"])
def test_a_file_that_comes_or_goes_during_a_run_is_refused(place: Path, happens: str) -> None:
    (place / "logs").mkdir()
    table, second = pq.read_table(place / "log.parquet"), place / "logs" / "2.parquet"
    pq.write_table(table.slice(0, 20000), place / "logs" / "1.parquet")
    if happens == "was removed":
        pq.write_table(table.slice(20000), second)

    def say(text: str) -> None:
        if text == "aggregating the log" and happens == "arrived":
            pq.write_table(table.slice(20000), second)
        elif text == "aggregating the log":
            second.unlink()

    pipeline = read_pipeline(write_definition(place, [('"log.parquet"', '"logs"')]))
    with pytest.raises(DataError, match=rf"2\.parquet {happens}"):
        run_pipeline(pipeline, say=say)


def test_ratings_are_an_input_of_training_and_of_the_verdict(place: Path) -> None:
    data = cr.load(place / "train.parquet")
    ids = {
        "query_id": data.query_ids[data.row_queries],
        "doc_id": cr.ClickTable.read(place / "log.parquet", data).candidates.doc_ids,
    }
    rows = pd.DataFrame({**ids, "rating": data.labels})
    rows.to_csv(place / "ratings.csv", index=False)
    named = ("[train]", '[ratings]\nfile = "ratings.csv"\n\n[train]')
    before = {step.name: step for step in run(place, named).steps}
    told = json.loads(
        (place / "runs" / "steps" / before["verdict"].folder / "verdict.json").read_text(encoding="utf-8")
    )
    assert [each["raters"] for each in told["ratings"]["agreements"]] == ["machines"]
    rows.assign(rating=rows.rating + 1).to_csv(place / "ratings.csv", index=False)
    after = {step.name: step for step in run(place, named).steps}
    changed = [name for name, step in after.items() if step.folder != before[name].folder]
    assert {"train", "verdict"} <= set(changed)
    assert not {"audit", "aggregate", "propensities"} & set(changed)
    with pytest.raises(FormatError, match=r"ratings\.file"):
        bench(place, ("[train]", '[ratings]\npeople = ["anna"]\n\n[train]'))
