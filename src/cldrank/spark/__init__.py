"""Candidates and features on Spark: linear fits and scoring where the data are.

spark_dataset    `SparkDataset`: a DataFrame of candidates, and their scores
spark_features   their features, and the rows of a linear fit
packed_blocks    rows of a DataFrame as blocks of numpy arrays, made on the executors
folding          a value from all partitions, joined in two levels
"""

from __future__ import annotations

from cldrank.spark.spark_dataset import SparkDataset

__all__ = ["SparkDataset"]
