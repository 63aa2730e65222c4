from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from typing import Any

import made_rankers as made
import numpy as np
import pytest
import tricky

from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.export import Parity
from cldrank.export.format import Exported, ExportRequest, InexpressibleError
from cldrank.export.formats.opensearch import OpenSearch
from cldrank.export.replay import NamedTable
from cldrank.rankers import LinearRanker, Ranker

FORMAT = OpenSearch()
GENTLE = {"coefficients": np.array([0.1, -2 / 3, 1e-17, 3])}
LINEAR = {
    "standard": partial(made.linear, "standard:clip=none", **GENTLE),
    "minmax": partial(made.linear, "minmax:clip=false", **GENTLE),
    "unscaled": partial(made.linear, None, **GENTLE),
    "steep": partial(made.linear, "standard:clip=none"),
}
CLIPPED = ("standard", "standard:clip=0.5", "minmax", "log", "log:clip=none")
ZERO = ("1.3", "2.19", "3.0", "3.1.0", "7.10", "8.9.2", "8.11")
RIGHT = ("3.2", "3.5", "3.6.0", "3.7")
OWN = (None, "3.8", "3.8.1", "3.9", "4.0", "8.11.4", "8.17", "9.0.8")


def exported(ranker: Ranker, **request: Any) -> Exported:
    return FORMAT.export(ranker, ExportRequest(**request))


def compared(ranker: Ranker, rows: Any, **request: Any) -> Parity:
    return tricky.compared(FORMAT, ranker, rows, **request)


def model_of(written: Exported) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written.files["model.json"])["model"]["model"]
    return found


class TestLinear:
    @pytest.mark.parametrize("name", LINEAR)
    def test_it_scores_as_the_ranker_does(self, name: str) -> None:
        found = compared(LINEAR[name](), tricky.tricky(made.FEATURES))
        assert found.largest <= 5e-7 * found.scale
        assert found.swapped == 0

    def test_features_that_count_nothing_have_no_weight(self) -> None:
        features = made.FEATURES.copy()
        features[:, 1] = 7.0
        ranker = made.linear(scaling=scaling.fit("standard:clip=none", features), coefficients=[1.0, 5.0, 0.0, 2.0])
        written = exported(ranker)
        model = model_of(written)
        assert json.loads(model["definition"]).keys() == {"bm25_scaled", "clicks_scaled"}
        assert "2 of 4 features are to be defined; the others need no definition" in written.notes
        assert written.to_fill == {"featureset.json": ["bm25", "clicks"]}
        assert compared(ranker, tricky.tricky(made.FEATURES)).swapped == 0

    @pytest.mark.parametrize("rule", CLIPPED)
    def test_derived_features_scale(self, rule: str) -> None:
        ranker = made.linear(rule, **GENTLE)
        found = compared(ranker, tricky.tricky(made.FEATURES))
        assert found.largest <= 5e-7 * max(found.scale, 1)
        assert found.swapped == 0
        written = exported(ranker)
        assert written.losses == ()
        readme = written.files["README.md"].decode()
        assert (
            readme.index("@featureset.json") < readme.index("_addfeatures?merge=true") < readme.index('_createmodel"')
        )

    def test_derived_features_are_expressions_of_the_others(self) -> None:
        learned = scaling.fit("standard:clip=2.5", np.array([[0.0, -1.0, 3.0], [4.0, -9.0, 3.0]]))
        names, weights = ("bm25", "doc_age", "constant"), np.array([0.5, -1.5, 7.0])
        ranker = LinearRanker(feature_names=names, scaling=learned, coefficients=weights, intercept=-0.25)
        written = exported(ranker)
        derived = {one["name"]: one for one in json.loads(written.files["scaling.json"])["features"]}
        assert derived["bm25_scaled"]["template"] == "min(max((bm25 - 2.0) * 0.5, -2.5), 2.5)"
        assert derived["doc_age_scaled"]["template"] == "min(max((doc_age - (-5.0)) * 0.25, -2.5), 2.5)"
        assert derived["doc_age_scaled"]["template_language"] == "derived_expression"
        assert json.loads(model_of(written)["definition"]) == {"bm25_scaled": 0.5, "doc_age_scaled": -1.5}
        assert written.shift == -0.25
        assert written.to_fill == {"featureset.json": ["bm25", "doc_age"]}  # scaling.json is not for users to edit
        given = NamedTable(names, np.array([[9.0, -7.0, 0.0], [np.nan, -5.0, 1.0]], dtype=np.float32))
        assert FORMAT.replay(written.files, given, ExportRequest()).tolist() == [2.0, -0.5]

    def test_a_feature_that_is_called_as_a_derived_one_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'bm25_scaled'"):
            exported(made.linear("standard"), renamed={"clicks": "bm25_scaled"})

    def test_weights_beyond_float32_are_refused(self) -> None:
        with pytest.raises(InexpressibleError, match="'pagerank' exceeds float32"):
            exported(made.linear(None, coefficients=[1.0, 1e39, 0.0, 0.0]))


