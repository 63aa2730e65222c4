"""Solr: `[features]` logs a feature store."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from cldrank.collect.engines.engine import Candidates, Engine
from cldrank.collect.featureset import FeatureSet, named, only_parameter, parameters_in
from cldrank.errors import DataError
from cldrank.web import PartialAnswerError

_PARAMETER = re.compile(r"\$\{(\w+)\}")
_SEPARATOR = "§"  # of ids, which may hold commas


class Solr(Engine):
    """Logging by `[features]`; the store has to be uploaded before, and `search` finds `$qq`."""

    name, id_field = "solr", "id"

    @staticmethod
    def featureset(text: str, stem: str) -> FeatureSet:
        """A list of features with their store, as it is uploaded."""
        del stem
        content = json.loads(text)
        stores = {feature["store"] for feature in content}
        if len(stores) != 1:
            raise DataError(f"the features are of {len(stores)} stores; a feature set is a single store.")
        store = stores.pop()
        what = f"the feature store {store!r}"
        definitions = named([(feature["name"], feature) for feature in content], what)
        parameter = only_parameter(parameters_in(definitions, _PARAMETER), what)
        return FeatureSet("solr", store, definitions, parameter)

    def found(self, words: str, size: int) -> Candidates:
        """The candidates of a query."""
        return self._logged(words, size, q=self.search)

    def known(self, words: str, documents: Sequence[str]) -> Candidates:
        """The documents of these ids."""
        only = f"{{!terms f={self.ids} separator='{_SEPARATOR}' v=$ids}}"
        return self._logged(words, len(documents), q="*:*", fq=only, ids=_SEPARATOR.join(documents))

    def _logged(self, words: str, rows: int, **search: str) -> Candidates:
        parameter = f" efi.{self.features.parameter}=$qq" if self.features.parameter else ""
        fields = f"{self.ids},[features store={self.features.name} format=dense{parameter}]"
        form = {**search, "qq": words, "fl": fields, "rows": str(rows), "wt": "json"}
        found = self.client.ask("/query", form=form, check=_check)["response"]["docs"]
        return self.candidates((document.get(self.ids), _values(document["[features]"])) for document in found)


def _values(text: str) -> dict[str, float]:
    """The values in what is logged: `title_bm25=1.5,age=3.0`."""
    return {name: float(value) for name, _, value in (part.partition("=") for part in text.split(","))}


def _check(answer: dict[str, Any]) -> None:
    """Refuse an answer that leaves documents out."""
    if answer.get("responseHeader", {}).get("partialResults"):
        raise PartialAnswerError("partial results")
