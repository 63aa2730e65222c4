from __future__ import annotations

import pytest

from cldrank.errors import UsageError
from cldrank.methods import CLD, IPS, CLDPair, HeckmanRank, Method, Oracle, RankAgg, SVMRank
from cldrank.models import MLP, Linear, Run
from cldrank.tuning.space import Range, applied, check_space, default_space, parse_values, tunable, values_of


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (CLD(gamma=0.2), "l2"),
        (CLD(model=Linear(l2=0.5)), "gamma"),
        (CLDPair(selection_weight=1.0, model=MLP(dropout=0.5)), "l2 learning_rate"),
    ],
)
def test_what_was_chosen_is_not_searched(method: Method, names: str) -> None:
    assert " ".join(default_space(method)) == names


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (CLD(), "gamma l2"),
        (CLDPair(), "l2 learning_rate dropout"),
        (CLDPair(model=Linear()), "l2"),
        (IPS(model=MLP(hidden=(4,))), "l2 learning_rate dropout"),
        (RankAgg(), "l2 learning_rate dropout"),
        (HeckmanRank(), "l2"),
        (Oracle(), "l2"),
    ],
)
def test_the_paper_s_ranges_of_what_a_method_has(method: Method, names: str) -> None:
    space = default_space(method)
    assert " ".join(space) == names
    assert check_space(method, space) == space
    for name, value in values_of(method, list(space)).items():
        assert value in space[name] or value is None  # the usual parameters are among those tried


def test_parameters_go_where_they_belong() -> None:
    given = CLDPair(model=MLP(hidden=(8,), dropout=0.5), run=Run(seed=3))
    changed = applied(given, {"selection_weight": 1.0, "dropout": 0.1, "batch_queries": 7})
    assert changed.get_params()["selection_weight"] == 1.0
    assert changed.model == MLP(hidden=(8,), dropout=0.1, batch_queries=7)
    assert changed.run == Run(seed=3)
    assert given.model == MLP(hidden=(8,), dropout=0.5)
    assert values_of(changed, ["dropout", "selection_weight"]) == {"dropout": 0.1, "selection_weight": 1.0}


def test_what_has_no_effect_cannot_be_tuned() -> None:
    assert "l2" not in tunable(SVMRank())
    assert default_space(SVMRank()) == {}
    assert "max_steps" not in tunable(IPS(model=Linear()))
    assert not {"model", "run", "seed", "device"} & set(tunable(CLD()))
    with pytest.raises(UsageError, match="SVM-rank has no parameter 'l2' to tune"):
        check_space(SVMRank(), {"l2": [0.1]})


def test_rules_of_scaling_can_be_tried_as_texts() -> None:
    space = {"scaling": ("standard:clip=none", "minmax", None)}
    assert check_space(CLD(), space) == space
    assert applied(CLD(), {"scaling": "log:clip=3"}).model == Linear(scaling="log:clip=3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="clip must be a number above 0"):
        check_space(CLD(), {"scaling": ["standard:clip=0"]})


def test_texts() -> None:
    known = tunable(IPS(model=MLP()))
    assert parse_values(known["epochs"], "4:20") == Range(4, 20)
    assert Range(4, 20).is_whole
    assert not parse_values(known["dropout"], "0:0.5").is_whole  # type: ignore[union-attr]
    assert parse_values(known["clip"], "none,0.1") == (None, 0.1)
    assert parse_values(known["scaling"], "log,standard:clip=3") == ("log", "standard:clip=3")
    for text in ("1:2:cubic", "2:1", "0:1:log", "a:b", "", "1,,2"):
        with pytest.raises(UsageError):
            parse_values(known["l2"], text)


def test_ends_of_a_range_are_bound_as_values_are() -> None:
    with pytest.raises(UsageError, match=r"`gamma` must be .* not 1\.5"):
        check_space(CLD(), {"gamma": Range(0.5, 1.5)})
    with pytest.raises(UsageError, match=r"`epochs` must be a whole number.* not 1\.5"):
        check_space(IPS(model=MLP()), {"epochs": Range(1.5, 4)})
    with pytest.raises(UsageError, match=r"`l2` must be"):
        check_space(IPS(), {"l2": Range(-1.0, 1.0)})


def test_spaces_that_are_refused() -> None:
    for space, message in (
        ({}, "empty"),
        ({"gamma": [0.1]}, "has no parameter 'gamma'"),
        ({"device": ["cpu"]}, "has no parameter 'device'"),
        ({"l2": []}, "the values of l2"),
        ({"l2": "wide"}, "the values of l2"),
        ({"l2": [10**400]}, "the values of l2"),
        ({"l2": [float("nan")]}, "the values of l2"),
    ):
        with pytest.raises(UsageError, match=message):
            check_space(IPS(), space)
