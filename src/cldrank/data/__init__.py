"""Ranking data: the dataset, its readers and writers, synthetic sets and the catalogue of public ones."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.data.letor import read_letor
    from cldrank.data.loading import load
    from cldrank.data.parquet import read_parquet, write_parquet

_HOMES = {
    "RankingDataset": "dataset",
    "load": "loading",
    "read_letor": "letor",
    "read_parquet": "parquet",
    "write_parquet": "parquet",
}

__all__ = ["RankingDataset", "load", "read_letor", "read_parquet", "write_parquet"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cldrank.data' has no attribute {name!r}")
    return getattr(import_module(f"cldrank.data.{_HOMES[name]}"), name)
