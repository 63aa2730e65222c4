"""`FeatureSet`: the file that defines features as their engine does, the same from collecting to serving."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.arguments import check_choice
from cldrank.errors import UsageError
from cldrank.fingerprints import content_hash
from cldrank.reading import reading
from cldrank.wording import listed

PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OF_SOLR = re.compile(r"\$\{(\w+)\}")
_LISTED = re.compile(r"(?:match|summary)-features\s*(?::([^\n}]*)|\{([^}]*)\})")
_RANK_FEATURE = re.compile(r"[A-Za-z_][\w.]*(?:\([^()]*\))?(?:\.[\w.]+)?")
_BESIDE = ("query_id", "doc_id", "label")  # columns that are no features
_ENGINES = ("opensearch", "elasticsearch", "solr", "vespa")


@dataclass(frozen=True)
class FeatureSet:
    """Features in the order of their file.

    engine       whose form the file has
    name         what the engine calls them: a feature set, a feature store, a rank profile
    definitions  how the engine computes each feature, by name
    parameter    what the definitions call the text of a query; "" if they need none

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.profile"
    ...     _ = path.write_text("rank-profile log { match-features: bm25(title) attribute(age) }")
    ...     features = FeatureSet.read(path, "vespa")
    >>> list(features.definitions), str(features)
    (['bm25(title)', 'attribute(age)'], 'vespa:log@sha256:...')
    """

    engine: str
    name: str
    definitions: Mapping[str, Any]
    parameter: str = ""

    @classmethod
    def read(cls, path: str | PathLike[str], engine: str) -> FeatureSet:
        """The features that a file defines; of Vespa, a rank profile that lists them."""
        check_choice("engine", engine, _ENGINES)
        with reading(path, f"a feature set of {engine}"):
            name, entries, found = _defined(engine, Path(path).read_text(encoding="utf-8"), Path(path).stem)
        names, parameters = [*_BESIDE, *(name for name, _ in entries)], sorted(set(found))
        if not entries or len(set(names)) < len(names):
            raise UsageError(
                f"{path} must define features, each once, and none that is called {listed(_BESIDE, 'or')}."
            )
        if len(parameters) > 1:
            raise UsageError(f"{path} takes {listed(parameters)}; a query has its text, for one parameter alone.")
        return cls(engine, name, dict(entries), "".join(parameters))

    def __str__(self) -> str:
        return f"{self.engine}:{self.name}@sha256:{content_hash({'': list(self.definitions.items())})}"


def _defined(engine: str, text: str, stem: str) -> tuple[str, list[tuple[str, Any]], Iterable[str]]:
    """The name of a feature set, its definitions by feature, and the parameters in them."""
    if engine == "vespa":
        text = re.sub(r"#.*", "", text)
        profile = re.search(r"rank-profile\s+([\w-]+)", text)
        names = [name for lists in _LISTED.findall(text) for part in lists for name in _RANK_FEATURE.findall(part)]
        return profile[1] if profile else stem, [(name, " ".join(text.split())) for name in names], ()
    content = json.loads(text)
    if engine == "elasticsearch":
        extractors = [entry["query_extractor"] for entry in content["learning_to_rank"]["feature_extractors"]]
        return stem, [(extractor["feature_name"], extractor) for extractor in extractors], PLACEHOLDER.findall(text)
    if engine == "solr":
        (store,) = {feature["store"] for feature in content}
        return store, [(feature["name"], feature) for feature in content], _OF_SOLR.findall(text)
    features = content["featureset"]["features"]
    parameters = [parameter for feature in features for parameter in feature.get("params", ())]
    return content["featureset"].get("name", stem), [(feature["name"], feature) for feature in features], parameters
