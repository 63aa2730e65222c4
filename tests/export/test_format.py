from __future__ import annotations

import made_rankers as made
import pytest

from cldrank.errors import UsageError
from cldrank.export import ExportRequest
from cldrank.export.format import version_parts
from cldrank.export.registry import format_named


class TestNames:
    def test_features_keep_their_order_and_take_the_engines_names(self) -> None:
        request = ExportRequest(renamed={"pagerank": "pr", "clicks": "ctr"})
        assert request.names(made.linear()) == ("bm25", "pr", "länge", "ctr")

    def test_a_feature_that_the_ranker_lacks_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'idf', which is not a feature") as caught:
            ExportRequest(renamed={"idf": "x"}).names(made.linear())
        assert caught.value.said("shell").startswith("--rename names")

    def test_two_features_of_one_name_are_refused(self) -> None:
        with pytest.raises(UsageError, match="two features would be called 'bm25'"):
            ExportRequest(renamed={"clicks": "bm25"}).names(made.linear())


class TestVersions:
    def test_they_are_compared_as_numbers(self) -> None:
        assert ExportRequest(version="10.2").at_least("9.11")
        assert not ExportRequest(version="2.9").at_least("2.11")

    def test_without_one_the_newest_is_meant(self) -> None:
        assert ExportRequest().at_least("999")

    @pytest.mark.parametrize("text", ["new", "3.x", "", "3..1", "-1"])
    def test_what_is_not_a_version_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            version_parts(text)
        assert f"--for must be a version such as 3.6, not {text!r}" in caught.value.said("shell")


def test_an_unknown_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"to takes .*json.*not 'pmml'"):
        format_named("pmml")
    with pytest.raises(UsageError, match=r"not 'Solr'. Did you mean solr\?"):
        format_named("Solr")
