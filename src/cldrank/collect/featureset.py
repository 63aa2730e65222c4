"""`FeatureSet`: features by name, as an engine defines them; the same from collecting to serving."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cldrank.errors import DataError, UsageError
from cldrank.fingerprints import content_hash
from cldrank.wording import listed

PLACEHOLDER = re.compile(r"\{\{\{?\s*(\w+)\s*\}?\}\}")
_SECTION = re.compile(r"\{\{\s*[#^/&>!]")


@dataclass(frozen=True)
class FeatureSet:
    """The features of a file, in its order.

    engine        whose form the file has
    name          what the engine calls the set: a feature set, a feature store, a rank profile
    definitions   how the engine computes each feature
    parameter     what the definitions call the text of a query; "" if they need none

    >>> print(FeatureSet("solr", "shop", {"age": {"class": "FieldValueFeature", "params": {"field": "age"}}}))
    solr:shop@sha256:...
    """

    engine: str
    name: str
    definitions: Mapping[str, Any]
    parameter: str = ""
    features: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.definitions:
            raise DataError(f"the feature set {self.name!r} has no features.")
        if clash := {"query_id", "doc_id", "label"} & set(self.definitions):
            raise UsageError(f"a feature is called {min(clash)!r}, as a column beside the features; rename it.")
        object.__setattr__(self, "features", tuple(self.definitions))

    def __str__(self) -> str:
        content = {"engine": self.engine, "name": self.name, "definitions": list(self.definitions.items())}
        return f"{self.engine}:{self.name}@sha256:{content_hash(content)}"

    def values(self, found: Mapping[str, float | None], document: str) -> list[float | None]:
        """The values of a document in the order of the set; those of other features mean that it is another set."""
        if set(found) != set(self.features):
            other = listed(sorted(set(found) ^ set(self.features)))
            raise DataError(
                f"the {self.engine} feature set {self.name!r} is not that of the file: only one of them has {other} "
                f"(document {document!r}). Upload the file, and collect again."
            )
        return [found[name] for name in self.features]


def named(features: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    """Definitions by name; a name that occurs twice is refused."""
    name, times = Counter(name for name, _ in features).most_common(1)[0] if features else ("", 0)
    if times > 1:
        raise DataError(f"{what} defines {name!r} twice.")
    return dict(features)


def only_parameter(names: set[str], what: str) -> str:
    """The parameter that stands for the text of a query; there may be no other, since queries have nothing else."""
    if len(names) > 1:
        raise UsageError(f"{what} takes {listed(sorted(names))}; a query has only its text, for one parameter.")
    return next(iter(names), "")


def filled(template: Any, words: str) -> Any:
    """A template with the text of a query in place of its parameter.

    >>> filled({"match": {"title": "{{query}}"}}, "red shoes")
    {'match': {'title': 'red shoes'}}
    """
    if isinstance(template, str):
        if _SECTION.search(template):
            raise UsageError(f"the template {template!r} has more than names in braces, such as {{{{query}}}}.")
        return PLACEHOLDER.sub(lambda _: words, template)
    if isinstance(template, Mapping):
        return {key: filled(value, words) for key, value in template.items()}
    return [filled(value, words) for value in template] if isinstance(template, list) else template


def parameters_in(content: Any, pattern: re.Pattern[str] = PLACEHOLDER) -> set[str]:
    """The names of parameters in definitions."""
    return set(pattern.findall(json.dumps(content)))
