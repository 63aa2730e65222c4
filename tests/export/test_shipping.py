from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import made_rankers as made
import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.export import Exported, ExportFormat, ExportRequest, export_ranker, shipping
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import Ranker


class Wrong(ExportFormat):
    """An engine that scores otherwise."""

    label, sentence = "Wrong", "a format for these tests"
    losses: tuple[str, ...] = ()

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        features = "\n".join(request.names(ranker)).encode()
        files = {"model.json": ranker.kind.encode(), "features.txt": features + b"\nTODO"}
        return Exported(files=files, to_fill={"features.txt": request.names(ranker)}, losses=self.losses)

    def replay(self, files: Mapping[str, bytes], table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        del files, request
        return np.arange(len(table.values), dtype=np.float64)


@pytest.fixture(name="wrong")
def _wrong(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    own = Wrong()
    monkeypatch.setattr(shipping, "format_named", lambda _: own)
    return own


class TestProof:
    @pytest.mark.usefixtures("wrong")
    def test_nothing_is_written_where_scores_differ(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="Wrong would not score as the ranker does .*in opposite order"):
            export_ranker(made.trees(), "wrong", tmp_path / "out", check=made.dataset())
        assert not list(tmp_path.iterdir())

    def test_an_approximation_is_written_with_the_difference(self, wrong: Wrong, tmp_path: Path) -> None:
        wrong.losses = ("everything",)
        found = export_ranker(made.trees(), "wrong", tmp_path / "out", approximate=True, check=made.dataset())
        assert found.parity is not None
        assert found.parity.swapped > 0
        assert (tmp_path / "out" / "model.json").read_bytes() == b"trees"

    @pytest.mark.usefixtures("wrong")
    def test_an_approximation_needs_features(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="approximate needs features"):
            export_ranker(made.trees(), "wrong", tmp_path / "out", approximate=True)

    def test_features_of_another_ranker_are_refused(self, tmp_path: Path) -> None:
        others = made.dataset(names=("a", "b", "c", "d"))
        with pytest.raises(DataError, match="other features than the ranker was trained on"):
            export_ranker(made.trees(), "json", tmp_path / "out.json", check=others)

    def test_whole_queries_are_compared_up_to_a_limit(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(shipping, "_SAMPLE", 20)
        data = made.dataset()
        found = export_ranker(made.trees(), "json", tmp_path / "out.json", check=data)
        assert found.parity is not None
        assert (found.parity.rows, found.parity.queries) == (14, 2)
        one = RankingDataset.from_arrays(made.FEATURES, np.zeros(len(made.FEATURES)), feature_names=made.NAMES)
        found = export_ranker(made.trees(), "json", tmp_path / "out.json", check=one)
        assert found.parity is not None
        assert found.parity.rows == 300  # a query is never cut


class TestFolders:
    @pytest.mark.usefixtures("wrong")
    def test_completed_definitions_survive_the_next_export(self, tmp_path: Path) -> None:
        folder = tmp_path / "out"
        export_ranker(made.trees(), "wrong", folder)
        edited = b"bm25 pagerank l\xc3\xa4nge clicks: all defined"
        (folder / "features.txt").write_bytes(edited)
        found = export_ranker(made.linear(), "wrong", folder)
        assert found.kept == ("features.txt",)
        assert (folder / "features.txt").read_bytes() == edited
        assert (folder / "model.json").read_bytes() == b"linear"

    @pytest.mark.usefixtures("wrong")
    def test_definitions_that_lack_a_feature_are_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "out"
        export_ranker(made.trees(), "wrong", folder)
        (folder / "features.txt").write_text("bm25 pagerank")
        with pytest.raises(UsageError, match="was edited and does not mention 'länge', 'clicks'"):
            export_ranker(made.linear(), "wrong", folder)
        assert (folder / "model.json").read_bytes() == b"trees"

    @pytest.mark.usefixtures("wrong")
    def test_what_belongs_to_somebody_else_is_not_replaced(self, tmp_path: Path) -> None:
        folder = tmp_path / "out"
        (folder / "notes").mkdir(parents=True)
        (folder / "notes" / "mine.txt").write_text("precious")
        with pytest.raises(UsageError, match=r"holds 'notes/mine.txt', which is not part of this export"):
            export_ranker(made.trees(), "wrong", folder)
        assert (folder / "notes" / "mine.txt").read_text() == "precious"


def test_a_ranker_exports_itself(tmp_path: Path) -> None:
    found = made.linear().export("json", tmp_path / "out.json", name="mine")
    assert found.path.read_bytes() == found.exported.files["model"]
    assert found.parity is None


def test_a_version_where_there_are_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="JSON is the same for all versions; leave version out"):
        export_ranker(made.linear(), "json", tmp_path / "out.json", version="3")
