"""OpenSearch, and Elasticsearch with its plugin: the Learning to Rank plugin logs a stored feature set by `sltr`."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank.collect.engines.engine import Logged, SearchApi


class OpenSearch(SearchApi):
    """The Learning to Rank plugin."""

    name = "opensearch"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """The values that the plugin logs; a feature that does not match has none."""
        wanted = self.query(words) if documents is None else {"terms": {self.id_field: documents}}
        parameters = {self.features.parameter: words} if self.features.parameter else {}
        sltr = {"sltr": {"_name": "logged", "featureset": self.features.name, "params": parameters}}
        log = {"ltr_log": {"log_specs": {"name": "features", "named_query": "logged"}}}
        for document, hit in self.hits({"bool": {"must": [wanted], "filter": [sltr]}}, size, ext=log):
            yield document, {entry["name"]: entry.get("value") for entry in hit["fields"]["_ltrlog"][0]["features"]}