class TestTrees:
    def test_they_split_alike_at_thresholds_and_where_values_are_missing(self) -> None:
        ranker = made.trees(rounds=20)
        rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
        for version in OWN:
            found = compared(ranker, rows, version=version)
            assert found.largest == 0
            assert found.same_order

    @pytest.mark.parametrize("version", [*RIGHT, *OWN])
    def test_trees_that_send_all_missing_values_right_suit_every_version_since_3_2(self, version: str | None) -> None:
        ranker = tricky.dense()
        assert compared(ranker, tricky.with_gaps(made.FEATURES), version=version).largest == 0

    @pytest.mark.parametrize(("version", "engine"), [("2.19", "Open"), ("3.7", "Open")])
    def test_versions_that_send_missing_values_elsewhere_are_refused(self, version: str, engine: str) -> None:
        ranker = made.trees()
        with pytest.raises(
            InexpressibleError, match=f"{engine}[Ss]earch {version} does not send missing values.*or ask for"
        ):
            exported(ranker, version=version)
        rows = tricky.at_thresholds(ranker, made.FEATURES)
        assert compared(ranker, rows, version=version, approximate=True).largest == 0
        assert compared(ranker, tricky.with_gaps(rows), version=version, approximate=True).largest > 1


class TestFeatureSet:
    def query(self, ranker: Ranker, **request: Any) -> Any:
        found = json.loads(exported(ranker, **request).files["featureset.json"])["featureset"]["features"]
        assert {json.dumps(one["template"]) for one in found} == {json.dumps(found[0]["template"])}
        assert all(one["params"] == ["keywords"] for one in found)
        return found[0]["template"]

    def test_it_has_the_features_that_are_used_under_the_engines_names(self) -> None:
        written = exported(made.trees(), name="mine", renamed={"bm25": "title_bm25"})
        featureset = json.loads(written.files["featureset.json"])["featureset"]
        assert featureset["name"] == "mine_features"
        assert [one["name"] for one in featureset["features"]] == ["title_bm25", "pagerank", "clicks"]
        assert '"split": "title_bm25"' in model_of(written)["definition"]
        assert '"bm25"' not in model_of(written)["definition"]
        assert written.to_fill == {"featureset.json": ["title_bm25", "pagerank", "clicks"]}  # no split asks for länge

    def test_documents_that_do_not_match_have_no_value_for_trees_that_learned_where_these_go(self) -> None:
        assert self.query(made.trees()) == {"match": {"TODO": "{{keywords}}"}}
        assert any("goes where each split sends" in note for note in exported(made.trees()).notes)

    def test_they_count_zero_for_trees_that_never_saw_a_missing_value(self) -> None:
        """Such trees send a missing value right, where the largest values go."""
        found = self.query(tricky.dense(), version="3.5")
        assert found == {"bool": {"should": {"match": {"TODO": "{{keywords}}"}}, "filter": {"match_all": {}}}}
        written = exported(tricky.dense(), version="3.5")
        assert b"Keep that, unless your training data" in written.files["README.md"]


class TestReadme:
    def readme(self, ranker: Ranker | None = None, **request: Any) -> str:
        return exported(ranker or made.trees(), **request).files["README.md"].decode()

    def test_its_calls_are_shell_and_their_bodies_json(self) -> None:
        for ranker in (made.trees(), tricky.dense(), LINEAR["standard"]()):
            text = self.readme(ranker, name="mine")
            blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
            assert len(blocks) >= 6
            for block in blocks:
                subprocess.run(["/bin/bash", "-n", "-c", block], check=True)
            for body in re.findall(r"-d '(.*?)'\n", text, re.DOTALL):
                json.loads(body)
            for query in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
                json.loads(query)
                assert not query.startswith("\n")
            assert "_ltr/_featureset/mine_features/_createmodel" in text
            assert '"model": "mine"' in text


@pytest.mark.parametrize("name", ["my model", "x'y"])
def test_names_that_no_address_can_hold_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"`name` must be letters.*not {name!r}"):
        exported(made.trees(), name=name)
