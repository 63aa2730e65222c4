"""The file formats of ranking data: LETOR / SVMlight text and Parquet."""

from __future__ import annotations

from pathlib import Path

from cldrank.data.formats.lines import plain_suffix
from cldrank.reading import reading

PARQUET = (".parquet", ".pq")
TEXT = (".txt", ".letor", ".libsvm", ".svm", ".svmlight", ".dat", ".train", ".test", ".vali")


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, by its name or else by its first bytes."""
    if path.suffix in PARQUET:
        return True
    with reading(path, "a readable file"), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def is_letor_name(path: Path) -> bool:
    """Whether the name, without a suffix for compression, is one that LETOR files have.

    >>> is_letor_name(Path("train.txt.gz")), is_letor_name(Path("notes.md"))
    (True, False)
    """
    return plain_suffix(path) in TEXT
