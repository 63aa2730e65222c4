"""Vespa: a rank profile lists match features, which the answer has."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from cldrank.collect.engines.engine import Candidates, Engine
from cldrank.collect.featureset import FeatureSet, named
from cldrank.errors import DataError, UsageError
from cldrank.web import PartialAnswerError

_LISTED = re.compile(r"(?:match|summary)-features\s*(?::([^\n}]*)|\{([^}]*)\})")
_FEATURE = re.compile(r"[A-Za-z_][\w.]*(?:\([^()]*\))?(?:\.[\w.]+)?")
_FUNCTION = re.compile(r"rankingExpression\((\w+)\)")  # what older versions call a function


class Vespa(Engine):
    """Match features of a profile, which has to be deployed before; `search` is YQL, with the text as userQuery()."""

    name, id_field = "vespa", "id"

    @staticmethod
    def featureset(text: str, stem: str) -> FeatureSet:
        """A rank profile with `match-features` or `summary-features`; columns are called as these are."""
        text = re.sub(r"#[^\n]*", "", text)
        profile = re.search(r"rank-profile\s+(\w+)", text)
        if profile is None:
            raise DataError(f"{stem} has no rank-profile.")
        features = [name for lists in _LISTED.findall(text) for part in lists for name in _FEATURE.findall(part)]
        content = " ".join(text.split())
        return FeatureSet("vespa", profile[1], named([(name, content) for name in features], f"profile {profile[1]}"))

    def found(self, words: str, size: int) -> Candidates:
        """The candidates of a query."""
        return self._logged(words, self.search, size)

    def known(self, words: str, documents: Sequence[str]) -> Candidates:
        """The documents of these ids, with features for the text of the query."""
        schema = re.search(r"\bfrom\s+([\w*]+)", self.search)
        if schema is None:
            raise UsageError(f"`search` must be YQL, such as select * from product where …, not {self.search!r}.")
        only = f"{self.ids} in ({', '.join(json.dumps(document, ensure_ascii=False) for document in documents)})"
        return self._logged(words, f"select * from {schema[1]} where rank({only}, userQuery())", len(documents))

    def _logged(self, words: str, yql: str, hits: int) -> Candidates:
        body = {"yql": yql, "query": words, "ranking": self.features.name, "hits": hits}
        found = self.client.ask("/search/", json=body, check=_check)["root"].get("children", [])
        return self.candidates((hit["fields"].get(self.ids), _values(hit["fields"])) for hit in found)


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    """The features of a hit by the names of the profile."""
    listed = {**fields.get("summaryfeatures", {}), **fields.get("matchfeatures", {})}
    return {
        _FUNCTION.sub(r"\1", name): value for name, value in listed.items() if name != "vespa.summaryFeatures.cached"
    }


def _check(answer: dict[str, Any]) -> None:
    """Refuse an answer that leaves documents out."""
    root = answer["root"]
    if root.get("errors") or root.get("coverage", {}).get("full") is False:
        raise PartialAnswerError(str(root.get("errors", "not all documents were covered")))
