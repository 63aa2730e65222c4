from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_rankers as made
import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank import scaling
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, MissingValueError, UsageError
from cldrank.export import Exported, ExportFormat, ExportRequest, export_ranker, shipping
from cldrank.export.replay import NamedTable
from cldrank.rankers import LinearRanker, Ranker


class Bent(ExportFormat):
    """An engine that scores otherwise: f(score), with a template that depends on names, version and name."""

    # no `name` in the class: the registry must not find it
    label, newest, takes_negative, takes = "Bent", "3.0", False, (Ranker,)
    losses: tuple[str, ...] = ()
    unmatched = "zero"

    def __init__(self, ranker: Ranker | None = None, bend: Any = lambda scores: scores) -> None:
        self.name, self.ranker, self.bend = "bent", ranker, bend  # type: ignore[misc]

    def write(self, ranker: Ranker, request: ExportRequest, names: Sequence[str]) -> Exported:
        features = {"set": request.name, "features": [{"name": name, "query": "TODO"} for name in names]}
        files = {
            "model.json": f"{ranker.kind} {request.name}".encode(),
            "features.json": json.dumps(features).encode(),
            "run.py": b"upload()",
        }
        return Exported(files=files, to_fill={"features.json": names}, unmatched=self.unmatched, losses=self.losses)

    def replay(self, files: Mapping[str, bytes], table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        del files, request
        assert self.ranker is not None
        found: NDArray[np.float64] = self.bend(self.ranker.predict(table.values))
        return found


def bent(monkeypatch: pytest.MonkeyPatch, ranker: Ranker | None = None, bend: Any = lambda scores: scores) -> Bent:
    own = Bent(ranker, bend)
    monkeypatch.setattr(shipping, "format_named", lambda _: own)
    return own


def linear(scale: float, intercept: float = 0.0) -> LinearRanker:
    """Scores that spread over about `scale`."""
    rule = scaling.fit("minmax", made.FEATURES)
    return LinearRanker(
        feature_names=made.NAMES, scaling=rule, coefficients=np.array([scale, 0, 0, 0]), intercept=intercept
    )


class TestProof:
    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
    def test_scores_may_differ_by_rounding_and_no_more(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scale: float
    ) -> None:
        ranker = linear(scale)
        bent(monkeypatch, ranker, lambda scores: scores + 5e-5 * scale)
        found = export_ranker(ranker, "bent", tmp_path / "near", check=made.dataset())
        assert found.parity is not None
        assert found.parity.spread == pytest.approx(scale, rel=0.1)
        bent(monkeypatch, ranker, lambda scores: scores + 2e-4 * scale)
        with pytest.raises(DataError, match="Bent would not score as the ranker does .*nothing is written"):
            export_ranker(ranker, "bent", tmp_path / "far", check=made.dataset())
        assert not (tmp_path / "far").exists()

    def test_scores_too_close_for_float32_are_refused_unless_that_is_wanted(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        ranker = linear(0.01, intercept=1e5)
        bent(monkeypatch, ranker, lambda scores: scores.astype(np.float32).astype(np.float64))
        with pytest.raises(DataError, match=r"lie within 0.01 of each other, .* `approximate=True` writes it"):
            export_ranker(ranker, "bent", tmp_path / "out", check=made.dataset())
        assert not (tmp_path / "out").exists()
        found = export_ranker(ranker, "bent", tmp_path / "out", check=made.dataset(), approximate=True)
        assert found.parity is not None
        assert found.parity.tied > 0

    def test_nan_is_not_a_score(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        bent(monkeypatch, made.trees(), lambda scores: scores * np.nan)
        with pytest.raises(DataError, match="would not score as the ranker does"):
            export_ranker(made.trees(), "bent", tmp_path / "out", check=made.dataset(), approximate=True)

    def test_an_approximation_is_written_with_the_difference(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        bent(monkeypatch, made.trees(), lambda scores: -scores).losses = ("everything",)
        found = export_ranker(made.trees(), "bent", tmp_path / "out", approximate=True, check=made.dataset())
        assert found.parity is not None
        assert found.parity.swapped > 0
        record = json.loads((tmp_path / "out" / "export.json").read_text())
        assert record["losses"] == ["everything"]
        assert record["parity"]["swapped"] == found.parity.swapped


class TestFolders:
    @pytest.fixture(autouse=True)
    def _bent(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.format, self.folder = bent(monkeypatch), tmp_path / "out"
        self.first = export_ranker(made.trees(), "bent", self.folder)

    def edit(self, **changes: Any) -> bytes:
        """Complete the queries, and change what is said."""
        content = json.loads((self.folder / "features.json").read_text())
        for feature in content["features"]:
            feature["query"] = "done"
        (self.folder / "features.json").write_text(json.dumps(content | changes, ensure_ascii=True))
        return (self.folder / "features.json").read_bytes()

    def test_placeholders_are_counted(self) -> None:
        assert self.first.to_do == {"features.json": 4}
        self.edit()
        assert export_ranker(made.trees(), "bent", self.folder).to_do == {"features.json": 0}

    def test_completed_definitions_survive_the_next_export(self) -> None:
        edited = self.edit()
        found = export_ranker(made.linear(), "bent", self.folder)
        assert found.kept == ("features.json",)
        assert (self.folder / "features.json").read_bytes() == edited
        assert (self.folder / "model.json").read_bytes() == b"linear cldrank"
        assert export_ranker(made.linear(), "bent", self.folder).kept == ("features.json",)  # and the one after

    def test_definitions_that_lack_a_feature_are_refused(self) -> None:
        self.edit(features=[{"name": name} for name in ("bm25", "pagerank", "l_nge", "clicks2")])
        with pytest.raises(UsageError, match="was edited and does not define 'clicks', which this ranker uses"):
            export_ranker(made.linear(), "bent", self.folder)
        assert (self.folder / "model.json").read_bytes() == b"trees cldrank"

    def test_definitions_for_another_name_are_refused(self) -> None:
        self.edit()
        with pytest.raises(UsageError, match="was completed for 'cldrank', .* not for 'other'"):
            export_ranker(made.trees(), "bent", self.folder, name="other")

    def test_definitions_for_another_meaning_are_refused(self) -> None:
        self.edit()
        self.format.unmatched = "missing"
        with pytest.raises(UsageError, match="does not match is zero, not for .* is missing"):
            export_ranker(made.trees(), "bent", self.folder)

    def test_other_files_that_were_edited_are_not_replaced(self) -> None:
        (self.folder / "run.py").write_text("upload(password)")
        with pytest.raises(UsageError, match=r"run.py was edited and would be replaced; move it away"):
            export_ranker(made.trees(), "bent", self.folder)
        assert (self.folder / "run.py").read_text() == "upload(password)"

    def test_what_belongs_to_somebody_else_is_not_replaced(self) -> None:
        (self.folder / "notes").mkdir()
        (self.folder / "notes" / "mine.txt").write_text("precious")
        with pytest.raises(UsageError, match=r"holds 'notes/mine.txt', which no export wrote"):
            export_ranker(made.trees(), "bent", self.folder)
        assert (self.folder / "notes" / "mine.txt").read_text() == "precious"

    def test_a_folder_without_an_export_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "model.json").write_text("{}")
        with pytest.raises(UsageError, match="is not empty and holds no export of cldrank"):
            export_ranker(made.trees(), "bent", tmp_path / "mine")


def test_a_fitted_method_is_exported_by_its_ranker(tmp_path: Path) -> None:
    found = export_ranker(SimpleNamespace(ranker_=made.linear()), "onnx", tmp_path / "out.onnx")
    assert (
        found.exported.files["model"]
        == export_ranker(made.linear(), "onnx", tmp_path / "b.onnx").exported.files["model"]
    )
    with pytest.raises(UsageError, match="a ranker or a fitted method can be exported, not"):
        export_ranker("ranker/", "onnx", tmp_path / "c.onnx")


def test_missing_values_for_a_ranker_without_use_for_them_are_named_with_the_remedy(tmp_path: Path) -> None:
    table = made.FEATURES.copy()
    table[3, 1] = np.nan
    data = RankingDataset.from_arrays(table, np.arange(300) // 7, feature_names=made.NAMES, missing="keep")
    with pytest.raises(MissingValueError, match="feature 'pagerank' of row 3.*`missing=0`"):
        export_ranker(made.linear(), "onnx", tmp_path / "out.onnx", check=data)
    assert not list(tmp_path.iterdir())
