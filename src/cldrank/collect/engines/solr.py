"""Solr: `[features]` logs a feature store, and `search` finds `$qq`."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank.collect.engines.engine import Engine, Logged

_SEPARATOR = "§"  # of ids, which may hold commas


class Solr(Engine):
    """The module `ltr`."""

    name = "solr"

    def logged(self, words: str, size: int, documents: Sequence[str] | None) -> Logged:
        """The values that Solr logs; NaN is none."""
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
