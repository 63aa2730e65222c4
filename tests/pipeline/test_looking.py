from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.errors import DataError, UsageError
from cldrank.pipeline import read_pipeline, run_pipeline
from cldrank.pipeline.looking import look
from cldrank.pipeline.sections import TrainSettings, VerdictSettings
from cldrank.pipeline.writing import write_pipeline


def renamed(place: Path, **names: str) -> None:
    table = pq.read_table(place / "log.parquet")
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), place / "log.parquet")


def written(place: Path, log: str = "log.parquet") -> Path:
    found = look([str(place / log)], [str(place / "train.parquet")])
    path = place / "new.toml"
    path.write_text(write_pipeline(found, place), encoding="utf-8")
    return path


def test_the_file_runs_as_it_is(place: Path) -> None:
    record = run_pipeline(read_pipeline(written(place)))
    assert record.status == "shipped"


def test_every_key_is_there_with_its_sentence(place: Path) -> None:
    from cldrank.decoding import keys_of

    text = written(place).read_text()
    for kind in (TrainSettings, VerdictSettings):
        for key, one in keys_of(kind).items():
            assert f"{key} = " in text
            assert one.about in text
    bare = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    for line in ("max_rejected = 0.05", 'stop_at = "blocking"', "keep = 30"):
        assert f"\n{line}" in bare


def test_paths_are_relative_to_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    found = look(["place/log.parquet"], ["place/train.parquet"])
    assert 'files = ["log.parquet"]' in write_pipeline(found, Path("place"))
    assert 'files = ["place/log.parquet"]' in write_pipeline(found, Path())


def test_columns_with_other_names_are_found(place: Path) -> None:
    renamed(place, query_id="qid", doc_id="Item", position="rank", session_id="search_id", clicked="click")
    definition = read_pipeline(written(place))
    assert definition.log_options["columns"] == {
        "query_id": "qid", "doc_id": "Item", "position": "rank", "session_id": "search_id", "clicked": "click",
    }  # fmt: skip
    assert run_pipeline(definition).status == "shipped"


def test_positions_from_0_are_found(place: Path) -> None:
    table = pq.read_table(place / "log.parquet")
    at = table.column_names.index("position")
    below = pc.subtract(table["position"], pa.scalar(1, table["position"].type))
    pq.write_table(table.set_column(at, "position", below), place / "log.parquet")
    definition = read_pipeline(written(place))
    assert definition.log_options["first_position"] == 0
    assert run_pipeline(definition).status == "shipped"


def test_text_files_are_looked_at(place: Path) -> None:
    pa_csv.write_csv(pq.read_table(place / "log.parquet"), place / "log.csv")
    assert look([str(place / "log.csv")], [str(place / "train.parquet")]).kind == "plain"


def test_a_log_of_one_order_needs_an_assumed_curve(place: Path) -> None:
    data = cr.load(place / "train.parquet")
    simulation = Simulation(data, scores=data.features[:, 1], model=PositionBased(1.0, 0.1), depth=5)
    simulation.save_log(place / "log.parquet", 2000, seed=0)
    found = look([str(place / "log.parquet")], [str(place / "train.parquet")])
    assert found.assume == "power:1.0"
    assert any("cannot be estimated" in remark for remark in found.remarks)
    assert read_pipeline(written(place)).propensities.assume == "power:1.0"


def test_rows_that_would_be_set_aside_are_told(place: Path) -> None:
    data = cr.load(place / "train.parquet")
    data[:30].save(place / "train.parquet")
    found = look([str(place / "log.parquet")], [str(place / "train.parquet")])
    assert any("unknown query" in remark for remark in found.remarks)


def test_a_log_without_positions_is_refused(place: Path) -> None:
    renamed(place, position="x")
    with pytest.raises(DataError, match="no column that looks like position"):
        look([str(place / "log.parquet")], [str(place / "train.parquet")])


def test_columns_are_named_where_their_names_do_not_tell(place: Path) -> None:
    renamed(place, position="x", query_id="q_text")
    named = {"position": "x", "query_id": "q_text"}
    found = look([str(place / "log.parquet")], [str(place / "train.parquet")], named)
    assert found.columns == named
    assert 'position = "x"' in write_pipeline(found, place)
    with pytest.raises(DataError, match="no column 'y' to be position"):
        look([str(place / "log.parquet")], [str(place / "train.parquet")], {**named, "position": "y"})
    with pytest.raises(UsageError, match="the role 'rank'"):
        look([str(place / "log.parquet")], [str(place / "train.parquet")], {"rank": "x"})


def test_a_log_without_documents_is_told_to_name_them(place: Path) -> None:
    renamed(place, doc_id="thing")
    with pytest.raises(DataError, match="--column doc_id=NAME .or documents"):
        look([str(place / "log.parquet")], [str(place / "train.parquet")])
    renamed(place, thing="SKU")
    assert look([str(place / "log.parquet")], [str(place / "train.parquet")]).columns["doc_id"] == "SKU"


def test_times_and_surfaces_lead_to_suggestions(place: Path) -> None:
    table = pq.read_table(place / "log.parquet")
    table = table.append_column("ts", pa.array(["2026-11-15T00:00:00Z"] * len(table)))
    pq.write_table(table.append_column("device", pa.array(["phone"] * len(table))), place / "log.parquet")
    text = written(place).read_text()
    assert '# last = "28d"' in text
    assert '# segment = "device"' in text


UBI_QUERY = {"query_id": "1", "user_query": "shoes", "query_response_hit_ids": ["a"]}
UBI_EVENT = {"action_name": "click", "query_id": "1", "timestamp": "2026-11-15T00:00:00Z"}


@pytest.mark.parametrize("wrap", [False, True])
def test_ubi_is_recognised(place: Path, wrap: bool) -> None:
    for name, record in (("q.jsonl", UBI_QUERY), ("e.jsonl", UBI_EVENT)):
        (place / name).write_text(json.dumps({"_source": record} if wrap else record) + "\n")
    found = look([str(place / "e.jsonl"), str(place / "q.jsonl")], [str(place / "train.parquet")])
    assert found.kind == "ubi"
    assert found.queries == (str(place / "q.jsonl"),)
    assert found.events == (str(place / "e.jsonl"),)
    text = write_pipeline(found, place)
    assert 'queries = ["q.jsonl"]' in text or str(place / "q.jsonl") in text
    with pytest.raises(UsageError, match="name the files of its events as well"):
        look([str(place / "q.jsonl")], [str(place / "train.parquet")])


@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [
        ("events.jsonl", '{"event": "ranking", "id": "1", "items": []}', "metarank"),
        ("log.txt", "1\t0\tQ\t7\t2\t11\t12", "yandex"),
    ],
)
def test_other_logs_are_recognised(place: Path, name: str, line: str, kind: str) -> None:
    (place / name).write_text(line + "\n")
    found = look([str(place / name)], [str(place / "train.parquet")])
    assert found.kind == kind
    assert f'from = "{kind}"' in write_pipeline(found, place)
