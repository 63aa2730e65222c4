"""Engines: how each defines features, is asked for candidates, and answers."""

from cldrank.collect.engines.elasticsearch import Elasticsearch
from cldrank.collect.engines.opensearch import OpenSearch
from cldrank.collect.engines.solr import Solr
from cldrank.collect.engines.vespa import Vespa

ENGINES = {kind.name: kind for kind in (OpenSearch, Elasticsearch, Solr, Vespa)}
