"""`pipeline new`: a commented pipeline file with the given files and columns, all other keys at their defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cldrank import catalogue
from cldrank.clicks.cells_file import is_cells
from cldrank.clicks.days import DayFolder
from cldrank.data.loading import feature_files
from cldrank.decoding import keys_of
from cldrank.errors import FormatError, UsageError
from cldrank.pipeline.definition import SECTIONS
from cldrank.propensity.curve_files import is_curve_file
from cldrank.tables import named_paths, open_table
from cldrank.tables.columns import columns_there, root_column
from cldrank.tables.sources import text_files

_HEAD = """\
# From a click log to a shipped ranker: `cldrank pipeline run` with this file.
# Paths are relative to the folder of this file. What is commented out is at its default; where there is none, it is an
# example.

# seed = 0
"""
_EXAMPLES: dict[tuple[str, str], Any] = {  # of keys that have no default
    ("window", "last"): "28d",
    ("window", "depth"): 10,
    ("propensities", "assume"): "power:1.0",
    ("propensities", "segment"): "device",
    ("propensities", "clip"): 0.01,
    ("verdict", "margin"): 0.01,
    ("export", "to"): ["opensearch"],
}
_OPTIONS: dict[str, dict[str, tuple[Any, str]]] = {  # keys that other functions declare and many need
    "log": {
        "first_position": (0, "the number of the first position, if it is not 1"),
        "exclude_bots": (True, "set rows of users aside that do not look like people"),
        "exclude_users": ("bots.txt", "a file with an id on each line; the rows of these users are set aside"),
    },
    "features": {"missing": (0, 'stands for missing values; "keep" leaves them to trees')},
}


def pipeline_template(
    log: Sequence[str],
    features: Sequence[str],
    folder: Path,
    columns: Mapping[str, str] | None = None,
    feature_columns: Mapping[str, Any] | None = None,
) -> str:
    """The text of a pipeline file in a folder; files that are not there, or hold something else, are refused.

    columns, feature_columns   the columns of the log and of the features, by role
    """
    chosen: dict[str, dict[str, Any]] = {
        "log": {"files": _seen_from(log, folder), "from": "plain"},
        "features": {"files": _seen_from(features, folder)},
    }
    named: dict[str, Mapping[str, Any]] = {"log": columns or {}, "features": feature_columns or {}}
    _check_log(log)
    _check_columns(text_files(log)[0], named["log"])
    if named["features"]:
        _check_columns(feature_files(features)[0].path, named["features"])
    lines = [_HEAD]
    for section, kind in SECTIONS.items():
        about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
        lines += [f"[{section}]", f"# {about}"]
        for key, known in keys_of(kind).items():
            value = chosen.get(section, {}).get(key)
            shown = _EXAMPLES.get((section, key), known.default) if value is None else value
            if shown is not None:
                lines.append(f"{'# ' if value is None else ''}{key} = {_toml(shown)}  # {known.about}")
        for key, (example, about) in _OPTIONS.get(section, {}).items():
            lines.append(f"# {key} = {_toml(example)}  # {about}")
        if named.get(section):
            lines += ["", f"[{section}.columns]", *(f"{role} = {_toml(name)}" for role, name in named[section].items())]
        lines.append("")
    return "\n".join(lines)


def _check_log(named: Sequence[str]) -> None:
    """Refuse what was made of a log, in its place."""
    for path in named_paths(named, "log"):
        if DayFolder.is_one(path) or (path.is_file() and is_cells(path)):
            raise UsageError(f"{path} holds cells, which were counted from a log; name the log itself.")
        if path.is_file() and is_curve_file(path):
            raise UsageError(f"{path} is a file of propensities, not a log.")


def _check_columns(file: Path, named: Mapping[str, Any]) -> None:
    """Refuse columns that the first file of an input does not have; folders may name some, as in day=2026-11-18."""
    if not named:
        return
    with open_table(str(file)) as table:
        known = [*table.columns, *(part.partition("=")[0] for part in file.parts if "=" in part)]
    for role, columns in named.items():
        for column in [columns] if isinstance(columns, str) else columns:
            if root_column(known, column) is None:
                raise FormatError(f"there is no column {column!r} (for {role}); {columns_there(known)}.", path=file)


def _seen_from(named: Sequence[str], folder: Path) -> list[str]:
    """Paths as they are seen from a folder; names of data sets stay as they are."""
    for name in named:
        named_paths([name], "file")
    return [
        name
        if catalogue.is_reference(name) or Path(name).is_absolute()
        else Path(os.path.relpath(name, folder)).as_posix()
        for name in named
    ]


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
