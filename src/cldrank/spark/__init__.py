"""Candidates and features on Spark: linear fits and scoring where the data are.

dataset     `SparkDataset`: a DataFrame of candidates
columns     which of its columns hold what
features    their features, as a fit meets them
packing     rows of a DataFrame as blocks of numpy arrays, and what was observed of them
folding     one value from all partitions, joined in two levels
rows        the rows of a linear fit as such blocks
scoring     the scores of a ranker
"""

from __future__ import annotations

from cldrank.spark.dataset import SparkDataset

__all__ = ["SparkDataset"]
