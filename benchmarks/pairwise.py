"""How fast CLD-pair trains, against the plain way, against the bare network, and against the GPU's own limits.

    CLDRANK_DATA=… python benchmarks/pairwise.py [--device cuda] [--parts first plain step scaling device]

first     the whole fit of `device` as the first of its process, which loads torch's kernels and makes ready the GPU
plain     one epoch on MSRD (or data of its shape, where it is not here) against a DataLoader over as many pairs, batch
          2048, network run on both sides; and against forward and backward alone over the candidates that occur
step      what a step does, on the CPU: milliseconds of its parts, the lower quartile of many steps, with forward and
          backward of the network alone beside them; data of the shape of MSRD
scaling   time of an epoch for 10^3, 10^4, 10^5 queries, and for 10^5 and 10^8 sessions
device    12 epochs on 6,000 queries x 120 candidates x 136 features, 10^5 sessions, after a tiny fit: the epochs alone
          and the whole fit; on a GPU also the share of the time in which no kernel runs

Prints one JSON line a part; times are the best of several epochs of one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import logsigmoid
from torch.utils.data import DataLoader, Dataset

import cldrank as cr
from cldrank import catalogue, losses
from cldrank import scaling as scalings
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.data.dataset import RankingDataset
from cldrank.methods.observing import observe
from cldrank.models import MLP, Run
from cldrank.models.network.lists import BatchSource, observed_lists
from cldrank.models.network.loop import Trainer
from cldrank.models.network.networks import FlatParameters

CUTOFF, RHO = 5, cr.Propensities.power(1.0, 5)


def shaped(queries: int, candidates: int, width: int, seed: int = 0) -> RankingDataset:
    """Random data of a shape: speed does not depend on what features mean."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((queries * candidates, width), dtype=np.float32)
    labels = (features[:, :4].sum(axis=1) > 2).astype(np.float32)
    return RankingDataset.from_arrays(features, np.arange(len(features)) // candidates, labels=labels)


def clicks_on(data: RankingDataset, sessions: float) -> cr.ClickTable:
    scores = data.features[:, :2].sum(axis=1)
    model = PositionBased(eta=1.0, noise=0.1)
    return Simulation(data, scores, model=model, policy=TopK(), depth=CUTOFF).draw(sessions, seed=0)


def epochs_of(data: RankingDataset, clicks: cr.ClickTable, epochs: int = 4, **changes: Any) -> cr.CLDPair:
    return cr.CLDPair(model=MLP(epochs=epochs, validation=0.0), run=Run(**changes)).fit(data, clicks, RHO)


def fastest(model: cr.CLDPair) -> float:
    """The quickest epoch but the first, which warms up."""
    return min(epoch.seconds for epoch in model.history_[1:])


# -- against the plain way -----------------------------------------------------------------------------------------


class PlainPairs(Dataset[tuple[Any, ...]]):
    """One pair an item: the features of both sides, who was shown, and the weight."""

    def __init__(self, features: NDArray[np.float32], pairs: NDArray[np.int64], both: Any, weight: Any) -> None:
        self.features, self.pairs, self.both, self.weight = torch.from_numpy(features), pairs, both, weight

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        first, second = self.pairs[index]
        return self.features[first], self.features[second], self.both[index], self.weight[index]


def plain_pairs(data: RankingDataset, clicks: cr.ClickTable) -> PlainPairs:
    """The pairs of one epoch, as many as CLD-pair learns from: preferred ones, and one with an unshown for each."""
    lists = observed_lists(observe(data, clicks, RHO))
    lists = lists[lists.preferring()]
    size = np.diff(lists.offsets)
    low = lists.offsets[:-1]
    pairs, weights = [], []
    for first in range(int(size.max())):
        for second in range(int(size.max())):
            here = low[(first < size) & (second < size)]
            gap = lists.target[here + first] - lists.target[here + second]
            kept = here[gap > 0]
            pairs.append(np.stack([lists.rows[kept + first], lists.rows[kept + second]], axis=1))
            weights.append(gap[gap > 0])
    own, weight = np.concatenate(pairs), np.concatenate(weights)
    random = np.random.default_rng(0)
    query = data.row_queries[own[:, 0]]
    place = np.searchsorted(np.unique(data.row_queries[lists.rows]), query)
    count = np.diff(lists.unshown_offsets)[place]
    drawn = lists.unshown_rows[lists.unshown_offsets[place] + (random.random(len(place)) * count).astype(np.int64)]
    mixed = np.stack([own[:, 0], drawn], axis=1)
    both = np.repeat([1.0, 0.0], [len(own), len(mixed)]).astype(np.float32)
    scaled = scalings.fit("standard", data.features).transform(data.features)
    return PlainPairs(scaled, np.concatenate([own, mixed]), both, np.append(weight, weight))


def plain_network(width: int) -> torch.nn.Sequential:
    """The same layers as torch has them."""
    layers: list[torch.nn.Module] = []
    for size in (256, 128, 64):
        layers += [torch.nn.Linear(width, size), torch.nn.ELU(), torch.nn.Dropout(0.2)]
        width = size
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1, bias=False))


