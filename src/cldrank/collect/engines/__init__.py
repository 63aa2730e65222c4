"""Engines: how each defines features, is asked for candidates, and answers."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cldrank.arguments import check_choice
from cldrank.collect.engines.elasticsearch import Elasticsearch
from cldrank.collect.engines.engine import Engine
from cldrank.collect.engines.opensearch import OpenSearch
from cldrank.collect.engines.solr import Solr
from cldrank.collect.engines.vespa import Vespa
from cldrank.collect.featureset import FeatureSet
from cldrank.reading import reading

ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in (OpenSearch, Elasticsearch, Solr, Vespa)}


def read_featureset(path: str | PathLike[str], engine: str) -> FeatureSet:
    """The features that a file defines in the form of an engine.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log_features.profile"
    ...     _ = path.write_text("rank-profile log_features { match-features: bm25(title) attribute(age) }")
    ...     read_featureset(path, "vespa").features
    ('bm25(title)', 'attribute(age)')
    """
    check_choice("engine", engine, tuple(ENGINES))
    with reading(path, f"a feature set of {engine}"):
        return ENGINES[engine].featureset(Path(path).read_text(encoding="utf-8"), Path(path).stem)
