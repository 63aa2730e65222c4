"""Cards in folders of rankers: kept, refused, and with evaluations added."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rankers import ORIGIN, RANKERS, dataset, linear

from cldrank.errors import UsageError
from cldrank.rankers import LinearRanker, load_ranker, record_evaluation


def test_a_card_that_was_edited_is_not_lost(tmp_path: Path) -> None:
    linear().save(tmp_path)
    card = tmp_path / "README.md"
    linear(intercept=2.0).save(tmp_path)  # one that was not goes with its ranker
    written = card.read_text()
    card.write_text(written + "mine\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="README.md was edited.*move your text to NOTES.md.*and delete README.md"):
        linear().save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert load_ranker(tmp_path).provenance == ORIGIN  # loading does not care
    card.unlink()
    assert load_ranker(tmp_path).provenance == ORIGIN
    linear(intercept=2.0).save(tmp_path)
    assert card.read_text() == written


def test_a_card_that_nobody_knows_of_is_not_lost(tmp_path: Path) -> None:
    linear().save(tmp_path)
    description = json.loads((tmp_path / "ranker.json").read_text())
    del description["card_sha256"]
    (tmp_path / "ranker.json").write_text(json.dumps(description))
    with pytest.raises(UsageError, match="README.md was edited"):
        linear().save(tmp_path)


def test_notes_are_kept_and_become_part_of_the_card(tmp_path: Path) -> None:
    linear().save(tmp_path)
    assert "## Notes" not in (tmp_path / "README.md").read_text()
    notes = b"For the *shop*. \xff\r\n"
    (tmp_path / "NOTES.md").write_bytes(notes)
    linear(intercept=2.0).save(tmp_path)
    assert (tmp_path / "NOTES.md").read_bytes() == notes
    card = (tmp_path / "README.md").read_text()
    assert "\n## Notes\n\nFor the *shop*. \ufffd\n" in card
    again = load_ranker(tmp_path)
    assert isinstance(again, LinearRanker)
    assert again.intercept == 2


class TestRecording:
    def test_an_evaluation_is_added_to_what_is_there(self, tmp_path: Path) -> None:
        ranker = linear()
        ranker.save(tmp_path)
        loaded = load_ranker(tmp_path)
        record_evaluation(loaded, Found("train", "1" * 64, 0.5), tmp_path)
        record_evaluation(loaded, Found("test", "2" * 64, 0.6), tmp_path)  # the first is not lost
        again = load_ranker(tmp_path).provenance.evaluations
        assert [(one.data, one.measures["AP"]["mean"]) for one in again[-2:]] == [("train", 0.5), ("test", 0.6)]
        record_evaluation(loaded, Found("other name", "1" * 64, 0.7), tmp_path)
        again = load_ranker(tmp_path).provenance.evaluations
        assert [(one.data, one.measures["AP"]["mean"]) for one in again[-2:]] == [("test", 0.6), ("other name", 0.7)]
        assert len(again) == len(ORIGIN.evaluations) + 2
        np.testing.assert_array_equal(load_ranker(tmp_path).predict(dataset()), ranker.predict(dataset()))

    def test_another_ranker_in_its_place_is_refused(self, tmp_path: Path) -> None:
        linear().save(tmp_path)
        loaded = load_ranker(tmp_path)
        linear(intercept=5.0).save(tmp_path)
        with pytest.raises(UsageError, match="holds another ranker than the one that was evaluated"):
            record_evaluation(loaded, Found("test", "2" * 64, 0.6), tmp_path)
        assert load_ranker(tmp_path).provenance == ORIGIN

    @pytest.mark.parametrize("name", ["network", "trees", "borda"])
    def test_any_kind(self, name: str, tmp_path: Path) -> None:
        RANKERS[name]().save(tmp_path)
        record_evaluation(load_ranker(tmp_path), Found("test", "2" * 64, 0.6), tmp_path)
        assert load_ranker(tmp_path).provenance.evaluations[-1].data == "test"


class Found:
    """An evaluation."""

    def __init__(self, data: str, fingerprint: str, mean: float) -> None:
        known = {"data": data, "synthetic": False, "queries": 9, "fingerprint": fingerprint, "empty": "zero"}
        self.known = {**known, "measures": {"AP": {"mean": mean}}}

    def as_dict(self) -> dict[str, Any]:
        return self.known
