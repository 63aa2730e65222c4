"""The file formats of ranking data: Parquet, CSV, and LETOR / SVMlight text."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cldrank.data.formats.lines import plain_suffix
from cldrank.reading import reading

FeatureFormat = Literal["parquet", "csv", "letor"]

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv")
TEXT = (".txt", ".letor", ".libsvm", ".svm", ".svmlight", ".dat", ".train", ".test", ".vali")


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, by its name or else by its first bytes."""
    if path.suffix in PARQUET:
        return True
    with reading(path, "a readable file"), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def feature_format(path: Path) -> FeatureFormat:
    """The format of a file of candidates.

    >>> feature_format(Path("train.csv.gz"))
    'csv'
    """
    if is_csv_name(path):
        return "csv"
    return "parquet" if is_parquet(path) else "letor"


def is_csv_name(path: Path) -> bool:
    """Whether the name, without a suffix for compression, is that of a CSV file.

    >>> is_csv_name(Path("train.TSV")), is_csv_name(Path("train.txt"))
    (True, False)
    """
    return plain_suffix(path).lower() in CSV


def is_letor_name(path: Path) -> bool:
    """Whether the name, without a suffix for compression, is one that LETOR files have.

    >>> is_letor_name(Path("train.txt.gz")), is_letor_name(Path("notes.md"))
    (True, False)
    """
    return plain_suffix(path) in TEXT
