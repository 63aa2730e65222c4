"""Saved rankers: a folder with a description in JSON, the numbers in safetensors, and maybe files of an engine.

In a ranker's state, an array of bytes whose name ends in `model.json` is such a file; it lies in the folder as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import recover_folder, replacing_folder
from cldrank.rankers.base import Provenance, Ranker, Weights
from cldrank.rankers.borda import BordaRanker
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.network import NetworkRanker
from cldrank.rankers.torch_module import ModuleRanker
from cldrank.rankers.trees import TreeRanker
from cldrank.reading import read_json, reading, reason

FORMAT = "cldrank-ranker"
FORMAT_VERSION = 1
KINDS: dict[str, type[Ranker]] = {
    kind.kind: kind for kind in (LinearRanker, NetworkRanker, ModuleRanker, TreeRanker, BordaRanker)
}
_DESCRIPTION = "ranker.json"
_WEIGHTS = "weights.safetensors"
_OF_ENGINE = re.compile(r"([0-9]+\.)*model\.json")  # the numbers are those of members


def save_ranker(ranker: Ranker, folder: str | PathLike[str]) -> None:
    """Write a ranker to a folder, which is there whole or not at all."""
    target = Path(folder).resolve()
    _check_replaceable(target)
    from safetensors.numpy import save

    config, weights = ranker.to_state()
    files = {name: weights.pop(name).tobytes() for name in list(weights) if _OF_ENGINE.fullmatch(name)}
    content = save({name: np.asarray(values, order="C") for name, values in weights.items()})
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": ranker.kind,
        "feature_names": ranker.feature_names,
        **config,
        "provenance": asdict(ranker.provenance),
        "weights_sha256": hashlib.sha256(content).hexdigest(),
    }
    if files:
        description["files_sha256"] = {name: hashlib.sha256(file).hexdigest() for name, file in files.items()}
    with replacing_folder(target) as temporary:
        for name, file in {_WEIGHTS: content, **files}.items():
            (temporary / name).write_bytes(file)
        text = json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False)
        (temporary / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def load_ranker(folder: str | PathLike[str], module: Any = None) -> Ranker:
    """The ranker saved in a folder, exactly as it was; a folder with anything wrong in it is refused.

    A ranker with a torch module of your own keeps its numbers, not its code: pass such a `module` to take them up.
    """
    path = Path(folder)
    recover_folder(os.path.realpath(path))  # a ranker is saved where a link leads to
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder of a ranker, as save() or `cldrank train` writes it.")
    if not path.is_dir():
        raise DataError(f"{path} is a file, not the folder of a ranker; name a folder written by save().")
    description = _description(path / _DESCRIPTION)
    weights = _weights(path / _WEIGHTS, description["weights_sha256"])
    for name, digest in description.get("files_sha256", {}).items():
        weights[name] = np.frombuffer(_content(path / name, digest), dtype=np.uint8)
    try:
        ranker = _assembled(description, weights)
        return ranker.with_module(module) if isinstance(ranker, ModuleRanker) else ranker
    except DataError as error:
        raise FormatError(str(error), path=path) from None
    except (OverflowError, RecursionError) as error:
        raise FormatError(f"its description cannot be used ({reason(error)}).", path=path) from None


def _check_replaceable(target: Path) -> None:
    """Refuse to save over anything but an empty folder or a ranker: what lies there may be somebody's work."""
    if not target.is_dir():
        return  # nothing there, or a file, which `replacing_folder` refuses
    inside = sorted(entry.name for entry in target.iterdir())
    if not inside:
        return
    foreign = [name for name in inside if name not in (_DESCRIPTION, _WEIGHTS) and not _OF_ENGINE.fullmatch(name)]
    if foreign:
        raise UsageError(f"{target} holds {foreign[0]!r}, which is not part of a ranker; name another folder.")
    try:
        marker = json.loads((target / _DESCRIPTION).read_bytes())["format"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        marker = None
    if marker != FORMAT:
        raise UsageError(f"{target} is not empty and holds no ranker; name another folder, or empty it first.")


def _description(path: Path) -> dict[str, Any]:
    _check_inside(path)
    description = read_json(path, "JSON")
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise FormatError(f'this does not describe a ranker: it lacks "format": "{FORMAT}".', path=path)
    version = description.get("format_version")
    if type(version) is not int or version < 1:
        raise FormatError(f"format_version is {version!r}; it must be a whole number.", path=path)
    if version > FORMAT_VERSION:
        raise FormatError(
            f"the ranker has format version {version}; this cldrank ({__version__}) reads up to {FORMAT_VERSION}. "
            "Upgrade cldrank.",
            path=path,
        )
    kinds = {"kind": str, "feature_names": list, "provenance": dict, "weights_sha256": str}
    for key, kind in kinds.items():
        if not isinstance(description.get(key), kind):
            raise FormatError(f"{key!r} must be a {kind.__name__}, not {description.get(key)!r}.", path=path)
    files = description.get("files_sha256", {})
    if not isinstance(files, dict) or not all(map(_OF_ENGINE.fullmatch, files)):
        raise FormatError(f"'files_sha256' must be digests of files such as model.json, not {files!r}.", path=path)
    return description


def _weights(path: Path, digest: str) -> Weights:
    content = _content(path, digest)
    from safetensors.numpy import load

    with reading(path, "a safetensors file of numpy arrays"):
        return dict(load(content))


def _content(path: Path, digest: Any) -> bytes:
    _check_inside(path)
    with reading(path, "a readable file"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise FormatError(
            f"this is not the file that {_DESCRIPTION} was saved with: damaged, or of another.", path=path
        )
    return content


def _assembled(description: dict[str, Any], weights: Weights) -> Ranker:
    kind, names = description["kind"], description["feature_names"]
    if kind not in KINDS:
        raise DataError(
            f"the kind of ranker {kind!r} is not known to cldrank {__version__}; known: {', '.join(KINDS)}."
        )
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DataError("feature_names must be texts, each different.")
    try:
        provenance = Provenance(**description["provenance"])
    except TypeError as error:
        raise DataError(f"the provenance cannot be read: {error}.") from None
    return KINDS[kind].from_state(description, weights, feature_names=tuple(names), provenance=provenance)


def _check_inside(path: Path) -> None:
    if not path.is_file():
        raise FormatError(f"the file is missing; a saved ranker has {_DESCRIPTION} and {_WEIGHTS}.", path=path)