def plain_epoch(pairs: PlainPairs, weight: float = 0.05) -> float:
    """One epoch the plain way."""
    torch.manual_seed(0)
    width = pairs.features.shape[1]
    network, selection = plain_network(width), torch.nn.Linear(width, 1)
    optimiser = torch.optim.AdamW([*network.parameters(), *selection.parameters()], lr=2e-3)
    start = time.perf_counter()
    for first, second, both, how_much in DataLoader(pairs, batch_size=2048, shuffle=True):
        gap = (network(first) - network(second))[:, 0]
        chosen, other = selection(first)[:, 0], selection(second)[:, 0]
        seen = logsigmoid(chosen + gap) + torch.where(both > 0, logsigmoid(other + gap), logsigmoid(-other))
        loss = -(how_much * (both * logsigmoid(gap) + weight * seen)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return time.perf_counter() - start


def bare_epoch(rows: int, width: int, batch_rows: int, device: str) -> float:
    """Forward and backward of the network alone over so many rows, in batches of the same size; the best of three."""
    network = MLP().build(width, 0).to(device).train()
    table = torch.randn(min(rows, 200_000), width, device=device)

    def go() -> None:
        for start in range(0, rows, batch_rows):
            at = start % max(1, len(table) - batch_rows)
            network(table[at : at + batch_rows]).sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()

    go()
    return min(timed(go) for _ in range(3))


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def plain(device: str) -> dict[str, Any]:
    here = catalogue.get("msrd").find() is not None
    data = cr.load("msrd:train") if here else shaped(9767, 24, 140)
    clicks = clicks_on(data, 1e5)
    pairs = plain_pairs(data, clicks)
    model = epochs_of(data, clicks, device=device)
    ours, reference = fastest(model), min(plain_epoch(pairs) for _ in range(2))
    per_query = CUTOFF + 2
    bare = bare_epoch(model.n_queries_ * per_query, data.n_features, 128 * per_query, device)
    return {
        "data": "msrd" if here else "of the shape of msrd",
        "pairs": len(pairs),
        "candidates": model.n_queries_ * per_query,
        "epoch_s": round(ours, 4),
        "plain_s": round(reference, 4),
        "bare_s": round(bare, 4),
        "plain_over_epoch": round(reference / ours, 2),
        "epoch_over_bare": round(ours / bare, 2),
    }


def step(device: str) -> dict[str, Any]:
    if device != "cpu":
        raise SystemExit("a step on a GPU is one graph; --parts step is for the CPU.")
    parts: dict[str, tuple[Any, str]] = {
        "lists": (BatchSource, "batch"),
        "rows": (Trainer, "_features"),
        "pair_weights": (losses, "preferences"),
        "loss_and_slopes": (losses, "cld_pair"),
        "clipping": (FlatParameters, "clip"),
        "adamw": (torch.optim.AdamW, "step"),
        "step": (Trainer, "_compute"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    data = shaped(9767, 24, 140)
    with ExitStack() as patches:
        for name, (owner, function) in parts.items():
            patches.enter_context(patch.object(owner, function, watch(getattr(owner, function), seconds[name])))
        epochs_of(data, clicks_on(data, 1e5), 6, device=device)
    batch_rows = 128 * (CUTOFF + 2)
    seconds["network"] = [bare_epoch(batch_rows, 140, batch_rows, device) for _ in range(200)]
    quickly = {f"{name}_ms": round(1000 * float(np.quantile(each, 0.25)), 3) for name, each in seconds.items()}
    return {"threads": torch.get_num_threads(), **quickly}


def watch(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The same function, which notes how long it takes."""

    @wraps(function)
    def watched(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        found = function(*arguments, **named)
        seconds.append(time.perf_counter() - start)
        return found

    return watched


# -- scaling and devices -------------------------------------------------------------------------------------------


def scaling(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for queries in (1000, 10_000, 100_000):
        data = shaped(queries, 12, 64)
        found[f"epoch_s_{queries}_queries"] = round(fastest(epochs_of(data, clicks_on(data, 1e6), device=device)), 4)
    data = shaped(10_000, 12, 64)
    for sessions in (1e6, 1e8):
        seconds = fastest(epochs_of(data, clicks_on(data, sessions), device=device))
        found[f"epoch_s_{sessions:.0e}_sessions"] = round(seconds, 4)
    found["sessions_ratio"] = round(found["epoch_s_1e+08_sessions"] / found["epoch_s_1e+06_sessions"], 2)
    return found


def whole_fit(data: RankingDataset, clicks: cr.ClickTable, device: str, **changes: Any) -> tuple[float, float]:
    """Seconds of a fit of twelve epochs, and of its epochs alone."""
    start = time.perf_counter()
    model = epochs_of(data, clicks, 12, device=device, **changes)
    return round(time.perf_counter() - start, 4), round(sum(epoch.seconds for epoch in model.history_), 4)


def first(device: str) -> dict[str, Any]:
    data = shaped(6000, 120, 136)
    fit, epochs = whole_fit(data, clicks_on(data, 1e5), device)
    return {"fit_s": fit, "epochs_s": epochs}


def on_device(device: str) -> dict[str, Any]:
    tiny = shaped(200, 12, 8)
    epochs_of(tiny, clicks_on(tiny, 1e4), 2, device=device)
    data = shaped(6000, 120, 136)
    clicks = clicks_on(data, 1e5)
    found: dict[str, Any] = {}
    found["fit_s_after_tiny"], found["epochs_s_after_tiny"] = whole_fit(data, clicks, device)
    found["fit_s"], found["epochs_s"] = min(whole_fit(data, clicks, device) for _ in range(3))
    if device == "cuda":
        found["busy_s"] = busy(data, clicks)
        found["outside_kernels"] = round(1 - found["busy_s"] / found["epochs_s"], 3)
        found["bare_s"] = round(12 * bare_epoch(6000 * (CUTOFF + 2), 136, 128 * (CUTOFF + 2), device), 4)
    return found


def busy(data: RankingDataset, clicks: cr.ClickTable) -> float:
    """Seconds of twelve epochs in which a kernel runs."""
    from torch.profiler import ProfilerActivity, profile

    seconds = 0.0
    before = Trainer._epoch

    def watched(self: Trainer, *arguments: Any) -> Any:
        nonlocal seconds
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            epoch = before(self, *arguments)
            torch.cuda.synchronize()
        seconds += sum(event.self_device_time_total for event in record.key_averages()) / 1e6
        return epoch

    Trainer._epoch = watched  # type: ignore[method-assign, assignment]
    try:
        epochs_of(data, clicks, 12, device="cuda")
    finally:
        Trainer._epoch = before  # type: ignore[method-assign]
    return round(seconds, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts: dict[str, Callable[[str], dict[str, Any]]] = {
        "first": first, "plain": plain, "step": step, "scaling": scaling, "device": on_device
    }  # fmt: skip
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", nargs="+", choices=parts)
    arguments = parser.parse_args()
    for part in arguments.parts or [part for part in parts if part != "step" or arguments.device == "cpu"]:
        line = {"benchmark": "pairwise", "part": part, "device": arguments.device, **parts[part](arguments.device)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
