"""Vespa: a rank profile lists match features, and `search` is YQL, with the text as userQuery()."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cldrank.collect.engines.engine import Engine, Logged

_FUNCTION = re.compile(r"rankingExpression\((\w+)\)")  # what older versions call a function


class Vespa(Engine):
    """Match features, or summary features, of a rank profile."""

    name = "vespa"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """The features of the profile; a missing attribute is null."""
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
