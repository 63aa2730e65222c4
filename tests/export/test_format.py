from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import made_rankers as made
import numpy as np
import pytest
import tricky

from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.export import ExportRequest, export_formats, export_ranker
from cldrank.export.format import format_named
from cldrank.rankers import LinearRanker, TreeRanker

SOLR = format_named("solr")


def named(*names: str, **request: Any) -> tuple[str, ...]:
    """What Solr calls features of these names."""
    parts: dict[str, Any] = {
        "scaling": scaling.fit(None, np.ones((1, len(names)))),
        "coefficients": np.ones(len(names)),
    }
    return SOLR.export(LinearRanker(feature_names=names, **parts), ExportRequest(**request)).names


class TestNames:
    def test_features_keep_their_order_and_take_the_engines_names(self) -> None:
        assert named("b", "a", "c", renamed={"a": "pr"}) == ("b", "pr", "c")

    def test_one_rule_makes_names_that_every_engine_takes(self) -> None:
        assert named("title bm25", "class", "sum", "1", "größe", "") == (
            "title_bm25",
            "feature_class",
            "feature_sum",
            "feature_1",
            "gr__e",
            "feature_",
        )
        assert named("ok", "a", renamed={"a": "lambda"}) == ("ok", "feature_lambda")

    def test_names_that_would_become_the_same_stay_apart_whatever_their_order(self) -> None:
        one, other = named("a b", "a.b"), named("a.b", "a b")
        assert len(set(one)) == 2
        assert one == other[::-1]
        assert named("a b", "a_b")[1] == "a_b"  # what needed no change is not changed

    def test_a_feature_that_the_ranker_lacks_is_refused(self) -> None:
        with pytest.raises(UsageError, match="`renamed` names 'idf', which is not a feature"):
            named("a", renamed={"idf": "x"})

    def test_two_features_of_one_name_are_refused(self) -> None:
        with pytest.raises(UsageError, match="two features would be called 'a'"):
            named("a", "b", renamed={"b": "a"})

    @pytest.mark.parametrize("to", [name for name, form in export_formats().items() if not form.one_file])
    def test_a_readme_escapes_what_data_brought(self, to: str) -> None:
        evil = "<script>|`x` [a](http://b)"
        origin = made.ORIGIN.replaced(data=evil)
        booster = tricky.stump(0.5)
        ranker = TreeRanker(content=booster.content, feature_names=(evil,), provenance=origin)
        text = format_named(to).export(ranker, ExportRequest()).files["README.md"].decode()
        assert "<script>" not in text.replace("\\<script", "")
        assert "](http://b)" not in text.replace("\\](", "")
        assert "| `_script___x___a__http___b_` |" in text


@pytest.mark.parametrize("to", export_formats())
def test_a_name_that_is_too_long_is_refused(to: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`name`"):
        export_ranker(tricky.stump(0.5), to, tmp_path / "out", name="a" * 500)
    assert not (tmp_path / "out").exists()


class TestVersions:
    def test_they_are_compared_as_numbers(self) -> None:
        assert ExportRequest(version="10.2").at_least("9.11")
        assert not ExportRequest(version="2.9").at_least("2.11")
        with pytest.raises(UsageError, match=r"3\.\.1"):
            ExportRequest(version="3..1").at_least("3.0")

    def test_those_before_the_first_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"`version='6\.3'` is too old"):
            export_ranker(tricky.stump(0.5), "solr", tmp_path / "out", version="6.3")


def test_an_unknown_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"`to` takes .*onnx.*not 'pmml'"):
        format_named("pmml")


def test_every_format_has_a_file_and_a_replay_of_its_name() -> None:
    for name, form in export_formats().items():
        assert form.name == name == type(form).__module__.rpartition(".")[2]
        assert form.label
        assert hasattr(import_module(f"cldrank.export.replay.{name}_replay"), "scores")
