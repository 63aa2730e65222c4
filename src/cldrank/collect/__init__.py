"""`collect_features`: candidates of queries with their features, as a search engine finds and computes them.

featureset   the file that defines features, in the form of its engine
engines      how each engine is asked, and how it answers
queries      the queries to ask, and what a log says of them
collecting   part by part into a file, which a run that was killed goes on with
"""

from cldrank.collect.collecting import Collected, collect_features
from cldrank.collect.featureset import FeatureSet

__all__ = ["Collected", "FeatureSet", "collect_features"]
