"""`Engine`: what collecting needs of a search engine."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cldrank.collect.featureset import PLACEHOLDER, FeatureSet
from cldrank.errors import DataError, UsageError
from cldrank.web import Client
from cldrank.wording import some

Candidates = dict[str, list[float | None]]  # the values of documents, in the order of the feature set
Logged = Iterable[tuple[Any, Mapping[str, Any]]]


class Engine(ABC):
    """A search engine with a feature set, and the search that finds candidates.

    name       as the command line spells it
    id_field   the field with the ids of documents, as logs have them

    >>> from cldrank.collect import ENGINES
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
        for document, values in self.logged(words, size, documents):
            if document is None or str(document) in made:
                raise DataError(f"{self.client.url}: {self.id_field!r} is {document!r}, or is so twice; it is no id.")
            if other := set(values) ^ set(self.features.definitions):
                raise DataError(
                    f"{self.client.url}: the feature set {self.features.name!r} there is not that of the file: only "
                    f"one of them has {some(sorted(other))}. Upload the file, and collect again."
                )
            made[str(document)] = [_number(values[name], name) for name in self.features.definitions]
        return made


class SearchApi(Engine):
    """What OpenSearch and Elasticsearch share: a search in JSON, and hits."""

    id_field = "_id"

    def query(self, words: str) -> Any:
        """The search for the text of a query."""
        try:
            return filled(json.loads(self.search), words)
        except ValueError as error:
            raise UsageError(f"`search` must be a query in JSON ({error}).") from None

    def hits(self, query: Any, size: int, path: str = "/_search", **more: Any) -> list[tuple[Any, dict[str, Any]]]:
        """The hits of a query, with their ids."""
        more |= {} if self.id_field == "_id" else {"fields": [self.id_field]}
        hits = self.client.ask(path, {"query": query, "size": size, "_source": False, **more})["hits"]["hits"]
        return [(hit["_id"] if self.id_field == "_id" else hit["fields"][self.id_field][0], hit) for hit in hits]


def filled(template: Any, words: str) -> Any:
    """A template with the text of a query in place of its parameter.

    >>> filled({"match": {"title": "{{query}}"}}, "red shoes")
    {'match': {'title': 'red shoes'}}
    """
    if isinstance(template, str):
        return PLACEHOLDER.sub(lambda _: words, template)
    if isinstance(template, dict):
        return {key: filled(value, words) for key, value in template.items()}
    return [filled(value, words) for value in template] if isinstance(template, list) else template


def _number(value: Any, name: str) -> float | None:
    """A value as a number; None where there is none."""
    if value is None or isinstance(value, int | float):
        return None if value is None or math.isnan(value) else float(value)
    raise DataError(f"the feature {name!r} is {value!r:.80}, not a number.")
