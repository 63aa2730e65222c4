"""Checkpoints: all that a training needs to go on as if nothing had happened, in a safetensors file without code."""

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
from cldrank.models.run import Epoch, Run
from cldrank.reading import reading

_FORMAT = "cldrank-checkpoint-4"
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
                "train with those of the checkpoint, or name another file."
            )
        return arrays, history

    def save(self, arrays: Arrays, history: list[Epoch]) -> None:
        """Write the state after an epoch, whole or not at all."""
        if self.path is None:
            return
        from safetensors.numpy import save

        contiguous = {name: np.ascontiguousarray(values).reshape(values.shape) for name, values in arrays.items()}
        about = json.dumps({"training": self.digest, "history": [asdict(epoch) for epoch in history]})
        content = save(contiguous, metadata={"format": _FORMAT, "about": about, "digest": _digest(about, contiguous)})
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
    if metadata.get("digest") != _digest(metadata.get("about", ""), arrays):
        raise FormatError("this checkpoint is damaged.", path=path)
    about = json.loads(metadata["about"])
    return arrays, about["training"], [Epoch(**entry) for entry in about["history"]]


def _digest(about: str, arrays: Arrays) -> str:
    """A digest of all that a checkpoint holds, so that a single comparison detects any damage."""
    return digest_of([about, sorted(arrays)], *(values for _, values in sorted(arrays.items())))
