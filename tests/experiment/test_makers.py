from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cldrank.errors import CldrankError, UsageError
from cldrank.experiment.makers import (
    check_use,
    find,
    import_what_is_needed,
    make_method,
    maker,
    method_order,
    sees_labels,
)
from cldrank.methods import HeckmanRank, methods
from cldrank.methods.registry import usable_models
from cldrank.models import MLP, Linear, Run, Trees


def test_the_names_are_those_of_the_methods() -> None:
    for name, kind in methods().items():
        assert find(name) is find(kind.label) is find(name.upper()) is kind
        check_use(name, "methods.X.use")
    assert find("Heckman^rank") is HeckmanRank
    assert find("cld-n") is None


@pytest.mark.parametrize(
    ("name", "model"), [(name, one) for name in methods() for one in usable_models(methods()[name])]
)
def test_flat_settings_make_every_method_with_every_model(name: str, model: str) -> None:
    small: dict[str, dict[str, Any]] = {"mlp": {"epochs": 3, "hidden": [8]}, "trees": {"rounds": 3}}
    own = small.get(model, {})
    found = maker(name, {"model": model, "seed": 2, **own}, "methods.X")
    made = make_method(found.home, found.chosen(seed=9))
    assert type(made) is methods()[name]
    assert made.run == Run(seed=2)
    assert made.model == {"mlp": MLP(epochs=3, hidden=[8]), "trees": Trees(rounds=3), "linear": Linear()}[model]
    assert found.needs == made.required
    import_what_is_needed(made)


def test_settings_that_a_method_does_not_have() -> None:
    for use, settings, message in (
        ("cld", {"gama": 0.1}, "gama. Did you mean gamma"),
        ("heckman", {"model": "mlp"}, "Heckman.rank.*linear.*'mlp'"),
        ("cld", {"gamma": 2}, "gamma.* above -1 and below 1"),
        ("cld", {"scaling": "standard:clip=0"}, "standard:clip=0"),
    ):
        with pytest.raises(UsageError, match=f"methods.X: .*{message}"):
            maker(use, settings, "methods.X")


def test_the_device_is_given_where_torch_works() -> None:
    given = {
        name: maker(name, {}, "", device="cuda").parameters.get("device")
        for name in ("cld", "cld-pair", "ips", "heckman", "oracle")
    }
    assert given == {"cld": "cuda", "cld-pair": "cuda", "ips": None, "heckman": None, "oracle": None}
    assert maker("ips", {"model": "mlp"}, "", device="cuda").parameters["device"] == "cuda"
    assert maker("ips", {"model": "mlp", "device": "cpu"}, "", device="cuda").parameters["device"] == "cpu"
    assert "device" not in maker("ips", {"model": "mlp"}, "", device="cuda").describe(0)["parameters"]


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        ("nowhere_to_be_found:Ranker", "there is no module 'nowhere_to_be_found' here"),
        ("own_rankers:Nobody", "own_rankers:Nobody cannot take part"),
        ("broken_module:Mine", r"broken_module:Mine cannot be imported \(SyntaxError"),
        ("leaving_module:Mine", r"leaving_module:Mine cannot be imported \(SystemExit: 3\)"),
    ],
)
def test_classes_that_cannot_take_part(folder: Path, use: str, complaint: str) -> None:
    (folder / "broken_module.py").write_text("def\n")
    (folder / "leaving_module.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(CldrankError, match=complaint):
        maker(use, {}, "methods.Mine")
    with pytest.raises(UsageError, match="own_rankers:ByFirst .*'size': 'x'.*TypeError"):
        maker("own_rankers:ByFirst", {"size": "x"}, "").describe(0)


def test_labels_stand_in_order_and_those_that_see_labels_come_last() -> None:
    homes = {"Oracle": "oracle", "CLD-pair": "cld-pair", "Mine": "mine:ByFirst", "SVM": "svm-rank", "CLD": "cld"}
    described = {label: {"method": {"class": home}} for label, home in homes.items()}
    ordered = sorted(described, key=lambda label: method_order(label, described[label]))
    assert ordered == ["CLD", "CLD-pair", "Mine", "Oracle", "SVM"]
    assert [label for label in ordered if sees_labels(described[label])] == ["Oracle", "SVM"]
