"""Rankers that are networks, modules, or several rankers together; what all rankers share is in test_rankers."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import nn

from cldrank import scaling, segments
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.models.network.networks import MLP
from cldrank.rankers import BordaRanker, Layer, LinearRanker, ModuleRanker, NetworkRanker, Provenance, load_ranker
from cldrank.rankers.from_torch import ranker_of

NAMES = ("bm25", "pagerank", "länge", "clicks")
FEATURES = np.random.default_rng(0).lognormal(0, 2, (300, 4)).astype(np.float32)
SCALING = scaling.fit("standard", FEATURES)
ORIGIN = Provenance(estimator="CLDPair", parameters={"l2": 0.1}, data="web", synthetic=True, rows=9, queries=2)
PARTS: dict[str, Any] = {"feature_names": NAMES, "scaling": SCALING, "provenance": ORIGIN}


class Residual(nn.Module):
    """A network that is no plain sequence of layers, and has numbers of several kinds."""

    def __init__(self, width: int = 4, hidden: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, hidden), nn.Linear(hidden, 1)
        self.norm = nn.BatchNorm1d(hidden)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        middle = torch.relu(self.norm(self.first(rows)))
        found: torch.Tensor = self.last(middle + self.first(rows))
        return found[:, 0]


def network(activation: Any = "elu", hidden: tuple[int, ...] = (16, 8)) -> NetworkRanker:
    found = ranker_of(MLP(hidden=hidden, activation=activation).build(4, seed=1), **PARTS)
    assert isinstance(found, NetworkRanker)
    return found


def module(seed: int = 0) -> ModuleRanker:
    torch.manual_seed(seed)
    own = Residual()
    own(torch.randn(50, 4))  # so that the running means are no longer those of the beginning
    return ModuleRanker.of(own, **PARTS)


def linear(*coefficients: float) -> LinearRanker:
    return LinearRanker(coefficients=np.array(coefficients), **PARTS)


def borda(*members: Any, weights: tuple[float, ...] = (2.0, 1.0)) -> BordaRanker:
    own = members or (network(), linear(1.0, -2.0, 0.5, 0.0))
    return BordaRanker(feature_names=NAMES, members=own, weights=weights, provenance=ORIGIN)


def dataset(features: NDArray[Any] = FEATURES) -> RankingDataset:
    return RankingDataset.from_arrays(features, np.arange(len(features)) // 7, feature_names=NAMES)


RANKERS: dict[str, Callable[[], Any]] = {"network": network, "module": module, "borda": borda}


# -- scoring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["elu", "relu", "gelu", "silu", "tanh"])
def test_numpy_scores_as_torch_does(activation: Any) -> None:
    own = MLP(hidden=(16, 8), activation=activation).build(4, seed=1).eval()
    ranker = ranker_of(own, **PARTS)
    with torch.no_grad():
        expected = own(torch.from_numpy(SCALING.transform(FEATURES)))[:, 0].numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        (nn.Linear(4, 1), LinearRanker),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1, bias=False)), LinearRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Identity(), nn.Linear(3, 1)), NetworkRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.ELU(alpha=0.5), nn.Linear(3, 1)), ModuleRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.GELU(approximate="tanh"), nn.Linear(3, 1)), ModuleRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 1)), ModuleRanker),
        (type("Turned", (nn.Sequential,), {"forward": lambda self, x: -self[0](x)})(nn.Linear(4, 1)), ModuleRanker),
        (Residual(), ModuleRanker),
    ],
    ids=str,
)
def test_a_network_becomes_the_simplest_ranker_that_scores_alike(own: nn.Module, kind: type) -> None:
    ranker = ranker_of(own, **PARTS)
    assert type(ranker) is kind
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).reshape(-1).numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_with_hooks_is_no_plain_layer(whole: bool) -> None:
    own = nn.Sequential(nn.Linear(4, 1))
    hooked = own if whole else own[0]
    hooked.register_forward_hook(lambda *parts: -parts[2])
    ranker = ranker_of(own, **PARTS)
    assert isinstance(ranker, ModuleRanker)
    with torch.no_grad():
        expected = own(torch.from_numpy(SCALING.transform(FEATURES)))[:, 0].numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["network", "module"])
def test_equal_rows_get_equal_scores_wherever_they_lie(name: str) -> None:
    ranker = RANKERS[name]()
    copies = np.repeat(FEATURES[:3], 203, axis=0)
    scores = [ranker.predict(copies, block_rows=size).reshape(3, 203) for size in (1, 2, 7, 100, None)]
    for row in range(3):
        assert len(np.unique([found[row] for found in scores])) == 1


@pytest.mark.parametrize("name", ["network", "module"])
def test_a_score_depends_on_its_row_alone(name: str) -> None:
    ranker = RANKERS[name]()
    order = np.random.default_rng(1).permutation(len(FEATURES))
    np.testing.assert_array_equal(ranker.predict(FEATURES[order], block_rows=11), ranker.predict(FEATURES)[order])
    np.testing.assert_array_equal(ranker.predict(dataset()), ranker.predict(FEATURES))


class Insistent(Residual):
    """Its code casts to float32, so that its numbers cannot be of another kind."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(rows.float())


