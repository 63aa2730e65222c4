"""The folder that production takes its ranker from; pipelines alone write it, and replace it as a whole.

shipped/ranker/          the ranker, with its model card
shipped/opensearch/ …    a folder for each format
shipped/shipped.json     what was shipped, by which steps, and the hashes of its files, except those that users complete
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank._version import __version__
from cldrank.errors import UsageError
from cldrank.files import recover_folder, replacing_folder, save_json, sweep
from cldrank.fingerprints import file_fingerprint
from cldrank.pipeline.pipeline_file import PipelineDefinition

if TYPE_CHECKING:
    from cldrank.pipeline.steps import Workbench
    from cldrank.runs import TaskRecord

_SHIPPED = "shipped.json"
RANKER = "ranker"


def shipped_place(pipeline: PipelineDefinition) -> Path:
    """The folder that is shipped to."""
    return pipeline.path(pipeline.export.folder)


def shipped_content(pipeline: PipelineDefinition) -> dict[str, Any]:
    """The content of `shipped.json`; empty where it cannot be read."""
    place = shipped_place(pipeline)
    recover_folder(place)
    try:
        content = json.loads((place / _SHIPPED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_shipped(pipeline: PipelineDefinition, step: TaskRecord) -> bool:
    """Whether this very result of a step was shipped, and all of it is still there as it was written.

    Otherwise definitions that a user has completed since might be lost.
    """
    place, content = shipped_place(pipeline), shipped_content(pipeline)
    try:
        files, completed = dict(content["files"]), list(content["completed"])
    except (KeyError, TypeError, ValueError):
        return False
    return (
        content.get(step.name) == step.key
        and all((place / name).is_file() for name in (*files, *completed))
        and all(file_fingerprint(place / name) == key for name, key in files.items())
    )


def check_place(pipeline: PipelineDefinition) -> None:
    """Refuse to ship into a folder that holds something else, before any work is done."""
    place = shipped_place(pipeline)
    recover_folder(place)
    sweep(place.parent)
    if place.is_file():
        raise UsageError(f"export.folder: {place} is a file; name a folder.")
    is_own = (place / _SHIPPED).is_file() or (place / RANKER / "ranker.json").is_file()
    if place.is_dir() and any(place.iterdir()) and not is_own:
        raise UsageError(
            f"export.folder: {place} is not empty, and no pipeline wrote it; name another folder, or empty it first."
        )
    owner = shipped_content(pipeline).get("pipeline")
    if isinstance(owner, str) and owner != _owner(pipeline) and (place / owner).is_file():
        raise UsageError(
            f"{place}/ belongs to {Path(owner).name}; set export.folder in {pipeline.source} to another folder."
        )


def _owner(pipeline: PipelineDefinition) -> str:
    """The file of a pipeline as seen from the folder that it ships to, so that both can be moved together."""
    return Path(os.path.relpath(pipeline.source.resolve(), shipped_place(pipeline).resolve())).as_posix()


def ship(bench: Workbench, card: TaskRecord) -> None:
    """Put the ranker with its card, and its exports, in the place of what is there.

    Definitions of features that users completed stay: a new export has taken them up, and for the export that is there
    already they are carried over.
    """
    export, verdict = bench.results["export"], bench.results["verdict"]
    place, stays = shipped_place(bench.pipeline), shipped_content(bench.pipeline).get("export") == export.key
    with replacing_folder(place) as temporary:
        shutil.copytree(bench.store.folder / card.folder / RANKER, temporary / RANKER)
        completed = []
        for name in bench.pipeline.export.to:
            shutil.copytree(bench.store.folder / export.folder / name, temporary / name)
            for file in export.facts[name]["to_do"]:
                completed.append(f"{name}/{file}")
                if stays and (place / name / file).is_file():
                    shutil.copyfile(place / name / file, temporary / name / file)
        files = sorted(file for file in temporary.rglob("*") if file.is_file())
        hashes = {file.relative_to(temporary).as_posix(): file_fingerprint(file) for file in files}
        record = {
            "format": "cldrank-shipped",
            "cldrank": __version__,
            "pipeline": _owner(bench.pipeline),
            "verdict": verdict.facts.get("decision"),
            **({"online": bench.results["online"].facts["decision"]} if "online" in bench.results else {}),
            "formats": list(bench.pipeline.export.to),
            "export": export.key,
            "card": card.key,
            "files": {name: key for name, key in hashes.items() if name not in completed},
            "completed": completed,
        }
        save_json(temporary / _SHIPPED, record)
