"""The training loop of all networks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
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
from cldrank.models.network.training_tasks import TrainingTask
from cldrank.models.run import Epoch, Run

if TYPE_CHECKING:
    from cldrank.models.network.mlp import MLP

Status = Literal["completed", "interrupted", "non_finite"]
State = dict[str, Tensor]
_VALIDATION_ROWS = 1 << 16


def train_network(
    task: TrainingTask, lists: Lists, held: Lists, table: FeatureTable, model: MLP, run: Run, *, identity: Any = None
) -> tuple[Status, list[Epoch]]:
    """Train the networks of a task on lists, and leave them as they were after the best epoch on the lists held out.

    Return how training ended, and all epochs. `identity` is what else decides the result: a checkpoint with another
    identity is not resumed.
    """
    trainer = Trainer(task, lists, held, table, model, run)
    devices = [table.device] if table.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        return trainer.go(Checkpoint.of(run, lambda: trainer.digest(identity)))


class Trainer:
    """A training in progress."""

    def __init__(
        self, task: TrainingTask, lists: Lists, held: Lists, table: FeatureTable, model: MLP, run: Run
    ) -> None:
        self.task, self.table, self.model, self.run = task, table, model, run
        self.device = table.device
        task.networks.to(self.device)
        self.groups = [BatchSource(packed, lists.unshown_rows, self.device) for packed in lists.pack(task.draws)]
        self._held = [BatchSource(packed, held.unshown_rows, self.device) for packed in held.pack()]
        self.n_lists, self.n_held = len(lists), len(held)
        self.batch_queries = model.batch_queries or min(max(self.n_lists // 64, 8), 128)
        total = float(sum(task.sizes(batch).double().sum() for batch in self._in_turn(self.groups)))
        self._scale = 1 / (self.batch_queries * (total / self.n_lists))  # losses are divided by the mean size
        self.peak: Tensor | None = None  # of each list held out, the preference that the best epoch agreed with
        self.flat = FlatParameters(parameter for parameter in task.networks.parameters() if parameter.requires_grad)
        self._graphed = self.device.type == "cuda" and table.resident is not None
        self.optimiser = self._optimiser()
        self._epoch_steps = sum(-(-len(group) // self.batch_queries) for group in self.groups)
        self._loss = torch.zeros((), device=self.device)
        self._recorded: dict[tuple[int, int], tuple[Tensor, torch.cuda.CUDAGraph]] = {}

    # -- epochs --------------------------------------------------------------------------------------------------

    def go(self, checkpoint: Checkpoint) -> tuple[Status, list[Epoch]]:
        """Run all epochs, from the first or from where a checkpoint left off."""
        self._prime()
        history, best = self._restored(checkpoint)
        status: Status = "completed"
        try:
            for number in range(len(history) + 1, self.model.epochs + 1):
                epoch = self._epoch(number, history)
                if not (math.isfinite(epoch.loss) and self.flat.finite):  # the loss does not show the last step
                    status = "non_finite"
                    break
                state = self.state() if epoch.best else best
                history, best = [*history, epoch], state  # together: Ctrl-C must not part an epoch from its network
                if checkpoint.path is not None:
                    checkpoint.save(_arrays(self._content(best, self.peak)), history)
                if self.run.on_epoch is not None:
                    self.run.on_epoch(epoch)
        except KeyboardInterrupt:
            if not history:
                raise
            status = "interrupted"
        if history:
            self.load(best)
        self.flat.release()
        return status, history

    def _epoch(self, number: int, history: list[Epoch]) -> Epoch:
        start = time.perf_counter()
        self.task.networks.train()
        self._loss.zero_()
        rate = 0.0
        for step, (group, chosen, features) in enumerate(self._batches(number)):
            rate = self._set_rate((number - 1) * self._epoch_steps + step)
            self._step(group, chosen, features)
        loss = float(self._loss) * self.batch_queries / self.n_lists
        agreement, best = self._judge(history)
        return Epoch(number, loss, agreement, float(rate), time.perf_counter() - start, best)

    def _batches(self, number: int) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """The batches of an epoch: the group, its lists, and their features if these are not on the device.

        All that is random in an epoch follows from the seed and its number, so that any epoch can be the first.
        """
        seed = self.run.seed
        torch.manual_seed(_mixed(seed, number, 0))
        random = torch.Generator(self.device).manual_seed(_mixed(seed, number))
        plan: list[tuple[int, Tensor]] = []
        for index, group in enumerate(self.groups):
            group.draw(random)
            shuffled = torch.randperm(len(group), generator=random, device=self.device)
            plan += [(index, part) for part in shuffled.split(self.batch_queries)]
        order = np.random.default_rng([seed, number]).permutation(len(plan))
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
        place, graph = self._recorded[group, len(chosen)]
        place.copy_(chosen)
        graph.replay()

    def _compute(self, group: BatchSource, chosen: Tensor, features: Tensor | None = None) -> None:
        """A step of the optimiser."""
        self.flat.gradient.zero_()
        batch = group.batch(chosen)
        loss = self.task.losses(self._features(batch) if features is None else features, batch).sum() * self._scale
        loss.backward()
        self._loss += loss.detach()
        if self.model.clip_norm is not None:
            self.flat.clip(self.model.clip_norm)
        self.optimiser.step()

    def _features(self, batch: ListBatch) -> Tensor:
        rows = batch.rows.flatten()
        if self.table.resident is not None:
            return self.table.resident.index_select(0, rows)
        return self.table.gather(rows.cpu().numpy())

    def _set_rate(self, step: int) -> float:
        rate = float(self.model.learning_rate) * schedule(self.model, step, self.model.epochs * self._epoch_steps)
        for part in self.optimiser.param_groups:
            if isinstance(part["lr"], Tensor):
                part["lr"].fill_(rate)
            else:
                part["lr"] = rate
        return rate

    # -- the held-out lists --------------------------------------------------------------------------------------

    def _judge(self, history: list[Epoch]) -> tuple[float | None, bool]:
        """The share of the held-out preference that the scores agree with, and whether to keep the networks for it.

        They are kept unless they are worse than at the best by two standard errors of the difference: what is held out
        is little and noisy, the best of many epochs is best by luck, and the last epochs, with small steps, are steady.
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
        pairs = [torch.zeros((2, 0), dtype=torch.float64)]
        for batch in self._in_turn(self._held):
            scores, _ = self.task.scores("relevance", self._features(batch), batch)
            pair = losses.concordance(scores, losses.preferences(batch.target, batch.weight))
            pairs.append(torch.stack(pair).double().cpu())
        agreed, known = torch.cat(pairs, dim=1)
        return agreed, known

    def _in_turn(self, groups: list[BatchSource]) -> Iterator[ListBatch]:
        """All lists in batches of bounded size."""
        for group in groups:
            for part in torch.arange(len(group), device=self.device).split(max(1, _VALIDATION_ROWS // group.width)):
                yield group.batch(part)

    # -- the optimiser and its state -----------------------------------------------------------------------------

    def _optimiser(self) -> torch.optim.AdamW:
        rate: float | Tensor = float(self.model.learning_rate)
        if self._graphed:
            rate = torch.tensor(rate, device=self.device)
        parts = [
            {"params": self.flat.decayed, "weight_decay": float(self.model.l2)},
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
            for at, group in enumerate(self.groups):
                for size in sorted({min(len(group), self.batch_queries), len(group) % self.batch_queries} - {0}):
                    self._recorded[at, size] = self._record(group, size)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()
        self.load(before)

    def _record(self, group: BatchSource, size: int) -> tuple[Tensor, torch.cuda.CUDAGraph]:
        """A step over `size` lists of a group as a CUDA graph, and the tensor from which it reads which lists."""
        place = torch.arange(size, device=self.device)
        self.task.networks.train()
        side, graph = torch.cuda.Stream(self.device), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # torch.cuda.graph(…) would empty all caches first, also those of pinned memory
            self._compute(group, place)
            graph.capture_begin()
            self._compute(group, place)
            graph.capture_end()
        torch.cuda.current_stream(self.device).wait_stream(side)
        return place, graph

    def state(self) -> State:
        """A copy of the networks' state."""
        return {name: value.detach().clone() for name, value in self.task.networks.state_dict().items()}

    @torch.no_grad()
    def load(self, state: State) -> None:
        """Take over a state in place: recorded steps hold the addresses of the numbers."""
        for name, value in self.task.networks.state_dict().items():
            value.copy_(state[name])

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _restored(self, checkpoint: Checkpoint) -> tuple[list[Epoch], State]:
        """The epochs so far, with networks and optimiser as they were, and the best state."""
        begin = self.state()
        arrays, history = checkpoint.restore()
        if not history:
            return [], begin
        tensors = {name: torch.from_numpy(values) for name, values in arrays.items()}
        self.peak = tensors.get("peak")
        self.load({name: tensors[f"now.{name}"] for name in begin})
        for name, value in self._optimiser_state():
            value.copy_(tensors[name])
        return history, {name: tensors[f"best.{name}"].to(self.device) for name in begin}

    def _content(self, best: State, peak: Tensor | None) -> State:
        """What a checkpoint holds: the networks now and at their best, and the state of the optimiser."""
        tensors = {f"now.{name}": value for name, value in self.state().items()}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        tensors |= dict(self._optimiser_state())
        return tensors if peak is None else {**tensors, "peak": peak}

    def _optimiser_state(self) -> Iterator[tuple[str, Tensor]]:
        for index, parameter in enumerate(self.flat.pieces):
            for name, value in self.optimiser.state[parameter].items():
                yield f"optimiser.{index}.{name}", value

    def digest(self, identity: Any) -> str:
        """Parameters, networks as they begin, lists, how features are read, and a thousand rows of them."""
        decides = ("batch_queries", "warmup", "clip_norm", "validation", "list_size")
        chosen = {name: getattr(self.model, name) for name in decides}
        parts = [chosen, self.model.epochs, self.run.seed, repr(self.task.networks), identity]
        tensors = [value for _, value in sorted(self.state().items())]
        for group in self.groups:
            batch = group.batch(torch.arange(len(group), device=self.device))
            width = batch.target.shape[1]
            tensors += [batch.rows[:, :width], batch.target, batch.weight, batch.unshown, batch.pages]
        rows = len(self.table)
        tensors.append(self.table.gather(np.arange(0, rows, max(1, rows // 1000))))
        return digest_of(parts, *_arrays(dict(enumerate(tensors))).values())


def _arrays(tensors: Mapping[Any, Tensor]) -> dict[Any, NDArray[Any]]:
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}


def schedule(model: MLP, step: int, steps: int) -> float:
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


def _mixed(*numbers: int) -> int:
    """A seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
