"""Which columns of a Spark DataFrame hold query, document and features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cldrank.errors import Spelling, UsageError
from cldrank.wording import some

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBERS = re.compile(r"float|double|(tiny|small|big)?int|boolean|decimal\(.*\)")
_CHOICE = Spelling("features=[…]", "--column features=a,b,…")


def column_named(name: str) -> Column:
    """A column by its name, whatever characters are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def id_column(frame: DataFrame, named: str | None, usual: Sequence[str], role: str) -> str:
    """The column that is named or, by default, the first of the usual ones that is there."""
    if named is not None:
        _check_there(frame, [named])
        return named
    found = next((name for name in usual if name in frame.columns), None)
    if found is None:
        argument = "query" if role == "query_id" else "document"
        raise UsageError(
            "no column is named {}; say which one it is: {}. The columns are {}.",
            " or ".join(usual),
            Spelling(f"{argument}=…", f"--column {role}=…"),
            some(frame.columns),
        )
    return found


def feature_columns(
    frame: DataFrame, named: str | Sequence[str] | None, ids: Sequence[str], others: Sequence[str]
) -> tuple[str, ...]:
    """The columns that are named or, by default, all but ids and `others`; all of them must hold numbers."""
    kinds = dict(frame.dtypes)
    chosen = [named] if isinstance(named, str) else named
    if chosen is None:
        chosen = [name for name in frame.columns if name not in (*ids, *others)]
    _check_there(frame, chosen)
    for name in chosen:
        if name in ids:
            raise UsageError(f"column {name!r} holds ids, so it cannot be a feature too.")
        if list(chosen).count(name) > 1:
            raise UsageError(f"the feature {name!r} is named more than once; each may appear only once.")
        if not _NUMBERS.fullmatch(kinds[name]):
            raise UsageError(
                "column {!r} holds {}, not numbers; choose the feature columns with {}.", name, kinds[name], _CHOICE
            )
    if not chosen:
        raise UsageError("there are no features beside ids and labels; the columns are {}.", some(frame.columns))
    return tuple(chosen)


def partition_columns(frame: DataFrame) -> tuple[str, ...]:
    """Columns that are folders of a lake, such as dt=2026-11-16, which are no features."""
    folders = {part.partition("=")[0] for file in frame.inputFiles()[:1] for part in file.split("/") if "=" in part}
    return tuple(name for name in frame.columns if name in folders)


def _check_there(frame: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise UsageError("there is no column {!r}; the columns are {}.", name, some(frame.columns))
