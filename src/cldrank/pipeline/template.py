"""`pipeline new`: a pipeline file made of the settings themselves, each with its sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cldrank import catalogue
from cldrank.decoding import keys_of
from cldrank.pipeline.pipeline_file import SECTIONS
from cldrank.tables import named_paths

_HEAD = """\
# From a click log to a shipped ranker: `cldrank pipeline run` with this file.
# Paths are relative to the folder of this file. What is commented out is at its default; where there is none, it is an
# example.

# seed = 0
"""
_EXAMPLES = {
    ("window", "depth"): 10,
    ("propensities", "clip"): 0.01,
    ("verdict", "margin"): 0.01,
    ("online", "margin"): 0.01,
}  # without a default


def pipeline_template(log: Sequence[str], features: Sequence[str], folder: Path) -> str:
    """The text of a pipeline file in a folder; files that are not there are refused."""
    files = {"log": _seen_from(log, folder), "features": _seen_from(features, folder)}
    lines = [_HEAD]
    for section, kind in SECTIONS.items():
        about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
        lines += [f"[{section}]", f"# {about}"]
        for key, known in keys_of(kind).items():
            if key == "files" and section in files:
                lines.append(f"files = {_toml(files[section])}  # {known.about}")
            else:
                lines.append(f"# {key} = {_toml(_EXAMPLES.get((section, key), known.default))}  # {known.about}")
        lines.append("")
    return "\n".join(lines)


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
