"""Elasticsearch's own learning to rank: each feature is a named query, whose score an answer has."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank.collect.engines.engine import Logged, SearchApi, filled


class Elasticsearch(SearchApi):
    """The search is asked for ids alone, then these for features, whose scores would otherwise change the order."""

    name = "elasticsearch"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """The scores of named queries; a query that does not match has none."""
        if documents is None:
            documents = [str(document) for document, _ in self.hits(self.query(words), size)]
        definitions = self.features.definitions
        scores = [{"bool": {"must": filled(own["query"], words), "_name": name}} for name, own in definitions.items()]
        query = {"bool": {"filter": [{"terms": {self.id_field: documents}}], "should": scores}}
        found = self.hits(query, len(documents), "/_search?include_named_queries_score=true") if documents else []
        hits = {str(document): hit.get("matched_queries", {}) for document, hit in found}
        return [(each, dict.fromkeys(definitions) | hits[each]) for each in documents if each in hits]
