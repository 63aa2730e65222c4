"""`Engine`: what collecting needs of a search engine."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from cldrank.collect.featureset import FeatureSet
from cldrank.errors import DataError, UsageError
from cldrank.web import Client, PartialAnswerError

Candidates = dict[str, list[float | None]]


class Engine(ABC):
    """A search engine with a feature set and the search that finds candidates.

    name       as the command line spells it
    id_field   the field that holds the ids of documents, as logs have them

    >>> from cldrank.collect import ENGINES
    >>> sorted(ENGINES)
    ['elasticsearch', 'opensearch', 'solr', 'vespa']
    """

    name: ClassVar[str]
    id_field: ClassVar[str]

    def __init__(self, client: Client, features: FeatureSet, search: str, id_field: str | None = None) -> None:
        self.client, self.features, self.search = client, features, search
        self.ids = id_field or self.id_field

    @staticmethod
    @abstractmethod
    def featureset(text: str, stem: str) -> FeatureSet:
        """What a file defines; `stem` is its name."""

    @abstractmethod
    def found(self, words: str, size: int) -> Candidates:
        """The first `size` documents that the search finds for the text of a query, in its order."""

    @abstractmethod
    def known(self, words: str, documents: Sequence[str]) -> Candidates:
        """Those of some documents that are there, whether or not the search finds them."""

    def candidates(self, entries: Iterable[tuple[Any, dict[str, Any]]]) -> Candidates:
        """The values of documents, which an answer lists with their features."""
        made: Candidates = {}
        for document, values in entries:
            if document is None or str(document) in made:
                raise DataError(f"{self.client.url}: {self.ids!r} is {document!r} on two documents; it is no id.")
            numbers = {name: self._number(value, name, document) for name, value in values.items()}
            made[str(document)] = self.features.values(numbers, str(document))
        return made

    def _number(self, value: Any, name: str, document: Any) -> float | None:
        """A value as a number; None where there is none."""
        if value is None or isinstance(value, int | float):
            return None if value is None or math.isnan(value) else float(value)
        raise DataError(f"{self.client.url}: {name!r} of document {document!r} is {value!r:.80}, not a number.")


class SearchApi(Engine):
    """What OpenSearch and Elasticsearch share: a search in JSON, and hits."""

    id_field = "_id"

    def __init__(self, client: Client, features: FeatureSet, search: str, id_field: str | None = None) -> None:
        super().__init__(client, features, search, id_field)
        try:
            self.query = json.loads(search)
        except ValueError as error:
            raise UsageError(f"`search` must be a query in JSON ({error}).") from None

    def hits(self, query: Any, size: int, path: str = "/_search", **more: Any) -> list[dict[str, Any]]:
        """The hits of a query, with their ids."""
        body = {"query": query, "size": size, "_source": False, **more}
        if self.ids != "_id":
            body["fields"] = [self.ids]
        answer = self.client.ask(path, json=body, check=_check)
        found: list[dict[str, Any]] = answer["hits"]["hits"]
        return found

    def id_of(self, hit: dict[str, Any]) -> Any:
        """The id of a hit."""
        return hit["_id"] if self.ids == "_id" else next(iter(hit.get("fields", {}).get(self.ids, [])), None)


def _check(answer: dict[str, Any]) -> None:
    """Refuse an answer that leaves documents out."""
    failed = answer.get("_shards", {}).get("failed", 0)
    if failed or answer.get("timed_out"):
        raise PartialAnswerError(f"{failed} shards failed" if failed else "the search timed out")
