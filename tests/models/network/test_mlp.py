"""Networks with all methods: modules of a user's own, parameters, and logs of every shape."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scenes import Scene
from small_networks import GIVEN, SMALL, scores
from torch import nn

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.methods import CLD, IPS, CLDPair, Method, Naive, Oracle, RankAgg
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured
from cldrank.models import MLP, Run
from cldrank.propensity import Propensities

QUICK = replace(SMALL, epochs=2)
every_method = pytest.mark.parametrize("kind", [CLDPair, Naive, IPS, Oracle, CLD])


def fresh(kind: type[Method], **settings: Any) -> Any:
    return configured(kind, {"model": QUICK, **settings})


def labelled(given: Scene = GIVEN) -> RankingDataset:
    data = given.data
    labels = (data.features[:, -1] > 1).astype(np.float32)
    return RankingDataset.from_arrays(data.features, data.row_queries, labels=labels)


def fit(method: Any, given: Scene = GIVEN) -> Any:
    return method.fit(labelled(given), *needed(method.needs, given.clicks, given.propensities))


# -- a module of the user's own ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["mlp", nn.Linear(3, 1), MLP, None], ids=str)
@every_method
def test_what_is_not_a_model_is_refused(kind: Any, wrong: Any) -> None:
    with pytest.raises(UsageError, match="`model` must be a model such as Linear"):
        fit(kind(model=wrong))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": (8, 0)}, "`hidden` must be a list of whole numbers of at least 1, not "),
        ({"hidden": (8, 2.0)}, "`hidden` must be a list of whole numbers"),
        ({"hidden": 8}, "`hidden` must be a list of whole numbers of at least 1, not 8"),
        ({"hidden": "ab"}, "`hidden` must be a list of whole numbers"),
        ({"dropout": 1.0}, "`dropout` must be a number of at least 0 and below 1, not 1.0"),
        ({"dropout": np.nan}, "`dropout` must be a number of at least 0 and below 1, not nan"),
        ({"activation": "maxout"}, "`activation` must be 'elu', 'relu' or 'tanh', not 'maxout'"),
    ],
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MLP(**wrong)


def test_the_paper_s_network() -> None:
    network = MLP().build(140, seed=0)
    shapes = [tuple(value.shape) for value in network.parameters()]
    assert shapes == [(256, 140), (256,), (128, 256), (128,), (64, 128), (64,), (1, 64)]
    weight = next(network.parameters())
    assert weight.abs().max() <= (6 / (256 + 140)) ** 0.5  # Xavier's rule
    assert weight.std().item() == pytest.approx((2 / (256 + 140)) ** 0.5, rel=0.02)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), MLP().build(140, 0).parameters(), strict=True))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
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
    ("wrong", "message"),
    [
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1, not 0"),
        ({"epochs": 2.5}, "`epochs` must be a whole number of at least 1, not 2.5"),
        ({"epochs": True}, "`epochs` must be .*, not True"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, not -1"),
        ({"learning_rate": -1}, "`learning_rate` must be a number above 0, not -1"),
        ({"learning_rate": np.nan}, "`learning_rate` must be a number above 0, not nan"),
        ({"learning_rate": "fast"}, "`learning_rate` must be a number above 0, not 'fast'"),
        ({"device": "abacus"}, "`device='abacus'` cannot be used here; torch has cpu"),
        ({"l2": -0.1}, "`l2` must be a number of at least 0, not -0.1"),
        ({"scaling": "robust"}, "`scaling` must be 'standard', .*, or None, not 'robust'"),
    ],
)
@every_method
def test_parameters_that_mean_nothing_are_refused(kind: type[Method], wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit(fresh(kind, **wrong))


@every_method
def test_a_gpu_that_is_not_there_is_named(kind: type[Method]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match="`device='cuda'` cannot be used here; torch has cpu alone"):
        fit(fresh(kind, device="cuda"))


@every_method
def test_numbers_of_numpy_serve_as_parameters(kind: type[Method]) -> None:
    numpys = {"epochs": np.int64(2), "seed": np.int64(0), "learning_rate": np.float32(0.25), "l2": np.float64(1e-3)}
    plain = fresh(kind, learning_rate=0.25)
    np.testing.assert_array_equal(scores(fit(fresh(kind, **numpys))), scores(fit(plain)))
    assert np.isfinite(scores(fit(fresh(kind, seed=2**70)))).all()


@every_method
def test_a_saved_ranker_does_not_say_where_files_lay(kind: type[Method], tmp_path: Path) -> None:
    own = {"checkpoint": tmp_path / "secret", "on_epoch": lambda _: None, "device": "cpu"}
    parameters = fit(fresh(kind, **own, validation=0.2)).ranker_.provenance.parameters
    assert parameters["model__validation"] == 0.2
    assert not {f"run__{name}" for name in own} & parameters.keys()
    assert "secret" not in repr(parameters)


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
    "a query of a single candidate": log([*PAIR, (3, 1, 5, 2)], [3, 1]),
    "several positions": log([(0, 1, 10, 3), (0, 2, 4, 1), (1, 2, 10, 1), (1, 1, 4, 0)], [4]),
    "clicks on one query only": log([*PAIR, (4, 1, 9, 0), (5, 2, 9, 0)], [4, 4, 4]),
    "a single query": log(PAIR, [3]),
    "a long list": log([(row, row + 1, 9, row % 5) for row in range(60)], [70, 3]),
    "few unshown for many shown": log([(row, row + 1, 9, row % 5) for row in range(9)], [10, 3]),
    "one feature": log(PAIR, [4], width=1),
}


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
@pytest.mark.parametrize("hidden", [(8,), ()], ids=["network", "linear"])
def test_every_log_can_be_learned_from(given: Scene, hidden: tuple[int, ...]) -> None:
    plain = MLP(hidden=hidden, dropout=0.25, epochs=2)
    for model in (plain, replace(plain, list_size=4, batch_queries=1, validation=0.5)):
        methods: list[Method] = [CLDPair(model=model, unshown_ratio=ratio) for ratio in (0.0, 1.0, 100.0)]
        methods += [Naive(model=model), IPS(model=model), CLD(model=model)] if hidden else []
        for method in methods:
            method.fit(given.data, *needed(method.needs, given.clicks, given.propensities))
            assert method.status_ == "completed"
            assert np.isfinite(method.predict(given.data)).all()


def test_rank_agg_learns_from_several_positions() -> None:
    assert np.isfinite(RankAgg(model=replace(SMALL, epochs=2)).fit(*GIVEN).predict(GIVEN.data)).all()


@pytest.mark.filterwarnings("ignore:the clicks refute")  # as they do, on purpose
def test_queries_are_counted_however_their_lists_are_cut() -> None:
    cells = [(row, row % 150 + 1, 9, row % 5) for row in range(300)]
    model = CLDPair(model=replace(SMALL, epochs=1, list_size=10, validation=0.5)).fit(*log(cells, [160, 150]))
    assert (model.n_queries_, model.n_held_) == (1, 1)


def test_lists_cut_too_short_to_have_a_preference_are_refused() -> None:
    cells = [(0, 1, 9, 9), (1, 1, 9, 9), (2, 1, 9, 0), (3, 1, 9, 0)]
    given, seeds = log(cells, [4]), range(20)
    messages = []
    for seed in seeds:
        try:
            CLDPair(model=replace(SMALL, epochs=1, list_size=2, validation=0.0), run=Run(seed=seed)).fit(*given)
        except DataError as error:
            messages.append(str(error))
    assert 0 < len(messages) < len(seeds)  # by chance, like stands beside like
    assert set(messages) == {
        "cut into lists of at most 2, no list has one candidate preferred to another; raise list_size."
    }


# -- how a network is trained --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"batch_queries": 0},
            "`batch_queries` must be a whole number of at least 1 and up to 2147483647, or None, not 0",
        ),
        ({"batch_queries": 2.5}, "not 2.5"),
        ({"batch_queries": 10**30}, "`batch_queries` must be a whole number of at least 1 and up to 2147483647"),
        ({"list_size": 1}, "`list_size` must be a whole number of at least 2 and up to 2147483647, not 1"),
        ({"warmup": 1.5}, "`warmup` must be a number of at least 0 and up to 1, not 1.5"),
        ({"validation": 1.0}, "`validation` must be a number of at least 0 and up to 0.9, not 1.0"),
        ({"validation": math.nan}, "not nan"),
        ({"clip_norm": 0}, "`clip_norm` must be"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MLP(**wrong)
