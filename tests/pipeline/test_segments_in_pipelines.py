from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_pipeline import write_definition

from cldrank.errors import DataError
from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline


@pytest.fixture
def devices(place: Path) -> Path:
    """A place whose log names the device of each page."""
    table = pq.read_table(place / "log.parquet")
    device = np.where(table["session_id"].to_numpy() % 2 == 0, "phone", "desktop")
    pq.write_table(table.append_column("device", pa.array(device)), place / "log.parquet")
    return place


def run(place: Path, *lines: str) -> RunRecord:
    section = "\n".join(["[propensities]", 'segment = "device"', *lines, "[train]"])
    return run_pipeline(read_pipeline(write_definition(place, [("[train]", section)])))


def test_one_ranker_from_the_curves_of_all_segments(devices: Path) -> None:
    record = run(devices)
    assert record.status == "shipped"
    found: Any = record.step("propensities")
    assert found.facts["values"].keys() == {"desktop", "phone"}
    curves = json.loads((devices / "runs" / "steps" / found.folder / "rho.json").read_text())
    assert curves["segments"].keys() == {"desktop", "phone"}


def test_curves_of_segments_can_be_assumed(devices: Path) -> None:
    """Against what the log says, which refuses them otherwise."""
    assumed = 'assume = "phone=power:1.2,desktop=power:0.8"'
    with pytest.raises(DataError, match="trust_propensity"):
        run(devices, assumed)
    section = "\n".join(["[propensities]", 'segment = "device"', assumed, "[train]"])
    insisting = ("trust_propensity = false", "trust_propensity = true")
    record = run_pipeline(read_pipeline(write_definition(devices, [("[train]", section), insisting])))
    found: Any = record.step("propensities")
    assert found.facts["values"]["phone"][1] == pytest.approx(2**-1.2, abs=1e-4)


def test_pages_of_several_surfaces_are_not_pooled_silently(devices: Path) -> None:
    table = pq.read_table(devices / "log.parquet")
    names = ["surface" if name == "device" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), devices / "log.parquet")
    pooled = run_pipeline(read_pipeline(write_definition(devices)))
    audit = pooled.step("audit")
    assert audit is not None
    assert any('segment = "surface"' in warning and "phone" in warning for warning in audit.warnings)
    section = '[propensities]\nsegment = "surface"\n[train]'
    by_surface = run_pipeline(read_pipeline(write_definition(devices, [("[train]", section)])))
    audit = by_surface.step("audit")
    assert audit is not None
    assert not any("segment" in warning for warning in audit.warnings)
