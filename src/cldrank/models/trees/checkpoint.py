"""Checkpoints of boosting: the trees so far and the history, in one JSON file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.files import check_writable, make_folder, save_text
from cldrank.models.run import Epoch, Run, epoch_of
from cldrank.models.trees.engine import TreeEngine
from cldrank.models.trees.pairs import PairTable
from cldrank.reading import read_json

_FORMAT = "cldrank-trees-checkpoint-1"
_EVERY = 10  # rounds


@dataclass(frozen=True)
class TreesCheckpoint:
    """The file of a boosting, or none; `digest` stands for all that decides its course."""

    path: Path | None
    resume: bool
    digest: str

    @classmethod
    def of(cls, run: Run, digest: str) -> TreesCheckpoint:
        """The checkpoint that a run asks for."""
        if run.checkpoint is None:
            return cls(None, False, "")
        return cls(Path(run.checkpoint), run.resume, digest)

    def restore(self, engine: TreeEngine) -> list[Epoch]:
        """The rounds so far, with the engine as it was; none where there is nothing to resume."""
        if self.path is None:
            return []
        make_folder(self.path.parent)
        check_writable(self.path)
        if not self.resume:
            _check_replaceable(self.path)
            return []
        if not self.path.exists():
            raise UsageError(f"{self.path}: there is no checkpoint to resume from; train without resuming first.")
        about, history = _read(self.path)
        if about["digest"] != self.digest:
            raise UsageError(
                f"{self.path} belongs to a training with other parameters, features or clicks; "
                "train with the same ones, or name another checkpoint."
            )
        try:
            engine.load(about["trees"].encode())
        except CldrankError as error:
            raise FormatError(f"this checkpoint is damaged: {error}", path=self.path) from None
        if engine.n_rounds != len(history):
            raise FormatError("this checkpoint is damaged: its trees are not those of its history.", path=self.path)
        return history

    def save(self, engine: TreeEngine, history: list[Epoch], *, last: bool = False) -> None:
        """Write the state after every tenth round and after the last, whole or not at all."""
        if self.path is None or (len(history) % _EVERY and not last):
            return
        trees = engine.saved(len(history)).decode()
        about = {"digest": self.digest, "history": [asdict(epoch) for epoch in history], "trees": trees}
        save_text(self.path, json.dumps({"format": _FORMAT, **about, "sha256": _sha256(about)}))


def digest_of(table: PairTable, some_features: bytes, identity: Any) -> str:
    """A digest of all that decides the course of a boosting."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=repr).encode())
    for array in (
        table.rows,
        table.order,
        table.offsets,
        table.ends,
        table.target,
        table.weight,
        table.mixed,
    ):
        digest.update(array.tobytes())
    digest.update(some_features)
    return digest.hexdigest()


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that is not a checkpoint, such as the data."""
    if not path.is_file():
        return
    try:
        known = read_json(path, "a checkpoint")["format"] == _FORMAT
    except (CldrankError, LookupError, TypeError):
        known = False
    if not known:
        raise UsageError(
            f"{path} is not a checkpoint, and would be written over; name another file for the checkpoint."
        )


def _read(path: Path) -> tuple[dict[str, Any], list[Epoch]]:
    """The digest and the trees of a checkpoint, and its history as epochs."""
    content = read_json(path, "a checkpoint")
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise FormatError("this is not a checkpoint of boosted trees.", path=path)
    try:
        about = {name: content[name] for name in ("digest", "history", "trees")}
        whole = content["sha256"] == _sha256(about) and isinstance(about["trees"], str)
        history = [epoch_of(entry, number) for number, entry in enumerate(about["history"], start=1)]
    except (KeyError, TypeError, ValueError, RecursionError):
        whole = False
    if not whole or not history:
        raise FormatError("this checkpoint is damaged.", path=path)
    return about, history


def _sha256(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
