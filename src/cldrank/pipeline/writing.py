"""The commented pipeline file that a look at a log leads to: every setting is there, with a sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cldrank.decoding import keys_of
from cldrank.parameters import Value
from cldrank.pipeline.definition import log_options
from cldrank.pipeline.looking import LogLook
from cldrank.pipeline.sections import (
    AuditSettings,
    CurveSettings,
    ExportSettings,
    RunsSettings,
    TrainSettings,
    VerdictSettings,
    WindowSettings,
)
from cldrank.wording import count, some

_EXAMPLES = {"depth": "10", "clip": "0.01", "margin": "0.01"}  # of keys that have no default
_LOG_EXAMPLES = {"first_position": 1, "page_size": 10, "paging": "restarts", "grid_columns": 4, "satisfied": 30}
_LOG_OPTIONS = {
    "columns": "",
    "first_position": "the number of the top position, 0 or 1",
    "page_size": "results per page, for logs that number their pages",
    "paging": "whether positions restart on each page, or continue",
    "grid_columns": "columns of a grid, for logs with rows and columns",
    "satisfied": "count a click only if its dwell time is at least this, in seconds",
    "dwell_unit": "of dwell times: s or ms",
    "time_zone": "of times that do not name theirs",
    "one_query": "the log has no queries (recommendations): all pages belong to one",
    "by_time": "what a session sees at another time is another page",
    "every_click": "count each of several clicks on one result in one session",
    "max_rejected": "fail if a larger share of the rows has to be set aside",
    "engine": "duckdb or spark",
    "memory_limit": "DuckDB spills to disk beyond it",
    "master": "Spark: where it runs",
}


def write_pipeline(found: LogLook, folder: Path) -> str:
    """The text of a pipeline file in a folder; every setting is there, with its default and a sentence."""
    lines = [
        "# From a click log to a shipped ranker: `cldrank pipeline run` with this file.",
        "# Paths are relative to the folder of this file. What is commented out is at its default, or an example where",
        "# it says so.",
        "",
        "# seed = 0",
        *_log_lines(found, folder),
        "",
        "[features]",
        f"files = {_toml(_seen_from(found.features, folder))}",
        f"# {count(len(found.feature_names), 'feature')}: {some(found.feature_names, 8)}",
    ]
    for title, kind, chosen in (
        ("audit", AuditSettings, {"stop_at": None}),
        ("window", WindowSettings, {}),
        ("propensities", CurveSettings, {"assume": found.assume} if found.assume else {}),
        ("train", TrainSettings, {"method": None}),
        ("verdict", VerdictSettings, {"against": None, "ship_if": None}),
        ("export", ExportSettings, {"folder": None}),
        ("runs", RunsSettings, {"folder": None}),
    ):
        lines += ["", *_section_lines(title, kind, chosen, _suggestions(found))]
    return "\n".join(lines) + "\n"


def _suggestions(found: LogLook) -> dict[str, str]:
    """Values for keys that are commented out, where the log makes one likely."""
    window = {"last": '"28d"'} if "timestamp" in found.roles else {}
    surface = found.columns.get("surface", "surface")
    return {
        **_EXAMPLES,
        "to": '["opensearch"]',
        **window,
        **({"segment": _toml(surface)} if "surface" in found.roles else {}),
    }


def _log_lines(found: LogLook, folder: Path) -> list[str]:
    lines = ["", "[log]"]
    if found.kind == "ubi":
        lines += [f"queries = {_toml(_seen_from(found.queries, folder))}"]
        lines += [f"events = {_toml(_seen_from(found.events, folder))}"]
    else:
        lines += [f"files = {_toml(_seen_from(found.files, folder))}"]
    lines.append(f"from = {_toml(found.kind)}  # plain, ubi, metarank or yandex")
    for name, default in log_options().items() if found.kind == "plain" else ():
        about = _LOG_OPTIONS.get(name, "as in `cldrank clicks aggregate`")
        if name in found.options:
            lines.append(f"{name} = {_toml(found.options[name])}  # {about}")
        elif about:
            value = _toml(_LOG_EXAMPLES.get(name, default))
            unlike = "" if name not in _LOG_EXAMPLES else " (an example; by default not set)"
            lines.append(f"# {name} = {value}  # {about}{unlike}")
    if found.columns:
        lines += ["", "[log.columns]  # which column has a role, where its name does not say so"]
        lines += [f"{role} = {_toml(name)}" for role, name in found.columns.items()]
    return lines


def _section_lines(title: str, kind: type[Value], chosen: Mapping[str, Any], suggested: Mapping[str, str]) -> list[str]:
    """A section with all its keys, each with its sentence.

    chosen      keys that are written out, with a value, or None for the default; the others are commented out
    suggested   values for those, as TOML, in place of their defaults
    """
    about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    lines = [f"[{title}]", f"# {about}"]
    for key, one in keys_of(kind).items():
        if key in chosen:
            value = one.default if chosen[key] is None else chosen[key]
            lines.append(f"{key} = {_toml(value)}  # {one.about}")
            continue
        default = _toml(one.default)
        value = suggested.get(key, default)
        usual = "not set" if one.default in (None, "", ()) else default
        unlike = "" if value == default else f" (an example; by default {usual})"
        lines.append(f"# {key} = {value}  # {one.about}{unlike}")
    return lines


def _seen_from(named: Sequence[str], folder: Path) -> list[str]:
    """Paths as they are seen from a folder; names of data sets stay as they are."""
    from cldrank.data import catalogue

    return [
        one if catalogue.is_reference(one) or Path(one).is_absolute() else Path(os.path.relpath(one, folder)).as_posix()
        for one in named
    ]


def _toml(value: Any) -> str:
    """A value as TOML writes it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
