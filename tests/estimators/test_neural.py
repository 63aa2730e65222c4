"""What all methods with a network share: modules of a user's own, parameters, and logs of every shape."""

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
from cldrank.estimators import CLD, IPS, CLDPair, Naive, Oracle, RankAgg
from cldrank.estimators.neural.lists import click_lists, label_lists
from cldrank.models.network import Training
from cldrank.models.network.networks import MLP, build
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker, ModuleRanker, NetworkRanker, load_ranker

NEURAL: list[Any] = [CLDPair(), Naive(model="mlp"), IPS(model="mlp"), Oracle(model="mlp"), CLD(model="mlp")]
every_method = pytest.mark.parametrize("method", NEURAL, ids=lambda method: type(method).__name__)


def fresh(method: Any, **changes: Any) -> Any:
    return type(method)(**method.get_params() | {"epochs": 2, "model": SMALL} | changes)


def labelled(given: Scene = GIVEN) -> RankingDataset:
    data = given.data
    labels = (data.features[:, -1] > 1).astype(np.float32)
    return RankingDataset.from_arrays(data.features, data.row_queries, labels=labels)


def fit(method: Any, given: Scene = GIVEN) -> Any:
    return method.fit(labelled(given), given.clicks, given.propensities)


# -- a module of the user's own ------------------------------------------------------------------------------------


class Gated(nn.Module):
    """No plain sequence of layers."""

    def __init__(self, width: int = 3, outputs: int = 1) -> None:
        super().__init__()
        self.gate, self.value = nn.Linear(width, outputs), nn.Linear(width, outputs)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        rows = self.norm(rows)
        found: torch.Tensor = torch.sigmoid(self.gate(rows)) * self.value(rows)
        return found


@every_method
def test_a_module_trains_is_saved_and_loaded(method: Any, tmp_path: Path) -> None:
    own = Gated()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    model = fit(fresh(method, model=own))
    assert isinstance(model.ranker_, ModuleRanker)
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())  # a copy was trained
    assert any((model.ranker_.state[name] != value.numpy()).any() for name, value in before.items())
    model.ranker_.save(tmp_path)
    again = load_ranker(tmp_path, module=Gated())
    np.testing.assert_array_equal(again.predict(GIVEN.data), scores(model))
    with pytest.raises(UsageError, match=r"a torch module of the class Gated, whose code is not saved"):
        load_ranker(tmp_path)


def test_training_begins_with_the_numbers_that_a_module_has() -> None:
    own = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        own.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
    model = fit(fresh(CLDPair(), model=own, learning_rate=1e-12, l2=0.0))
    assert isinstance(model.ranker_, LinearRanker)
    np.testing.assert_allclose(model.coef_, [1, 2, 3], atol=1e-6)


def test_parameters_that_a_user_froze_stay_as_they_are() -> None:
    first, last = nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 1)
    own = nn.Sequential(first, nn.Tanh(), last)
    model = fit(fresh(CLDPair(), model=own, learning_rate=0.1, l2=0.5))
    assert isinstance(model.ranker_, NetworkRanker)
    layers = model.ranker_.layers
    np.testing.assert_array_equal(layers[0].weight, first.weight.numpy())
    assert layers[2].weight is not None
    assert (layers[2].weight != last.weight.detach().numpy()).any()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (Gated(outputs=2), r"the model gives \(2, 2\) for 2 rows; it must give one score per row"),
        (Gated(width=5), "the model cannot score rows of 3 features: "),
        (nn.Flatten(0), r"the model gives \(6,\) for 2 rows"),
        (nn.Linear(3, 1).requires_grad_(False), "no parameter that can be trained"),
        (nn.Bilinear(3, 3, 1), "the model cannot score rows of 3 features: "),
        ("cnn", "model must be 'linear', 'mlp', an MLP, or a torch module, not 'cnn'"),
        (None, "model must be 'linear', 'mlp', an MLP, or a torch module, not None"),
        (Gated, "model must be 'linear', 'mlp', an MLP, or a torch module, not <class"),
    ],
    ids=str,
)
@every_method
def test_a_model_that_gives_no_score_a_row_is_refused(method: Any, own: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit(fresh(method, model=own))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": (8, 0)}, "hidden must be the sizes of the layers"),
        ({"hidden": (8, 2.0)}, "hidden must be the sizes of the layers"),
        ({"hidden": 8}, "hidden must be the sizes of the layers, such as .*, not 8"),
        ({"hidden": "ab"}, "hidden must be the sizes of the layers"),
        ({"dropout": 1.0}, "dropout must be a number from 0 to below 1, not 1.0"),
        ({"dropout": np.nan}, "dropout must be a number from 0 to below 1, not nan"),
        ({"activation": "maxout"}, "activation must be one of elu, relu, .*, not 'maxout'"),
    ],
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MLP(**wrong)


