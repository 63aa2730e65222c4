"""Checkpoints: all that a training needs to go on as if nothing had happened, in one safetensors file without code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.files import check_writable, make_folder, replacing
from cldrank.models.run import Epoch, Run, epoch_of
from cldrank.reading import reading

if TYPE_CHECKING:
    from cldrank.models.network.loop import Trainer

_FORMAT = "cldrank-checkpoint-2"


@dataclass(frozen=True)
class Checkpoint:
    """The file of a training, or none; `digest` stands for all that decides its course."""

    path: Path | None
    resume: bool
    digest: str

    @classmethod
    def of(cls, run: Run, trainer: Trainer, identity: Any) -> Checkpoint:
        """The checkpoint that a run asks for."""
        if run.checkpoint is None:
            return cls(None, False, "")
        return cls(Path(run.checkpoint), run.resume, _digest(trainer, identity))

    def restore(self, trainer: Trainer) -> tuple[list[Epoch], dict[str, Tensor]]:
        """The epochs so far, with trainer and best state as they were; none where there is nothing to resume."""
        if self.path is None:
            return [], trainer.state()
        if trainer.world.leads:
            make_folder(self.path.parent)
            check_writable(self.path)
        if not self.resume:
            _check_replaceable(self.path)
            return [], trainer.state()
        if not self.path.exists():
            raise UsageError(f"{self.path}: there is no checkpoint to resume from; train without resuming first.")
        tensors, about = _read(self.path)
        if about["digest"] != self.digest:
            raise UsageError(
                f"{self.path} belongs to a training with other parameters, features or clicks; "
                "train with the same ones, or name another checkpoint."
            )
        self._check(tensors, trainer, about["history"])
        now = {name: tensors[f"now.{name}"] for name in trainer.task.networks.state_dict()}
        best = {name: tensors[f"best.{name}"].to(trainer.device) for name in now}
        trainer.peak = tensors.get("peak")
        trainer.load(now)
        for index, parameter in enumerate(trainer.flat.pieces):
            for name, value in trainer.optimiser.state[parameter].items():
                value.copy_(tensors[f"optimiser.{index}.{name}"])
        return about["history"], best

    def _check(self, tensors: dict[str, Tensor], trainer: Trainer, history: list[Epoch]) -> None:
        """Refuse tensors that are not those of this training."""
        expected = _content(trainer, trainer.state())
        if any(epoch.validation is not None for epoch in history):
            expected["peak"] = torch.zeros(trainer.n_held, dtype=torch.float64)
        for name in sorted(expected.keys() | tensors.keys()):
            sides = [(side[name].shape, side[name].dtype) if name in side else None for side in (expected, tensors)]
            if sides[0] != sides[1]:
                raise FormatError(
                    f"this checkpoint is damaged: {name} is not that of this training.",
                    path=self.path or "",
                )

    def save(self, trainer: Trainer, history: list[Epoch], best: dict[str, Tensor]) -> None:
        """Write the state after an epoch, whole or not at all."""
        if self.path is None or not trainer.world.leads:
            return
        from safetensors.torch import save

        tensors = _content(trainer, best) | ({} if trainer.peak is None else {"peak": trainer.peak})
        tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        history_as_json = [asdict(epoch) for epoch in history]
        about = {"digest": self.digest, "history": history_as_json, "sha256": _sha256(tensors)}
        content = save(tensors, metadata={"format": _FORMAT, "about": json.dumps(about)})
        with replacing(self.path) as temporary:
            temporary.write_bytes(content)


def _content(trainer: Trainer, best: dict[str, Tensor]) -> dict[str, Tensor]:
    """The networks now and at their best, and the state of the optimiser."""
    tensors = {f"now.{name}": value for name, value in trainer.state().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, parameter in enumerate(trainer.flat.pieces):
        for name, value in trainer.optimiser.state[parameter].items():
            tensors[f"optimiser.{index}.{name}"] = value
    return tensors


def _check_replaceable(path: Path) -> None:
    """Refuse to write over a file that is not a checkpoint, such as the data."""
    from safetensors import safe_open

    if not path.is_file():
        return
    try:
        with reading(path, "a checkpoint"), safe_open(str(path), framework="pt") as file:
            known = (file.metadata() or {}).get("format") == _FORMAT
    except CldrankError:
        known = False
    if not known:
        raise UsageError(
            f"{path} is not a checkpoint, and would be written over; name another file for the checkpoint."
        )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a checkpoint, its digest, and its history as epochs."""
    from safetensors import safe_open

    with reading(path, "a checkpoint"), safe_open(str(path), framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if metadata.get("format") != _FORMAT:
        raise FormatError("this is not a checkpoint of cldrank.", path=path)
    try:
        about = json.loads(metadata["about"])
        whole = about["sha256"] == _sha256(tensors) and isinstance(about["digest"], str)
        history = [epoch_of(entry, number) for number, entry in enumerate(about["history"], start=1)]
    except (KeyError, TypeError, ValueError, RecursionError):
        whole = False
    if not whole or not history:
        raise FormatError("this checkpoint is damaged.", path=path)
    return tensors, {"digest": about["digest"], "history": history}


def _sha256(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def _digest(trainer: Trainer, identity: Any) -> str:
    """A digest of parameters, networks as they begin, lists, how features are read, and a thousand rows of them."""
    digest = hashlib.sha256()
    decides = ("batch_queries", "schedule", "warmup", "clip_norm", "validation", "list_size")
    chosen = {name: getattr(trainer.model, name) for name in decides}
    parts = [chosen, trainer.run.precision, trainer.epochs, trainer.seed, trainer.world.size, identity]
    digest.update(json.dumps(parts, sort_keys=True, default=repr).encode())
    digest.update(repr(trainer.task.networks).encode())
    for name, value in sorted(trainer.task.networks.state_dict().items()):
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().numpy().tobytes())
    for group in trainer.groups:
        batch = group.batch(torch.arange(len(group), device=trainer.device))
        width = batch.target.shape[1]
        for tensor in (batch.rows[:, :width], batch.target, batch.weight, batch.unshown, batch.pages):
            digest.update(tensor.cpu().numpy().tobytes())
    digest.update(trainer.table.plan)
    digest.update(trainer.table.gather(trainer.table.sample()).cpu().numpy().tobytes())
    return digest.hexdigest()
