"""Saved rankers: a folder with a description in JSON, the numbers in safetensors, and a model card.

Among the arrays is what a ranker remembers of its training: hashes of queries, and the ranges of features.
The card, `README.md`, is for people: loading does not look at it. What they write themselves, `NOTES.md`, is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np

from cldrank._version import __version__
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import holding, recover_folder, replacing_folder
from cldrank.rankers.base import Config, Ranker, Weights
from cldrank.rankers.card import model_card
from cldrank.rankers.groups import BlendRanker, BordaRanker
from cldrank.rankers.linear_ranker import LinearRanker
from cldrank.rankers.network_ranker import NetworkRanker
from cldrank.rankers.provenance import Provenance
from cldrank.rankers.tree_ranker import TreeRanker
from cldrank.reading import reading, reason

_FORMAT = "cldrank-ranker"
_FORMAT_VERSION = 1
_KINDS: dict[str, type[Ranker]] = {
    kind.kind: kind for kind in (LinearRanker, NetworkRanker, TreeRanker, BordaRanker, BlendRanker)
}
_DESCRIPTION = "ranker.json"
_WEIGHTS = "weights.safetensors"
_CARD = "README.md"
_NOTES = "NOTES.md"
_TRAINING = {"training.trained_on": "trained_on", "training.ranges": "ranges"}  # arrays, and the parts that they are


class _Description(TypedDict):
    """What every `ranker.json` has, beside the state of its kind of ranker."""

    kind: str
    feature_names: list[str]
    provenance: dict[str, Any]
    weights_sha256: str


def save_ranker(ranker: Ranker, folder: str | PathLike[str]) -> None:
    """Write a ranker and its model card to a folder, which is there whole or not at all."""
    target = Path(folder).resolve()
    check_replaceable(target)
    origin = ranker.provenance.as_dict()
    config, content = _contents(ranker)
    notes = (target / _NOTES).read_bytes() if (target / _NOTES).is_file() else None
    card = model_card(ranker, "" if notes is None else notes.decode("utf-8", "replace")).encode()
    description = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "kind": ranker.kind,
        "feature_names": ranker.feature_names,
        **config,
        "provenance": origin,
        "weights_sha256": _digest(content),
        "card_sha256": _digest(card),
    }
    try:
        text = json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except ValueError as error:
        raise DataError(f"the ranker cannot be saved: {reason(error)}.") from None
    contents = {_WEIGHTS: content, _CARD: card, _DESCRIPTION: text} | ({} if notes is None else {_NOTES: notes})
    with replacing_folder(target) as temporary:
        for name, file in contents.items():
            (temporary / name).write_bytes(file)


def _contents(ranker: Ranker) -> tuple[Config, bytes]:
    """The description of a ranker, and all of its arrays."""
    from safetensors.numpy import save

    config, weights = ranker.to_state()
    remembered = {name: getattr(ranker, part) for name, part in _TRAINING.items()}
    arrays = {**weights, **{name: values for name, values in remembered.items() if values is not None}}
    return config, save({name: np.asarray(values, order="C") for name, values in arrays.items()})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def record_evaluation(ranker: Ranker, result: Any, folder: str | PathLike[str]) -> None:
    """Add the evaluation of a saved ranker to its description and its model card.

    What was recorded there since the ranker was loaded stays; a folder that holds another ranker by now is refused.

    >>> import tempfile
    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3.0], [2.0], [1.0], [2.0]], [7, 7, 8, 8], labels=[1, 0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cr.Oracle().fit(data).ranker_.save(f"{folder}/ranker")
    ...     ranker = load_ranker(f"{folder}/ranker")
    ...     record_evaluation(ranker, cr.evaluate(ranker, data, "RR"), f"{folder}/ranker")
    ...     len(load_ranker(f"{folder}/ranker").provenance.evaluations)
    1
    """
    path = Path(folder)
    with holding(path.resolve().parent):  # two evaluations at once are recorded in turn
        description = _description(path / _DESCRIPTION)
        if description["weights_sha256"] != _digest(_contents(ranker)[1]):
            raise UsageError(f"{path} holds another ranker than was evaluated; evaluate the ranker in this folder.")
        current = Provenance.from_json(description["provenance"])
        save_ranker(ranker.with_provenance(current.with_evaluation(result)), path)


def load_ranker(folder: str | PathLike[str]) -> Ranker:
    """The ranker saved in a folder, exactly as it was; a folder with anything wrong in it is refused.

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> ranker = LinearRanker(feature_names="ab", scaling=scaling.fit(None, [[1, 2]]), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ranker.save(f"{folder}/ranker")
    ...     load_ranker(f"{folder}/ranker").predict([[3, 1]])
    array([5.])
    """
    path = Path(folder)
    recover_folder(os.path.realpath(path))  # a ranker is saved where a link leads to
    if not path.is_dir():
        fault = " is a file, not the folder of a ranker" if path.exists() else ": no such file or folder"
        raise UsageError(f"{path}{fault}; name the folder of a ranker, as `cldrank train` writes it.")
    if not (path / _DESCRIPTION).exists() and (path / "ranker" / _DESCRIPTION).is_file():
        raise UsageError(f"{path} is not a ranker itself, but holds one; name {path / 'ranker'}.")
    description = _description(path / _DESCRIPTION)
    weights = _arrays(path / _WEIGHTS, description["weights_sha256"])
    try:
        return _assembled(description, weights)
    except DataError as error:
        raise FormatError(str(error), path=path) from None
    except (OverflowError, RecursionError) as error:
        raise FormatError(f"its description cannot be used ({reason(error)}).", path=path) from None


def check_replaceable(folder: str | PathLike[str]) -> None:
    """Refuse to save over anything but an empty folder or a ranker: what lies there may be somebody's work."""
    target = Path(folder).resolve()
    inside = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else []
    if not inside:
        return  # or a file, which `replacing_folder` refuses
    own = {_DESCRIPTION, _WEIGHTS, _CARD, _NOTES}
    foreign = [name for name in inside if name not in own or not (target / name).is_file()]
    if foreign:
        raise UsageError(
            f"{target} holds {foreign[0]!r}, which is not part of a ranker; move it elsewhere, or name another folder."
        )
    try:
        description = json.loads((target / _DESCRIPTION).read_bytes())
        is_ranker, digest = description["format"] == _FORMAT, description.get("card_sha256")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        is_ranker, digest = False, None
    if not is_ranker:
        raise UsageError(f"{target} is not empty and holds no ranker; name another folder, or empty it first.")
    if _CARD in inside and _digest((target / _CARD).read_bytes()) != digest:
        raise UsageError(
            f"{target / _CARD} was edited, and saving a ranker there overwrites it; move your text to {_NOTES} beside "
            f"it, which is kept and becomes part of the card, and delete {_CARD}."
        )


def _description(path: Path) -> dict[str, Any]:
    with reading(path, "JSON"):
        description = msgspec.json.decode(_content(path))
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise FormatError(f'this does not describe a ranker: it lacks "format": "{_FORMAT}".', path=path)
    version = description.get("format_version")
    if type(version) is not int or not 1 <= version <= _FORMAT_VERSION:
        raise FormatError(
            f"the ranker has format version {version!r}; this cldrank ({__version__}) reads up to {_FORMAT_VERSION}. "
            "Upgrade cldrank.",
            path=path,
        )
    with reading(path, "the description of a ranker"):
        msgspec.convert(description, _Description)
    return description


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise FormatError(f"the file is missing; a saved ranker has {_DESCRIPTION} and {_WEIGHTS}.", path=path)
    with reading(path, "a readable file"):
        return path.read_bytes()


def _arrays(path: Path, digest: str) -> Weights:
    from safetensors.numpy import load

    content = _content(path)
    if _digest(content) != digest:
        raise FormatError(
            f"this is not the file that {_DESCRIPTION} was saved with: damaged, or from another ranker.", path=path
        )
    with reading(path, "a safetensors file of numpy arrays"):
        return dict(load(content))


def _assembled(description: dict[str, Any], weights: Weights) -> Ranker:
    kind, names = description["kind"], description["feature_names"]
    if kind not in _KINDS:
        raise DataError(
            f"the kind of ranker {kind!r} is not known to cldrank {__version__}; known: {', '.join(_KINDS)}."
        )
    if len(set(names)) < len(names):
        raise DataError("feature_names must be different from each other.")
    provenance = Provenance.from_json(description["provenance"])
    remembered = {part: weights.pop(name) for name, part in _TRAINING.items() if name in weights}
    return _KINDS[kind].from_state(
        description, weights, feature_names=tuple(names), provenance=provenance, **remembered
    )


def ranker_fingerprint(ranker: Ranker) -> str:
    """Sixteen hexadecimal digits that change with anything that a score depends on."""
    config, weights = ranker.to_state()
    digest = hashlib.sha256(json.dumps([ranker.kind, ranker.feature_names, config], sort_keys=True).encode())
    for name, values in sorted(weights.items()):
        digest.update(f"\0{name}\0{values.dtype}\0{values.shape}\0".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]
