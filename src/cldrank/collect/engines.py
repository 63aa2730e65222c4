"""`SearchEngine`: how each search engine is asked for candidates with their features, and how it answers."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cldrank.collect.featureset import PLACEHOLDER, FeatureSet
from cldrank.errors import DataError, UsageError
from cldrank.reading import reading
from cldrank.web import Client
from cldrank.wording import some

Candidates = dict[str, list[float | None]]  # the values of documents, in the order of the feature set
Logged = Iterable[tuple[Any, Mapping[str, Any]]]

_SEPARATOR = "§"  # of ids for Solr, which may hold commas
_FUNCTION = re.compile(r"rankingExpression\((\w+)\)")  # what older versions of Vespa call a function


class SearchEngine(ABC):
    """A search engine with a feature set, and the search that finds candidates.

    name       as the command line spells it
    id_field   the field with the ids of documents, as logs have them

    >>> sorted(ENGINES)
    ['elasticsearch', 'opensearch', 'solr', 'vespa']
    """

    name: ClassVar[str]
    id_field: str = "id"

    def __init__(self, client: Client, features: FeatureSet, search: str, id_field: str | None = None) -> None:
        self.client, self.features, self.search = client, features, search
        self.id_field = id_field or self.id_field

    @abstractmethod
    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """The features of what the search finds for a text, or of some documents, whether or not it finds them."""

    def candidates(self, words: str, size: int, documents: Sequence[str] | None = None) -> Candidates:
        """The values of the feature set; an engine that has another feature set is refused."""
        made: Candidates = {}
        with reading(self.client.url, f"a search engine that answers as {self.name} does"):
            answered = list(self.logged(words, size, documents))
        for document, values in answered:
            if document is None or str(document) in made:
                raise DataError(f"{self.client.url}: {self.id_field!r} is {document!r}, or is so twice; it is no id.")
            if other := set(values) ^ set(self.features.definitions):
                raise DataError(
                    f"{self.client.url}: the feature set {self.features.name!r} there is not that of the file: only "
                    f"one of them has {some(sorted(other))}. Upload the file, and collect again."
                )
            made[str(document)] = [_number(values[name], name) for name in self.features.definitions]
        return made


class _SearchApi(SearchEngine):
    """What OpenSearch and Elasticsearch share: a search in JSON, and hits."""

    id_field = "_id"

    def query(self, words: str) -> Any:
        """The search for the text of a query."""
        try:
            return with_words(json.loads(self.search), words)
        except ValueError as error:
            raise UsageError(f"`search` must be a query in JSON ({error}).") from None

    def hits(self, query: Any, size: int, path: str = "/_search", **more: Any) -> list[tuple[Any, dict[str, Any]]]:
        """The hits of a query, with their ids."""
        more |= {} if self.id_field == "_id" else {"fields": [self.id_field]}
        hits = self.client.ask(path, {"query": query, "size": size, "_source": False, **more})["hits"]["hits"]
        ids = [
            hit["_id"] if self.id_field == "_id" else hit.get("fields", {}).get(self.id_field, [None])[0]
            for hit in hits
        ]
        if None in ids:
            raise DataError(f"{self.client.url}: a document has no {self.id_field!r}; `id_field` is a field of all.")
        return list(zip(ids, hits, strict=True))


class OpenSearchLogging(_SearchApi):
    """The Learning to Rank plugin, also that of Elasticsearch: `sltr` logs a stored feature set."""

    name = "opensearch"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """A feature that does not match has no value."""
        wanted = self.query(words) if documents is None else {"terms": {self.id_field: documents}}
        parameters = {self.features.parameter: words} if self.features.parameter else {}
        sltr = {"sltr": {"_name": "logged", "featureset": self.features.name, "params": parameters}}
        log = {"ltr_log": {"log_specs": {"name": "features", "named_query": "logged"}}}
        for document, hit in self.hits({"bool": {"must": [wanted], "filter": [sltr]}}, size, ext=log):
            yield document, {entry["name"]: entry.get("value") for entry in hit["fields"]["_ltrlog"][0]["features"]}


class ElasticsearchLogging(_SearchApi):
    """Elasticsearch's own learning to rank: each feature is a named query, whose score an answer has.

    The search is asked for ids alone, then these for features, whose scores would otherwise change the order.
    """

    name = "elasticsearch"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """A query that does not match has no value."""
        if documents is None:
            documents = [str(document) for document, _ in self.hits(self.query(words), size)]
        definitions = self.features.definitions
        scores = [
            {"bool": {"must": with_words(own["query"], words), "_name": name}} for name, own in definitions.items()
        ]
        query = {"bool": {"filter": [{"terms": {self.id_field: documents}}], "should": scores}}
        found = self.hits(query, len(documents), "/_search?include_named_queries_score=true") if documents else []
        hits = {str(document): hit.get("matched_queries", {}) for document, hit in found}
        return [(each, dict.fromkeys(definitions) | hits[each]) for each in documents if each in hits]


class SolrLogging(SearchEngine):
    """`[features]` logs a feature store; the search finds `$qq`."""

    name = "solr"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """NaN is no value."""
        search = {"q": self.search}
        if documents is not None:
            only = f"{{!terms f={self.id_field} separator='{_SEPARATOR}' v=$ids}}"
            search = {"q": "*:*", "fq": only, "ids": _SEPARATOR.join(documents)}
        parameter = f" efi.{self.features.parameter}=$qq" if self.features.parameter else ""
        fields = f"{self.id_field},[features store={self.features.name} format=dense{parameter}]"
        answer = self.client.ask("/query", form={**search, "qq": words, "fl": fields, "rows": str(size), "wt": "json"})
        for document in answer["response"]["docs"]:
            pairs = (part.partition("=") for part in document["[features]"].split(","))
            yield document.get(self.id_field), {name: float(value) for name, _, value in pairs}


class VespaLogging(SearchEngine):
    """A rank profile lists match features, or summary features; the search is YQL, with the text as userQuery()."""

    name = "vespa"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """A missing attribute is null."""
        yql = self.search
        if documents is not None:  # the second argument of rank() only gives the features their text
            only = f"{self.id_field} in ({json.dumps(documents, ensure_ascii=False)[1:-1]})"
            yql = re.sub(r"\bwhere\b.*", lambda _: f"where rank({only}, userQuery())", yql, flags=re.DOTALL)
        body = {"yql": yql, "query": words, "ranking": self.features.name, "hits": size}
        for hit in self.client.ask("/search/", body)["root"].get("children", []):
            fields = hit["fields"]
            values = {**fields.get("summaryfeatures", {}), **fields.get("matchfeatures", {})}
            values.pop("vespa.summaryFeatures.cached", None)
            yield fields.get(self.id_field), {_FUNCTION.sub(r"\1", name): value for name, value in values.items()}


_EVERY: tuple[type[SearchEngine], ...] = (OpenSearchLogging, ElasticsearchLogging, SolrLogging, VespaLogging)
ENGINES = {kind.name: kind for kind in _EVERY}


def with_words(template: Any, words: str) -> Any:
    """A template with the text of a query in place of its parameter.

    >>> with_words({"match": {"title": "{{query}}"}}, "red shoes")
    {'match': {'title': 'red shoes'}}
    """
    if isinstance(template, str):
        return PLACEHOLDER.sub(lambda _: words, template)
    if isinstance(template, dict):
        return {key: with_words(value, words) for key, value in template.items()}
    return [with_words(value, words) for value in template] if isinstance(template, list) else template


def _number(value: Any, name: str) -> float | None:
    """A value as a number; None where there is none."""
    if value is None or isinstance(value, int | float):
        return None if value is None or math.isnan(value) else float(value)
    raise DataError(f"the feature {name!r} is {value!r:.80}, not a number.")
