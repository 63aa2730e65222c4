"""All methods, and how flat settings become one."""

from typing import Any

import pytest

from cldrank.errors import UsageError
from cldrank.methods import CLD, IPS, CLDPair, HeckmanRank, Method, Oracle, RankAgg, methods, registry
from cldrank.methods.registry import configured, default_model, usable_models
from cldrank.models import MLP, Linear, Run, models
from cldrank.models.fit import Context, Fit
from cldrank.models.model import ScaledModel
from cldrank.models.targets import Targets
from cldrank.parameters import parameter, value


def test_methods_are_in_the_order_of_their_classes_and_those_that_need_labels_last() -> None:
    found = list(methods().values())
    assert [kind.order for kind in found] == sorted({kind.order for kind in found})  # no two in the same place
    labels = [kind.needs == "labels" for kind in found]
    assert labels == sorted(labels)
    assert found[0].name == "naive"


def test_the_default_model_comes_first() -> None:
    for kind in methods().values():
        assert isinstance(default_model(kind), next(iter(usable_models(kind).values())))
    assert list(usable_models(CLDPair)) == ["mlp", "linear", "trees"]
    assert list(usable_models(CLD)) == ["linear", "mlp"]
    assert list(usable_models(HeckmanRank)) == ["linear"]


def test_flat_settings_go_to_their_owners() -> None:
    found: Any = configured(RankAgg, {"model": "mlp", "epochs": 3, "weights": (1, 2), "seed": 7, "dropout": 0.5})
    assert (found.weights, found.model, found.run) == ((1, 2), MLP(epochs=3, dropout=0.5), Run(seed=7))
    assert repr(found).startswith("RankAgg(")


def test_a_model_may_be_given_whole_and_changed() -> None:
    model = Linear(max_steps=5)
    found = configured(CLD, {"model": model, "l2": 0.5})
    assert found.model == Linear(max_steps=5, l2=0.5)
    assert model == Linear(max_steps=5)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (IPS, {"model": "forest"}, "IPS can be fitted with linear, mlp or trees, not with 'forest'."),
        (
            CLD,
            {"model": "trees"},
            "CLD can be fitted with linear or mlp, not with 'trees'; for trees, choose the method cld-pair, ",
        ),
        (
            HeckmanRank,
            {"model": "mlp"},
            "Heckman^rank can be fitted with linear, not with 'mlp'; for mlp, choose the method naive.",
        ),
        (IPS, {"model": "mlp", "max_steps": 9}, "`max_steps` is not for a network; choose `model='linear'`."),
        (HeckmanRank, {"epochs": 3}, "Heckman^rank has no parameter epochs."),
        (CLD, {"model": "mlp", "epoch": 1}, "CLD has no parameter epoch. Did you mean epochs?"),
        (Oracle, {"zzzz": 1}, "Oracle has no parameter zzzz. It has l2, scaling, "),
        (Oracle, {"run": Run()}, "Oracle has no parameter run."),
    ],
)
def test_what_does_not_fit_is_refused(kind: type[Method], settings: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        configured(kind, settings)
    assert str(caught.value).startswith(words)


def test_a_new_model_works_with_every_method_that_can_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @value
    class Stump(ScaledModel):
        heeds = {"fit_targets": ("penalty",)}  # noqa: RUF012 - frozen, as all of it

        depth: int = parameter(default=1, about="how deep", least=1)

        def fit_targets(self, targets: Targets, context: Context) -> Fit:
            return Linear(l2=self.l2).fit_targets(targets, context)

    known = {**models(), "stump": Stump}
    monkeypatch.setattr(registry, "models", lambda: known)
    usable = {kind.name for kind in methods().values() if "stump" in usable_models(kind)}
    others = {"heckman", "pijd", "svm-rank"}  # with a fit of their own, which is linear
    assert usable == {kind.name for kind in methods().values() if kind.way == "fit_targets"} - others > {"ips", "naive"}
    assert configured(IPS, {"model": "stump", "depth": 3, "l2": 0.5}).model == Stump(depth=3, l2=0.5)
    with pytest.raises(UsageError, match="`depth` is not for a linear model; choose `model='stump'`"):
        configured(IPS, {"depth": 3})