def test_a_module_that_insists_on_float32_scores_in_float32(tmp_path: Path) -> None:
    own = Insistent()
    ranker = ModuleRanker.of(own, **PARTS)
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).numpy()
    np.testing.assert_array_equal(ranker.predict(FEATURES), expected)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path, module=Insistent()).predict(FEATURES), expected)


def test_votes_count_the_candidates_below() -> None:
    members = network(), linear(1.0, -2.0, 0.5, 0.0)
    data = dataset()
    scores = borda(*members, weights=(2.0, 0.5)).predict(data)
    expected = np.zeros(data.n_rows)
    for weight, ranker in zip((2.0, 0.5), members, strict=True):
        found = ranker.predict(data)
        for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            for row in range(start, stop):
                expected[row] += weight * sum(found[row] > found[other] for other in range(start, stop))
    np.testing.assert_allclose(scores, expected)


def test_a_plain_table_is_one_query_for_voters() -> None:
    ranker = borda()
    whole = RankingDataset.from_arrays(FEATURES, np.zeros(len(FEATURES), dtype=int), feature_names=NAMES)
    np.testing.assert_array_equal(ranker.predict(FEATURES), ranker.predict(whole))
    np.testing.assert_array_equal(ranker.predict(dataset(), block_rows=3), ranker.predict(dataset()))
    assert ranker.predict(FEATURES[:0]).shape == (0,)


def test_one_voter_ranks_as_it_would_alone() -> None:
    data, alone = dataset(), network()
    ranks = [
        segments.descending_ranks(ranker.predict(data), data.offsets) for ranker in (alone, borda(alone, weights=(3,)))
    ]
    np.testing.assert_array_equal(*ranks)


# -- making one ----------------------------------------------------------------------------------------------------


