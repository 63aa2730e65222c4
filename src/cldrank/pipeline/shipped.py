"""The folder that production takes its ranker from: replaced as a whole, by nobody but a pipeline.

shipped/ranker/          the ranker, with its model card
shipped/opensearch/ …    a folder for each format
shipped/shipped.json     what it is, and which steps made it
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.errors import UsageError
from cldrank.files import recover_folder, replacing_folder, save_json, sweep
from cldrank.pipeline.definition import PipelineDefinition
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.step import Workbench

SHIPPED = "shipped.json"


def shipped_record(bench: Workbench) -> dict[str, Any]:
    """What `shipped.json` says; nothing where nothing was shipped, or not all of it is there."""
    place = _place(bench.pipeline)
    recover_folder(place)
    try:
        found = json.loads((place / SHIPPED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    parts = ["ranker", *found.get("formats", ())] if isinstance(found, dict) else [SHIPPED]
    return found if isinstance(found, dict) and all((place / part).is_dir() for part in parts) else {}


def check_place(pipeline: PipelineDefinition) -> None:
    """Refuse to ship into a folder that holds something else, before any work is done."""
    place = _place(pipeline)
    recover_folder(place)
    sweep(place.parent)
    if place.is_file():
        raise UsageError(f"export.folder: {place} is a file; name a folder.")
    if place.is_dir() and any(place.iterdir()) and not (place / SHIPPED).is_file():
        raise UsageError(
            f"export.folder: {place} is not empty, and no pipeline wrote it; name another folder, or empty it first."
        )


def ship(bench: Workbench, card: StepRecord, folder: Path) -> None:
    """Put the ranker with its card, and its exports, in the place of what is there."""
    export, formats = bench.results["export"], list(bench.pipeline.formats)
    with replacing_folder(_place(bench.pipeline)) as temporary:
        shutil.copytree(folder / "ranker", temporary / "ranker")
        for name in formats:
            shutil.copytree(bench.store / export.folder / name, temporary / name)
        record = {
            "format": "cldrank-shipped",
            "cldrank": __version__,
            "verdict": bench.results["verdict"].facts.get("decision"),
            "override": bench.override,
            "formats": formats,
            "export": export.key,
            "card": card.key,
        }
        save_json(temporary / SHIPPED, record)


def _place(pipeline: PipelineDefinition) -> Path:
    return pipeline.path(pipeline.export.folder)
