from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cldrank.drawing.looks import THEMES, Look, looks
from cldrank.experiment.makers import Identity, identify
from cldrank.report.plots import method_looks

KNOWN = ("Naive", "IPS", "Heckman^rank", "RankAgg", "CLD", "CLD-pair", "Oracle")
VARIANTS = {
    "CLD-N": ("cld", "mlp"), "CLD-pair-L": ("cld-pair", "linear"), "CLD-pair+": ("cld-pair", "mlp"),
    "CLD-pair trees": ("cld-pair", "trees"), "Naive trees": ("naive", "trees"), "Oracle trees": ("oracle", "trees"),
    "XGBoost unbiased": ("xgboost", ""), "LightGBM position": ("lightgbm", ""),
}  # fmt: skip
GROUND = {name: theme["card"] for name, theme in THEMES.items()}

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear RGB
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def known() -> list[Identity]:
    """The paper's methods, and variants of them."""
    variants = [
        identify(label, {"method": {"class": name, "parameters": {"model": model} if model else {}}})
        for label, (name, model) in VARIANTS.items()
    ]
    return [*map(identify, KNOWN), *variants]


def kind_of(look: Look) -> tuple[Any, ...]:
    return look.light, look.dark, look.dash, look.marker


def linear(colour: str) -> NDArray[Any]:
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def perceived(light: NDArray[Any]) -> NDArray[Any]:
    """OKLab, in which distances are about as large as they look."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.asarray(opponents @ np.cbrt(cones @ np.clip(light, 0, 1)))


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_the_paper_s_methods_are_told_apart_by_every_eye(sight: str, ground: str) -> None:
    chosen = method_looks(map(identify, KNOWN))
    seen = {name: perceived(SIGHT[sight] @ linear(getattr(look, ground))) for name, look in chosen.items()}
    assert min(float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2)) > 0.08


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_every_colour_stands_out_from_its_ground(ground: str) -> None:
    chosen = method_looks([*known(), *(identify(f"mine {index}") for index in range(20))])
    assert min(contrast(getattr(look, ground), GROUND[ground]) for look in chosen.values()) > 3


@given(st.lists(st.text(max_size=8), max_size=60))
def test_no_two_methods_look_alike(names: list[str]) -> None:
    named = {one.label.lower() for one in known()}
    own = {name.lower(): name for name in names if name.lower() not in named}
    chosen = method_looks([*known(), *map(identify, own.values())])
    kinds = [kind_of(look) for look in chosen.values()]
    assert len(set(kinds)) == len(kinds)
    assert [look.slot for look in chosen.values()] == list(range(len(chosen)))


def test_a_method_of_the_paper_looks_the_same_in_any_company() -> None:
    alone, among = method_looks([identify("CLD")]), method_looks([identify("zz"), *reversed(known()), identify("aa")])
    assert kind_of(alone["CLD"]) == kind_of(among["CLD"])


def test_colours_tell_methods_and_dashes_tell_models() -> None:
    chosen = method_looks(known())
    for one, other in combinations(known(), 2):
        first, second = chosen[one.label], chosen[other.label]
        assert (first.light == second.light) == (first.marker == second.marker) == (one.name == other.name)
        if one.name == other.name:
            assert first.dash != second.dash
        elif "CLD-pair+" not in (one.label, other.label):  # the second of its method and model
            assert (first.dash == second.dash) == (one.model == other.model)


def test_hundreds_of_methods_still_have_a_look() -> None:
    assert len(looks(f"method {index}" for index in range(1000))) == 1000


def test_a_single_series_is_blue_and_solid() -> None:
    (look,) = looks(["AllPairs"]).values()
    assert (look.light, look.dash, look.marker) == ("#2340c8", (), "circle")


def test_every_colour_is_there_by_day_and_by_night() -> None:
    assert set(THEMES["light"]) == set(THEMES["dark"])