def weights(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layer("softmax"), "layer 'softmax' is not known"),
        (lambda: Layer("linear"), "needs a matrix"),
        (lambda: Layer("linear", weights(3)), "needs a matrix"),
        (lambda: Layer("linear", weights(3, 4), weights(4)), "does not fit"),
        (lambda: Layer("linear", weights(3, 4) * np.nan), "finite and float32"),
        (lambda: Layer("linear", weights(3, 4).astype(float)), "finite and float32"),
        (lambda: Layer("linear", weights(1, 4), weights(1) * np.inf), "finite and float32"),
        (lambda: Layer("relu", weights(1, 4)), "a layer 'relu' has no numbers"),
        (lambda: NetworkRanker(layers=[Layer("linear", weights(1, 5))], **PARTS), "takes 5 numbers where 4 come in"),
        (lambda: NetworkRanker(layers=[Layer("linear", weights(2, 4))], **PARTS), "ends 2 wide"),
        (lambda: NetworkRanker(layers=[], **PARTS), "ends 4 wide"),
        (lambda: borda(network(), weights=(1.0, 2.0)), "2 weights for 1 members"),
        (lambda: borda(weights=(0.0, 0.0)), "one above it"),
        (lambda: borda(weights=(1.0, -1.0)), "must be at least 0"),
        (lambda: borda(weights=(1.0, np.nan)), "must be at least 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_networks_whose_scores_are_not_finite_are_refused() -> None:
    layers = [Layer("linear", np.full((1, 4), 3e38, dtype=np.float32))]
    ranker = NetworkRanker(feature_names=NAMES, scaling=scaling.fit(None, FEATURES), layers=layers)
    with pytest.raises(DataError, match=r"the score of row 0 \(counted from 0\) is inf"):
        ranker.predict(np.full((2, 4), 1e30))
    voters = BordaRanker(feature_names=NAMES, members=[ranker], weights=(1.0,))
    with pytest.raises(DataError, match="the score of row 0"):
        voters.predict(np.full((2, 4), 1e30))


def test_voters_must_know_the_same_features() -> None:
    other = LinearRanker(feature_names="abcd", scaling=SCALING, coefficients=np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the same features"):
        borda(network(), other)


def test_a_module_with_numbers_that_are_none_is_refused() -> None:
    own = Residual()
    with torch.no_grad():
        own.last.bias.fill_(float("nan"))
    with pytest.raises(DataError, match="'last.bias' of the module hold NaN"):
        ModuleRanker.of(own, **PARTS)


def test_repr_tells_what_they_are() -> None:
    tail = "scaling Standard(clip=5.0), trained by CLDPair on web (synthetic))"
    assert repr(network()) == f"NetworkRanker(4 features, 4 → 16 → 8 → 1, {tail}"
    assert repr(module()) == f"ModuleRanker(4 features, Residual, {tail}"
    assert repr(borda()) == "BordaRanker(4 features, 2 members, trained by CLDPair on web (synthetic))"


# -- saving and loading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RANKERS)
def test_a_saved_ranker_comes_back_exactly(name: str, tmp_path: Path) -> None:
    ranker = RANKERS[name]()
    ranker.save(tmp_path / "ranker")
    again = load_ranker(tmp_path / "ranker", module=Residual() if name == "module" else None)
    assert type(again) is type(ranker)
    assert again.provenance == ORIGIN
    np.testing.assert_array_equal(again.predict(dataset()), ranker.predict(dataset()))
    again.save(tmp_path / "second")
    for file in ("ranker.json", "weights.safetensors"):
        assert (tmp_path / "second" / file).read_bytes() == (tmp_path / "ranker" / file).read_bytes()


def test_a_module_s_code_is_not_saved_and_must_be_given(tmp_path: Path) -> None:
    module().save(tmp_path)
    with pytest.raises(
        UsageError, match=r"module of the class Residual, whose code is not saved; pass one: load_ranker"
    ):
        load_ranker(tmp_path)
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*size mismatch"):
        load_ranker(tmp_path, module=Residual(hidden=9))
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*Missing key"):
        load_ranker(tmp_path, module=nn.Linear(4, 1))
    for wrong in (Residual, "Residual", 3):
        with pytest.raises(UsageError, match=r"module must be a torch module such as Residual\(…\), not "):
            load_ranker(tmp_path, module=wrong)


def test_the_module_given_is_not_changed(tmp_path: Path) -> None:
    module().save(tmp_path)
    own = Residual()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    load_ranker(tmp_path, module=own)
    assert own.training
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())


def test_a_module_cannot_be_saved_among_voters(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ModuleRanker cannot be saved as a member"):
        borda(module(), network()).save(tmp_path / "ranker")
    assert list(tmp_path.iterdir()) == []


def rewrite(folder: Path, description: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
    """Write a folder whose digest is right, so that the checks behind it are reached."""
    content = safetensors.numpy.save(tensors)
    (folder / "weights.safetensors").write_bytes(content)
    description |= {"weights_sha256": hashlib.sha256(content).hexdigest()}
    (folder / "ranker.json").write_text(json.dumps(description))


Change = Callable[[dict[str, Any], dict[str, Any]], Any]
DAMAGES: list[tuple[str, Change, str]] = [
    ("network", lambda json, _: json["scorer"]["layers"].__setitem__(1, "eval"), "the layer 'eval' is not known"),
    ("network", lambda json, _: json["scorer"]["layers"].__setitem__(1, ["elu"]), r"the layer \['elu'\] is not known"),
    ("network", lambda json, _: json["scorer"]["layers"].__setitem__(0, "elu"), "'elu' has no numbers"),
    ("network", lambda json, _: json["scorer"]["layers"].pop(), "no array|ends"),
    ("network", lambda json, _: json["scorer"].update(layers="linear"), "'layers' must be a list"),
    ("network", lambda json, _: json.pop("scorer"), "'scorer' must be a dict"),
    ("network", lambda _, arrays: arrays.pop("scorer.0.weight"), "needs a matrix"),
    ("network", lambda _, arrays: arrays.update({"scorer.0.weight": weights(16, 5)}), "takes 5 numbers"),
    ("network", lambda _, arrays: arrays.update({"scorer.0.bias": weights(3)}), "does not fit"),
    ("network", lambda _, arrays: arrays.update({"scorer.9.weight": weights(1, 1)}), "no array '9.weight'"),
    ("network", lambda _, arrays: arrays.update({"scorer.0.weight": weights(16, 4) * np.nan}), "finite"),
    ("network", lambda _, arrays: arrays.update({"other": weights(1)}), "belongs to nothing"),
    ("module", lambda json, _: json["scorer"].pop("class_name"), "'class_name' must be a str"),
    ("module", lambda _, arrays: arrays.update({"scorer.last.bias": weights(1) * np.nan}), "hold NaN"),
    ("module", lambda _, arrays: arrays.update({"scorer.extra": weights(1)}), "does not fit.*Unexpected"),
    ("borda", lambda json, _: json.update(members={}), "'members' must be a list"),
    ("borda", lambda json, _: json["members"].pop(), "'1.scal.*belongs to nothing|belongs to nothing"),
    ("borda", lambda json, _: json["members"][0].update(kind="borda"), "member 1 is no linear or network ranker"),
    ("borda", lambda json, _: json["members"][0].update(kind=["linear"]), "member 1 is no"),
    ("borda", lambda json, _: json.update(votes=[1, "2"]), "votes must be numbers"),
    ("borda", lambda json, _: json.update(votes=[1, True]), "votes must be numbers"),
    ("borda", lambda json, _: json.update(votes=[1, 10**400]), r"at most 1e\+280"),
    ("borda", lambda json, _: json.update(votes=[1, 1e308]), r"at most 1e\+280"),
    ("borda", lambda json, _: json.update(votes=[1, float("nan")]), "at least 0"),
    ("borda", lambda json, _: json.update(votes=[[1], 1]), "votes must be numbers"),
    ("borda", lambda json, _: json.update(members=[[], []]), "member 1 is no linear or network ranker"),
    ("borda", lambda json, _: json["members"][1]["scaling"].update(n_features=10**400), "for 1000"),
    ("borda", lambda json, _: json.update(votes=[1]), "1 weights for 2 members"),
    ("borda", lambda json, _: json.update(votes=[1, -1]), "at least 0"),
    ("borda", lambda _, arrays: arrays.update({"1.scorer.coefficients": np.zeros(3)}), "must be float64"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_a_folder_with_something_wrong_is_refused(name: str, damage: Change, message: str, tmp_path: Path) -> None:
    RANKERS[name]().save(tmp_path)
    description = json.loads((tmp_path / "ranker.json").read_text())
    tensors = dict(safetensors.numpy.load_file(tmp_path / "weights.safetensors"))
    damage(description, tensors)
    rewrite(tmp_path, description, tensors)
    with pytest.raises(FormatError, match=message) as caught:
        load_ranker(tmp_path, module=Residual())
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", RANKERS)
def test_loading_never_unpickles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RANKERS[name]().save(tmp_path)

    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something was unpickled")

    for target in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(target, forbidden)
    load_ranker(tmp_path, module=Residual() if name == "module" else None)
