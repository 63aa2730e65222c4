"""OpenSearch, and Elasticsearch with the plugin: the Learning to Rank plugin logs a stored feature set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cldrank.collect.engines.engine import Candidates, SearchApi
from cldrank.collect.featureset import FeatureSet, filled, named, only_parameter


class OpenSearch(SearchApi):
    """Logging by `sltr`; the feature set has to be stored before."""

    name = "opensearch"

    @staticmethod
    def featureset(text: str, stem: str) -> FeatureSet:
        """`{"featureset": {"name": …, "features": […]}}`, as it is stored."""
        content = json.loads(text)["featureset"]
        name = content.get("name", stem)
        what = f"the feature set {name!r}"
        parameters = {parameter for feature in content["features"] for parameter in feature.get("params", ())}
        definitions = named([(feature["name"], feature) for feature in content["features"]], what)
        return FeatureSet("opensearch", name, definitions, only_parameter(parameters, what))

    def found(self, words: str, size: int) -> Candidates:
        """The candidates of a query."""
        return self._logged(words, {"must": [filled(self.query, words)]}, size)

    def known(self, words: str, documents: Sequence[str]) -> Candidates:
        """The documents of these ids."""
        return self._logged(words, {"filter": [{"terms": {self.ids: list(documents)}}]}, len(documents))

    def _logged(self, words: str, clauses: dict[str, list[Any]], size: int) -> Candidates:
        features = self.features
        parameters = {features.parameter: words} if features.parameter else {}
        sltr = {"sltr": {"_name": "logged", "featureset": features.name, "params": parameters}}
        clauses = {**clauses, "filter": [*clauses.get("filter", []), sltr]}
        log = {"ltr_log": {"log_specs": {"name": "features", "named_query": "logged"}}}
        return self.candidates(
            (self.id_of(hit), {entry["name"]: entry.get("value") for entry in hit["fields"]["_ltrlog"][0]["features"]})
            for hit in self.hits({"bool": clauses}, size, ext=log)
        )
