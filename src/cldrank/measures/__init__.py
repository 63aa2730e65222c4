"""Measures of ranking quality as values: parse, print, compute; intervals and paired tests.

>>> from cldrank import measures
>>> per_query = measures.compute("nDCG@2 AP", [3, 2, 1, 1, 2], [0, 1, 2, 0, 1], [0, 3, 5])
>>> {str(measure): measures.mean(values) for measure, values in per_query.items()}
{'nDCG@2': 0.5869, 'AP': 0.7916}
"""

from cldrank.measures.definitions import AP, DCG, ERR, NDCG, RR, P
from cldrank.measures.measure import Empty as Empty
from cldrank.measures.measure import Measure, compute, mean, parse, parse_all
from cldrank.measures.ranking import Ranking
from cldrank.measures.statistics import Comparison, Interval, bootstrap_interval, mean_interval, paired_comparison

__all__ = [
    "AP", "DCG", "ERR", "NDCG", "RR", "Comparison", "Interval", "Measure", "P", "Ranking", "bootstrap_interval",
    "compute", "mean", "mean_interval", "paired_comparison", "parse", "parse_all",
]  # fmt: skip
