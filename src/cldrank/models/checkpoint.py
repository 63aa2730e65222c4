"""Checkpoints: all that a training needs to go on as if nothing had happened, in one safetensors file without code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.files import check_writable, make_folder, replacing
from cldrank.models.run import Epoch, Run, epoch_of
from cldrank.reading import reading

_FORMAT = "cldrank-checkpoint-3"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """The file of a training, or none; `digest` stands for all that decides its course."""

    path: Path | None
    resume: bool = False
    digest: str = ""

    @classmethod
    def of(cls, run: Run, digest: Callable[[], str]) -> Checkpoint:
        """The checkpoint that a run asks for; refused, before anything is trained, if it cannot be written."""
        if run.checkpoint is None:
            return cls(None)
        path = Path(run.checkpoint)
        make_folder(path.parent)
        check_writable(path)
        if not run.resume:
            _check_replaceable(path)
        return cls(path, run.resume, digest())

    def restore(self) -> tuple[dict[str, NDArray[Any]], list[Epoch]]:
        """The arrays saved last, and the epochs so far; none of either if there is nothing to resume."""
        if self.path is None or not self.resume:
            return {}, []
        if not self.path.exists():
            raise UsageError(f"{self.path}: there is no checkpoint to resume from; train without resuming first.")
        arrays, digest, history = _read(self.path)
        if digest != self.digest:
            raise UsageError(
                f"{self.path} belongs to a training with other parameters, features or clicks; "
                "train with the same ones, or name another checkpoint."
            )
        return arrays, history

    def check(self, arrays: Arrays, expected: Arrays) -> None:
        """Refuse arrays with other names, shapes or types than those expected."""
        for name in sorted(expected.keys() | arrays.keys()):
            sides = [(side[name].shape, side[name].dtype) if name in side else None for side in (expected, arrays)]
            if sides[0] != sides[1]:
                raise self.damaged(f"{name} is not that of this training")

    def damaged(self, why: str) -> FormatError:
        """The error for a file whose content cannot be used."""
        return FormatError(f"this checkpoint is damaged: {why}.", path=self.path or "")

    def save(self, arrays: Arrays, history: list[Epoch]) -> None:
        """Write the state after an epoch, whole or not at all."""
        if self.path is None:
            return
        from safetensors.numpy import save

        contiguous = {name: np.ascontiguousarray(values).reshape(values.shape) for name, values in arrays.items()}
        epochs = [asdict(epoch) for epoch in history]
        about = {"digest": self.digest, "history": epochs, "sha256": _sha256(contiguous)}
        content = save(contiguous, metadata={"format": _FORMAT, "about": json.dumps(about)})
        with replacing(self.path) as temporary:
            temporary.write_bytes(content)


def digest_of(identity: Any, *arrays: NDArray[Any]) -> str:
    """A digest of what decides the course of a training."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=repr).encode())
    for values in arrays:
        digest.update(f"{values.dtype}{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that is not a checkpoint, such as the data."""
    from safetensors import safe_open

    if not path.is_file():
        return
    try:
        with reading(path, "a checkpoint"), safe_open(str(path), framework="np") as file:
            known = (file.metadata() or {}).get("format") == _FORMAT
    except CldrankError:
        known = False
    if not known:
        raise UsageError(
            f"{path} is not a checkpoint, and would be written over; name another file for the checkpoint."
        )


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], str, list[Epoch]]:
    """The arrays of a checkpoint, its digest, and its history."""
    from safetensors import safe_open

    with reading(path, "a checkpoint"), safe_open(str(path), framework="np") as file:
        metadata = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if metadata.get("format") != _FORMAT:
        raise FormatError("this is not a checkpoint of cldrank.", path=path)
    try:
        about = json.loads(metadata["about"])
        whole = about["sha256"] == _sha256(arrays) and isinstance(about["digest"], str)
        history = [epoch_of(entry, number) for number, entry in enumerate(about["history"], start=1)]
    except (KeyError, TypeError, ValueError, RecursionError):
        whole = False
    if not whole or not history:
        raise FormatError("this checkpoint is damaged.", path=path)
    return arrays, about["digest"], history


def _sha256(arrays: Arrays) -> str:
    return digest_of(sorted(arrays), *(values for _, values in sorted(arrays.items())))
