"""Elasticsearch's own learning to rank: each feature is a named query, whose score the answer has."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cldrank.collect.engines.engine import Candidates, SearchApi
from cldrank.collect.featureset import FeatureSet, filled, named, only_parameter, parameters_in


class Elasticsearch(SearchApi):
    """Named queries; nothing has to be stored before.

    The search is asked for ids alone, then these for features, whose scores would otherwise change the order.
    """

    name = "elasticsearch"

    @staticmethod
    def featureset(text: str, stem: str) -> FeatureSet:
        """`{"learning_to_rank": {"feature_extractors": […]}}`, as a model is uploaded with it."""
        extractors = [entry["query_extractor"] for entry in json.loads(text)["learning_to_rank"]["feature_extractors"]]
        what = f"the feature set {stem!r}"
        definitions = named([(extractor["feature_name"], extractor) for extractor in extractors], what)
        return FeatureSet("elasticsearch", stem, definitions, only_parameter(parameters_in(definitions), what))

    def found(self, words: str, size: int) -> Candidates:
        """The candidates of a query."""
        hits = self.hits(filled(self.query, words), size)
        return self.known(words, [str(self.id_of(hit)) for hit in hits]) if hits else {}

    def known(self, words: str, documents: Sequence[str]) -> Candidates:
        """The documents of these ids, in their order."""
        named_queries = [
            {"bool": {"must": filled(definition["query"], words), "_name": name}}
            for name, definition in self.features.definitions.items()
        ]
        query = {"bool": {"filter": [{"terms": {self.ids: list(documents)}}], "should": named_queries}}
        hits = self.hits(query, len(documents), "/_search?include_named_queries_score=true")
        nothing = dict.fromkeys(self.features.features)
        values = self.candidates((self.id_of(hit), {**nothing, **hit.get("matched_queries", {})}) for hit in hits)
        return {document: values[document] for document in documents if document in values}