def test_the_paper_s_network() -> None:
    network = build("mlp", 140, seed=0)
    shapes = [tuple(value.shape) for value in network.parameters()]
    assert shapes == [(256, 140), (256,), (128, 256), (128,), (64, 128), (64,), (1, 64)]
    weight = next(network.parameters())
    assert weight.abs().max() <= (6 / (256 + 140)) ** 0.5  # Xavier's rule
    assert weight.std().item() == pytest.approx((2 / (256 + 140)) ** 0.5, rel=0.02)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), build("mlp", 140, 0).parameters(), strict=True))


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
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, not 2.5"),
        ({"epochs": True}, "epochs must be .*, not True"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"learning_rate": -1}, "learning_rate must be a number above 0, not -1"),
        ({"learning_rate": np.nan}, "learning_rate must be a number above 0, not nan"),
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0, not 'fast'"),
        ({"training": "x"}, "training must be a Training or None, not 'x'"),
        ({"training": {"validation": 0.1}}, "training must be a Training or None, not "),
        ({"device": "abacus"}, "device 'abacus' cannot be used here: "),
        ({"l2": -0.1}, "l2 must be a number of at least 0, not -0.1"),
        ({"scaling": "robust"}, "scaling 'robust' is not known"),
    ],
)
@every_method
def test_parameters_that_mean_nothing_are_refused(method: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit(fresh(method, **wrong))


@every_method
def test_a_gpu_that_is_not_there_is_named(method: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match="device 'cuda' cannot be used here: "):
        fit(fresh(method, device="cuda"))


@every_method
def test_numbers_of_numpy_serve_as_parameters(method: Any) -> None:
    numpys = {"epochs": np.int64(2), "seed": np.int64(0), "learning_rate": np.float32(0.25), "l2": np.float64(1e-3)}
    plain = fresh(method, learning_rate=0.25)
    np.testing.assert_array_equal(scores(fit(fresh(method, **numpys))), scores(fit(plain)))
    assert np.isfinite(scores(fit(fresh(method, seed=2**70)))).all()


@pytest.mark.parametrize("method", [Naive, IPS, Oracle])
def test_clustered_errors_are_for_the_linear_model(method: Any) -> None:
    with pytest.raises(UsageError, match="cluster='query' is for model='linear'"):
        fit(method(model=SMALL, cluster="query"))


@every_method
def test_a_saved_ranker_does_not_say_where_files_lay(method: Any, tmp_path: Path) -> None:
    settings = Training(checkpoint=tmp_path / "secret", on_epoch=lambda _: None, validation=0.2)
    model = fit(fresh(method, training=settings))
    assert model.ranker_.provenance.parameters["training"] == "Training(validation=0.2)"


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
    "a long list": log([(row, row + 1, 9, row % 5) for row in range(150)], [160, 3]),
    "few unshown for many shown": log([(row, row + 1, 9, row % 5) for row in range(9)], [10, 3]),
    "one feature": log(PAIR, [4], width=1),
}


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
@pytest.mark.parametrize("model", [SMALL, "linear"], ids=["network", "linear"])
def test_every_log_can_be_learned_from(given: Scene, model: Any) -> None:
    methods = [CLDPair(model, unshown_ratio=ratio) for ratio in (0.0, 1.0, 100.0)]
    methods += [] if model == "linear" else [Naive(model=model), IPS(model=model), CLD(model=model)]
    for method in methods:
        for settings in (Training(), Training(list_size=4, batch_queries=1, validation=0.5)):
            method.set_params(epochs=2, training=settings).fit(*given)
            assert method.status_ == "completed"
            assert np.isfinite(method.predict(given.data)).all()


def test_rank_agg_learns_from_several_positions() -> None:
    assert np.isfinite(RankAgg(model=SMALL, epochs=2).fit(*GIVEN).predict(GIVEN.data)).all()


@pytest.mark.filterwarnings("ignore:the clicks refute")  # as they do, on purpose
def test_queries_are_counted_however_their_lists_are_cut() -> None:
    cells = [(row, row % 150 + 1, 9, row % 5) for row in range(300)]
    model = CLDPair(SMALL, epochs=1, training=Training(list_size=10, validation=0.5)).fit(*log(cells, [160, 150]))
    assert (model.n_queries_, model.n_held_) == (1, 1)


def test_lists_cut_too_short_to_have_a_preference_are_refused() -> None:
    cells = [(0, 1, 9, 9), (1, 1, 9, 9), (2, 1, 9, 0), (3, 1, 9, 0)]
    given, seeds = log(cells, [4]), range(20)
    messages = []
    for seed in seeds:
        try:
            CLDPair(SMALL, epochs=1, seed=seed, training=Training(list_size=2, validation=0.0)).fit(*given)
        except DataError as error:
            messages.append(str(error))
    assert 0 < len(messages) < len(seeds)  # by chance, like stands beside like
    assert set(messages) == {
        "cut into lists of at most 2, no list has one candidate preferred to another; raise list_size."
    }


# -- lists ---------------------------------------------------------------------------------------------------------


def test_lists_of_clicks_are_the_candidates_of_the_queries_displayed() -> None:
    lists = click_lists(*GIVEN)
    table, data = GIVEN.clicks, GIVEN.data
    displayed = [query for query in range(len(data)) if table.query_impressions[query]]
    assert len(lists) == len(displayed) < len(data)
    for at, query in enumerate(displayed):
        own = np.arange(data.offsets[query], data.offsets[query + 1])
        shown = [row for row in own if table.shown[row]]
        assert lists.rows[lists.offsets[at] : lists.offsets[at + 1]].tolist() == shown
        unshown = lists.unshown_rows[lists.unshown_offsets[at] : lists.unshown_offsets[at + 1]]
        assert unshown.tolist() == [row for row in own if not table.shown[row]]
        assert lists.pages[at] == table.query_impressions[query]
        for place, row in enumerate(shown, start=int(lists.offsets[at])):
            cells = table.row == row
            n, c = table.impressions[cells], table.clicks[cells]
            expected = (c / GIVEN.propensities.at(table.position[cells])).sum() / n.sum()
            assert lists.target[place] == pytest.approx(expected, rel=1e-6)
            assert lists.weight[place] == n.sum()


def test_lists_of_labels_are_all_candidates() -> None:
    data = labelled()
    assert data.labels is not None
    lists = label_lists(data, data.labels)
    np.testing.assert_array_equal(lists.offsets, data.offsets)
    np.testing.assert_array_equal(lists.target, data.labels)
    assert (lists.weight == 1).all()
    assert len(lists.unshown_rows) == 0
