"""Networks with all methods: modules of a user's own, parameters, and logs of every shape."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scenes import Scene
from small_models import GIVEN, SMALL
from torch import nn

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.methods import CLD, IPS, CLDPair, Method, Naive
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured
from cldrank.models import MLP, Run
from cldrank.propensity import Propensities

QUICK = replace(SMALL, epochs=2)


def fresh(kind: type[Method], **settings: Any) -> Any:
    return configured(kind, {"model": QUICK, **settings})


def labelled(given: Scene = GIVEN) -> RankingDataset:
    data = given.data
    labels = (data.features[:, -1] > 1).astype(np.float32)
    return RankingDataset.from_arrays(data.features, data.row_queries, labels=labels)


def fit(method: Any, given: Scene = GIVEN) -> Any:
    return method.fit(labelled(given), *needed(method.needs, given.clicks, given.propensities))


def test_the_paper_s_network() -> None:
    network = MLP().build(140, seed=0)
    shapes = [tuple(value.shape) for value in network.parameters()]
    assert shapes == [(256, 140), (256,), (128, 256), (128,), (64, 128), (64,), (1, 64)]
    weight = next(network.parameters())
    assert weight.abs().max() <= (6 / (256 + 140)) ** 0.5  # Xavier's rule
    assert weight.std().item() == pytest.approx((2 / (256 + 140)) ** 0.5, rel=0.02)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), MLP().build(140, 0).parameters(), strict=True))


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_dropout_keeps_the_mean_and_is_silent_when_scoring(share: float) -> None:
    network = MLP(hidden=(4,), dropout=share).build(3, seed=0)
    ones = torch.ones(20_000, 4)
    dropouts = [layer for layer in network if isinstance(layer, nn.Dropout)]
    assert len(dropouts) == (share > 0)
    for layer in dropouts:
        torch.manual_seed(0)
        dropped = layer.train()(ones)
        assert dropped.mean().item() == pytest.approx(1, abs=0.05)
        assert (dropped == 0).float().mean().item() == pytest.approx(share, abs=0.01)
        assert torch.equal(layer.eval()(ones), ones)


# -- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device",
    ["abacus", pytest.param("cuda", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"))],
)
def test_a_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(UsageError, match=f"`device='{device}'`"):
        fit(fresh(IPS, device=device))


# -- logs of every shape -------------------------------------------------------------------------------------------


def log(cells: list[tuple[int, int, int, int]], candidates: list[int], width: int = 3) -> Scene:
    """A scene of queries with so many candidates, and these cells: row, position, impressions, clicks."""
    rows = sum(candidates)
    features = np.random.default_rng(0).normal(size=(rows, width))
    data = RankingDataset.from_arrays(features, np.repeat(np.arange(len(candidates)), candidates))
    row, position, impressions, clicks = (list(values) for values in zip(*cells, strict=True))
    table = ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)
    return Scene(data, table, Propensities.power(1, 200))


PAIR = [(0, 1, 10, 1), (1, 2, 10, 4)]  # of the first query, two shown and clicked unequally
SCENES = {
    "one shown candidate in a query": log([*PAIR, (4, 1, 5, 2)], [4, 3]),
    "all candidates shown": log([*PAIR, (2, 1, 5, 2), (3, 2, 5, 1)], [2, 2]),
    "all shown in one query, not in another": log([*PAIR, (2, 1, 5, 2), (3, 2, 5, 1)], [2, 4]),
    "several positions": log([(0, 1, 10, 3), (0, 2, 4, 1), (1, 2, 10, 1), (1, 1, 4, 0)], [4]),
    "clicks on one query only": log([*PAIR, (4, 1, 9, 0), (5, 2, 9, 0)], [4, 4, 4]),
    "a long list": log([(row, row + 1, 9, row % 5) for row in range(60)], [70, 3]),
    "few unshown for many shown": log([(row, row + 1, 9, row % 5) for row in range(9)], [10, 3]),
    "one feature": log(PAIR, [4], width=1),
}


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
def test_every_log_can_be_learned_from(given: Scene) -> None:
    plain = MLP(hidden=(8,), dropout=0.25, epochs=1)
    small = replace(plain, list_size=4, batch_queries=1, validation=0.5)
    methods: list[Method] = [
        CLDPair(model=model, selection_weight=0.05, unshown_ratio=100.0) for model in (plain, small)
    ]
    methods += [CLDPair(model=replace(small, loss=form)) for form in ("pairs", "top", "softmax")]
    methods += [
        CLDPair(model=small, selection_weight=0.05, unshown_ratio=0.0),
        Naive(model=small),
        CLD(model=small),
        CLD(model=plain),
    ]
    for method in methods:
        method.fit(given.data, *needed(method.needs, given.clicks, given.propensities))
        assert method.status_ == "completed"
        assert np.isfinite(method.predict(given.data)).all()


@pytest.mark.filterwarnings("ignore:the clicks refute")  # as they do, on purpose
def test_queries_are_counted_however_their_lists_are_cut() -> None:
    cells = [(row, row % 150 + 1, 9, row % 5) for row in range(300)]
    model = CLDPair(model=replace(SMALL, epochs=1, list_size=10, validation=0.5)).fit(*log(cells, [160, 150]))
    assert (model.n_queries_, model.n_held_) == (1, 1)


def test_lists_cut_too_short_to_have_a_preference_are_refused() -> None:
    cells = [(0, 1, 9, 9), (1, 1, 9, 9), (2, 1, 9, 0), (3, 1, 9, 0)]
    given, seeds = log(cells, [4]), range(8)
    messages = []
    for seed in seeds:
        try:
            CLDPair(model=replace(SMALL, epochs=1, list_size=2, validation=0.0), run=Run(seed=seed)).fit(*given)
        except DataError as error:
            messages.append(str(error))
    assert 0 < len(messages) < len(seeds)  # by chance, like stands beside like
    assert all("list_size" in message for message in messages)
