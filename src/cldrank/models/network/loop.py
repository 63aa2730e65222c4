"""The training loop that all neural estimators share."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cldrank import losses
from cldrank.models.checkpoint import Checkpoint, digest_of
from cldrank.models.network.features import FeatureTable
from cldrank.models.network.lists import BatchSource, ListBatch, Lists
from cldrank.models.network.networks import FlatParameters
from cldrank.models.network.tasks import TrainingTask
from cldrank.models.run import Epoch, Run

if TYPE_CHECKING:
    from cldrank.models.network.model import Network

Status = Literal["completed", "early_stopped", "interrupted", "non_finite"]
_VALIDATION_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Trained:
    """What training leaves: the networks of its best epoch are in the task; `history` has all epochs."""

    status: Status
    history: tuple[Epoch, ...]
    best_epoch: int


def train_network(
    task: TrainingTask,
    lists: Lists,
    held: Lists,
    table: FeatureTable,
    model: Network,
    run: Run,
    *,
    identity: Any = None,
) -> Trained:
    """Train the networks of a task on lists, and leave them as they were after the best epoch on the lists held out.

    `identity` is what else decides the result: a checkpoint of another one is not resumed.
    """
    trainer = Trainer(task, lists, held, table, model, run)
    devices = [table.device] if table.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        return trainer.go(Checkpoint.of(run, lambda: trainer.digest(identity)))


class Trainer:
    """One training under way."""

    def __init__(
        self, task: TrainingTask, lists: Lists, held: Lists, table: FeatureTable, model: Network, run: Run
    ) -> None:
        self.task, self.table, self.model, self.run = task, table, model, run
        self.epochs, self.seed = model.epochs, run.seed
        self.device = table.device
        task.networks.to(self.device)
        self.groups = _groups(lists, task.unshown_ratio, self.device)
        self._held = _groups(held, 0.0, self.device)
        self.batch_queries = model.batch_queries or min(max(sum(map(len, self.groups)) // 64, 8), 128)
        self._scale = 1 / (self.batch_queries * _mean_size(task, self.groups))
        self.peak: Tensor | None = None  # of each list held out, the preference that the best epoch agreed with
        self.flat = FlatParameters(parameter for parameter in task.networks.parameters() if parameter.requires_grad)
        self._graphed = self.device.type == "cuda" and table.resident is not None
        self.optimiser = self._optimiser(float(model.learning_rate), float(model.l2))
        self._epoch_steps = sum(-(-len(group) // self.batch_queries) for group in self.groups)
        self._loss = torch.zeros((), device=self.device)
        self._recorded: dict[tuple[int, int], tuple[Tensor, torch.cuda.CUDAGraph]] = {}

    # -- epochs --------------------------------------------------------------------------------------------------

    def go(self, checkpoint: Checkpoint) -> Trained:
        """All epochs, from the first or from where a checkpoint left off."""
        self._prime()
        history, best = self._restored(checkpoint)
        status: Status = "completed"
        try:
            for number in range(len(history) + 1, self.epochs + 1):
                if self._patient(history):
                    status = "early_stopped"
                    break
                epoch = self._epoch(number, history)
                if not (math.isfinite(epoch.loss) and self.flat.finite):  # the loss does not show the last step
                    status = "non_finite"
                    break
                state = self.state() if epoch.best else best
                history, best = [*history, epoch], state  # together: Ctrl-C must not part an epoch from its network
                self._save(checkpoint, history, best)
                if self.run.on_epoch is not None:
                    self.run.on_epoch(epoch)
        except KeyboardInterrupt:
            if not history:
                raise
            status = "interrupted"
        if history:
            self.load(best)
        self.flat.release()
        return Trained(status, tuple(history), max((epoch.number for epoch in history if epoch.best), default=0))

    def _epoch(self, number: int, history: list[Epoch]) -> Epoch:
        start = time.perf_counter()
        self.task.networks.train()
        self._loss.zero_()
        rate = 0.0
        for step, (group, chosen, features) in enumerate(self._batches(number)):
            rate = self._set_rate((number - 1) * self._epoch_steps + step)
            self._step(group, chosen, features)
        loss = float(self._loss) * self.batch_queries / sum(map(len, self.groups))
        agreement, best = self._judge(history)
        return Epoch(number, loss, agreement, float(rate), time.perf_counter() - start, best)

    def _patient(self, history: list[Epoch]) -> bool:
        """Whether patience has run out: it waits for a better epoch, not for one that is good enough to keep."""
        validations = [epoch.validation for epoch in history if epoch.validation is not None]
        if self.model.patience is None or not validations:
            return False
        return len(validations) - 1 - validations.index(max(validations)) >= self.model.patience

    @property
    def n_held(self) -> int:
        """How many lists are held out."""
        return sum(map(len, self._held))

    def _batches(self, number: int) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """The batches of an epoch: the group, its lists, and their features if these are not on the device.

        All that is random in an epoch follows from the seed and its number, so that any epoch can be the first.
        """
        torch.manual_seed(_mixed(self.seed, number, 0))
        random = torch.Generator(self.device).manual_seed(_mixed(self.seed, number))
        plan: list[tuple[int, Tensor]] = []
        for index, group in enumerate(self.groups):
            group.draw(random)
            shuffled = torch.randperm(len(group), generator=random, device=self.device)
            plan += [(index, part) for part in shuffled.split(self.batch_queries)]
        order = np.random.default_rng([self.seed, number]).permutation(len(plan))
        chosen = [plan[at] for at in order]
        if self.table.resident is not None:
            yield from ((index, part, None) for index, part in chosen)
            return
        rows = (self.groups[index].batch(part).rows.flatten().cpu().numpy() for index, part in chosen)
        for (index, part), features in zip(chosen, self.table.stream(rows), strict=True):
            yield index, part, features

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step(self, group: int, chosen: Tensor, features: Tensor | None) -> None:
        if not self._graphed:
            self._compute(self.groups[group], chosen, features)
            return
        key = group, len(chosen)
        if key not in self._recorded:
            self._recorded[key] = self._record(group, len(chosen))
        place, graph = self._recorded[key]
        place.copy_(chosen)
        graph.replay()

    def _compute(self, group: BatchSource, chosen: Tensor, features: Tensor | None = None) -> None:
        """One step of the optimiser."""
        self.flat.gradient.zero_()
        batch = group.batch(chosen)
        with self._precision():
            lost = self.task.losses(self._features(batch, features), batch)
        loss = lost.sum() * self._scale
        loss.backward()
        self._loss += loss.detach()
        if self.model.clip_norm is not None:
            self.flat.clip(self.model.clip_norm)
        self.optimiser.step()

    def _features(self, batch: ListBatch, given: Tensor | None = None) -> Tensor:
        if given is not None:
            return given
        rows = batch.rows.flatten()
        if self.table.resident is not None:
            return self.table.resident.index_select(0, rows)
        return self.table.gather(rows.cpu().numpy())

    def _precision(self) -> Any:
        if self.run.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _set_rate(self, step: int) -> float:
        rate = float(self.model.learning_rate) * schedule(self.model, step, self.epochs * self._epoch_steps)
        for part in self.optimiser.param_groups:
            if isinstance(part["lr"], Tensor):
                part["lr"].fill_(rate)
            else:
                part["lr"] = rate
        return rate

    def _judge(self, history: list[Epoch]) -> tuple[float | None, bool]:
        """The share of the held-out preference that the scores agree with, and whether to keep the networks for it.

        They are kept unless they are worse than at the best by two standard errors of the difference: what is held out
        is little and noisy, the best of many epochs is best by luck, and the last ones, with small steps, are steady.
        """
        agreed, known = self._agreement()
        whole = float(known.sum())
        if not whole:
            return None, True
        agreement = float(agreed.sum()) / whole
        best = max((epoch.validation for epoch in history if epoch.validation is not None), default=-math.inf)
        if self.peak is None or agreement > best:
            self.peak = agreed
            return agreement, True
        error = float((agreed - self.peak).std()) * len(agreed) ** 0.5 / whole if len(agreed) > 1 else 0.0
        return agreement, agreement >= best - 2 * error

    @torch.no_grad()
    def _agreement(self) -> tuple[Tensor, Tensor]:
        """Of each list held out, the preference that the scores agree with, and all there is."""
        self.task.networks.eval()
        parts = [(torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))]
        for group in self._held:
            for part in torch.arange(len(group), device=self.device).split(max(1, _VALIDATION_ROWS // group.width)):
                batch = group.batch(part)
                pair = self._concordance(batch, self._features(batch))
                parts.append((pair[0].double().cpu(), pair[1].double().cpu()))
        return torch.cat([agreed for agreed, _ in parts]), torch.cat([known for _, known in parts])

    def _concordance(self, batch: ListBatch, features: Tensor) -> tuple[Tensor, Tensor]:
        scores, _ = self.task.scores("relevance", features, batch)
        return losses.concordance(scores, losses.preferences(batch.target, batch.weight))

    # -- the optimiser and its state -----------------------------------------------------------------------------

    def _optimiser(self, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
        rate: float | Tensor = torch.tensor(learning_rate, device=self.device) if self._graphed else learning_rate
        parts = [
            {"params": self.flat.decayed, "weight_decay": weight_decay},
            {"params": self.flat.others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [part for part in parts if part["params"]], lr=rate, fused=True, capturable=self._graphed
        )

    def _prime(self) -> None:
        """Make the optimiser's state, and record the steps, without having learned anything."""
        before = self.state()
        self._set_rate(0)
        self.flat.gradient.zero_()
        self.optimiser.step()
        if self._graphed:
            sizes = {(at, min(len(group), self.batch_queries)) for at, group in enumerate(self.groups)}
            rest = {(at, len(group) % self.batch_queries) for at, group in enumerate(self.groups)}
            for group, size in sorted(sizes | {entry for entry in rest if entry[1]}):
                self._recorded[group, size] = self._record(group, size)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()
        self.load(before)

    def _record(self, group: int, size: int) -> tuple[Tensor, torch.cuda.CUDAGraph]:
        """A step over `size` lists of a group as a CUDA graph, and the tensor from which it reads which lists."""
        place = torch.arange(size, device=self.device)
        self.task.networks.train()
        side, graph = torch.cuda.Stream(self.device), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # torch.cuda.graph(…) would empty all caches first, also those of pinned memory
            self._compute(self.groups[group], place)
            graph.capture_begin()
            self._compute(self.groups[group], place)
            graph.capture_end()
        torch.cuda.current_stream(self.device).wait_stream(side)
        return place, graph

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _restored(self, checkpoint: Checkpoint) -> tuple[list[Epoch], dict[str, Tensor]]:
        """The epochs so far, with networks and optimiser as they were, and the best state."""
        begin = self.state()
        arrays, history = checkpoint.restore()
        if not history:
            return [], begin
        judged = any(epoch.validation is not None for epoch in history)
        peak = {"peak": torch.zeros(self.n_held, dtype=torch.float64)} if judged else {}
        checkpoint.check(arrays, _arrays(self._content(begin) | peak))
        tensors = {name: torch.from_numpy(values) for name, values in arrays.items()}
        self.peak = tensors.get("peak")
        self.load({name: tensors[f"now.{name}"] for name in begin})
        for index, parameter in enumerate(self.flat.pieces):
            for name, value in self.optimiser.state[parameter].items():
                value.copy_(tensors[f"optimiser.{index}.{name}"])
        return history, {name: tensors[f"best.{name}"].to(self.device) for name in begin}

    def _save(self, checkpoint: Checkpoint, history: list[Epoch], best: dict[str, Tensor]) -> None:
        if checkpoint.path is not None:
            peak = {} if self.peak is None else {"peak": self.peak}
            checkpoint.save(_arrays(self._content(best) | peak), history)

    def _content(self, best: dict[str, Tensor]) -> dict[str, Tensor]:
        """The networks now and at their best, and the state of the optimiser."""
        tensors = {f"now.{name}": value for name, value in self.state().items()}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        for index, parameter in enumerate(self.flat.pieces):
            for name, value in self.optimiser.state[parameter].items():
                tensors[f"optimiser.{index}.{name}"] = value
        return tensors

    def digest(self, identity: Any) -> str:
        """Parameters, networks as they begin, lists, how features are read, and a thousand rows of them."""
        decides = ("batch_queries", "warmup", "clip_norm", "validation", "list_size")
        chosen = {name: getattr(self.model, name) for name in decides}
        networks = repr(self.task.networks)
        parts = [chosen, self.run.precision, self.epochs, self.seed, networks, identity]
        tensors = [value for _, value in sorted(self.state().items())]
        for group in self.groups:
            batch = group.batch(torch.arange(len(group), device=self.device))
            width = batch.target.shape[1]
            tensors += [batch.rows[:, :width], batch.target, batch.weight, batch.unshown, batch.pages]
        tensors.append(self.table.gather(self.table.sample()))
        return digest_of(parts, *_arrays(dict(enumerate(tensors))).values())

    def state(self) -> dict[str, Tensor]:
        """A copy of the networks' state."""
        return {name: value.detach().clone() for name, value in self.task.networks.state_dict().items()}

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Take over a state in place: recorded steps hold the addresses of the numbers."""
        for name, value in self.task.networks.state_dict().items():
            value.copy_(state[name])


def _arrays(tensors: Mapping[Any, Tensor]) -> dict[Any, NDArray[Any]]:
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}


def schedule(model: Network, step: int, steps: int) -> float:
    """The share of the learning rate at a step: up to 1 in the warm-up, then down to 0 along a cosine.

    >>> from cldrank.models import MLP
    >>> [round(schedule(MLP(warmup=0.25), step, 8), 2) for step in range(8)]
    [0.5, 1.0, 0.93, 0.75, 0.5, 0.25, 0.07, 0.0]
    """
    warm = model.warmup * steps
    if step < warm:
        return min(1.0, (step + 1) / max(warm, 1.0))
    done = (step + 1 - warm) / max(steps - warm, 1.0)
    return 0.5 * (1 + math.cos(math.pi * done))


def _groups(lists: Lists, unshown_ratio: float, device: torch.device) -> list[BatchSource]:
    return (
        [BatchSource(packed, lists.unshown_rows, device) for packed in lists.pack(unshown_ratio)] if len(lists) else []
    )


def _mean_size(task: TrainingTask, groups: list[BatchSource]) -> float:
    """The mean size of a list."""
    total = 0.0
    for group in groups:
        for part in torch.arange(len(group), device=group.device).split(max(1, _VALIDATION_ROWS // group.width)):
            total += float(task.sizes(group.batch(part)).double().sum())
    return total / sum(map(len, groups))


def _mixed(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
