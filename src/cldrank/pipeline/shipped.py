"""The folder that production takes its ranker from: replaced as a whole, by nobody but a pipeline.

shipped/ranker/          the ranker, with its model card
shipped/opensearch/ …    a folder for each format
shipped/shipped.json     what it is, which steps made it, and the hashes of its files, but for those that users complete
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.errors import UsageError
from cldrank.export.registry import export_formats
from cldrank.files import recover_folder, replacing_folder, save_json, sweep
from cldrank.pipeline.definition import PipelineDefinition
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.step import Workbench

SHIPPED = "shipped.json"
RANKER = "ranker"
WARM_START = "warm start"  # the ranker that the fit of another one began from


def shipped_record(bench: Workbench) -> dict[str, Any]:
    """What `shipped.json` says; nothing where nothing was shipped, or not all of it is there as it was written."""
    place = _place(bench.pipeline)
    found = shipped_content(bench.pipeline)
    try:
        files, completed = dict(found["files"]), list(found["completed"])
    except (KeyError, TypeError, ValueError):
        return {}
    if not all((place / name).is_file() for name in (*files, *completed)):
        return {}
    now = bench.fingerprints.of_files({name: place / name for name in files})
    return found if now == files else {}


def shipped_ranker_hash(bench: Workbench, name: str) -> str:
    """The hash of the ranker that is shipped, without its card, as an input of a name."""
    files = sorted(file for file in (_place(bench.pipeline) / RANKER).rglob("*") if file.is_file())
    return bench.input_hash(name, [str(file) for file in files if file.suffix != ".md"])


def ranker_shipped(pipeline: PipelineDefinition) -> Path | None:
    """The folder of the ranker that is shipped, if one is."""
    folder = _place(pipeline) / RANKER
    return folder if (folder / "ranker.json").is_file() else None


def shipped_content(pipeline: PipelineDefinition) -> dict[str, Any]:
    """What `shipped.json` says, whatever else is there; nothing where it cannot be read."""
    place = _place(pipeline)
    recover_folder(place)
    try:
        found = json.loads((place / SHIPPED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_place(pipeline: PipelineDefinition) -> None:
    """Refuse to ship into a folder that holds something else, before any work is done."""
    place = _place(pipeline)
    recover_folder(place)
    sweep(place.parent)
    if place.is_file():
        raise UsageError(f"export.folder: {place} is a file; name a folder.")
    if place.is_dir() and any(place.iterdir()) and not _is_own(place):
        raise UsageError(
            f"export.folder: {place} is not empty, and no pipeline wrote it; name another folder, or empty it first."
        )


def _is_own(place: Path) -> bool:
    """Whether a pipeline wrote a folder: it has `shipped.json`, or else a ranker and nothing but exports beside it."""
    if (place / SHIPPED).is_file():
        return True
    others = {entry.name for entry in place.iterdir()} - {RANKER}
    return (place / RANKER / "ranker.json").is_file() and others <= set(export_formats())


def ship(bench: Workbench, card: StepRecord, folder: Path) -> None:
    """Put the ranker with its card, and its exports, in the place of what is there.

    Definitions of features that users completed stay: a new export has taken them up, and for the export that is there
    already they are carried over.
    """
    export, formats = bench.results["export"], list(bench.pipeline.formats)
    place, stays = _place(bench.pipeline), shipped_content(bench.pipeline).get("export") == export.key
    with replacing_folder(place) as temporary:
        shutil.copytree(folder / RANKER, temporary / RANKER)
        completed = []
        for name in formats:
            shutil.copytree(bench.store / export.folder / name, temporary / name)
            for file in export.facts[name]["to_do"]:
                completed.append(f"{name}/{file}")
                if stays and (place / name / file).is_file():
                    shutil.copyfile(place / name / file, temporary / name / file)
        files = sorted(file for file in temporary.rglob("*") if file.is_file())
        hashes = {file.relative_to(temporary).as_posix(): bench.fingerprints.of(file) for file in files}
        record = {
            "format": "cldrank-shipped",
            "cldrank": __version__,
            "verdict": bench.results["verdict"].facts.get("decision"),
            "override": bench.override,
            "formats": formats,
            "export": export.key,
            "card": card.key,
            "train": bench.results["train"].key,
            RANKER: bench.result_hash("train", RANKER),
            WARM_START: bench.results["train"].read.get(WARM_START, ""),
            "against": bench.results["verdict"].read.get("against", ""),
            "files": {name: key for name, key in hashes.items() if name not in completed},
            "completed": completed,
        }
        save_json(temporary / SHIPPED, record)


def _place(pipeline: PipelineDefinition) -> Path:
    return pipeline.path(pipeline.export.folder)
