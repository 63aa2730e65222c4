"""Axes, looks and numbers of figures."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cldrank.documents.figure import COLOURS, THEMES, Axis, looks
from cldrank.documents.numbers import round_step, short

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))


@given(st.lists(numbers, min_size=1, max_size=30))
def test_all_values_lie_on_the_axis(values: list[float]) -> None:
    axis = Axis.around(values)
    assert all(-1e-9 <= axis.place(value) <= 1 + 1e-9 for value in values)
    assert axis.low < axis.high
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert all(axis.low - 1e-9 <= tick <= axis.high + 1e-9 for tick in axis.ticks)


@pytest.mark.parametrize("top", [0.0, 0.037, 14.0, 1.23e9])
def test_an_axis_from_0_ends_at_a_round_number(top: float) -> None:
    axis = Axis.from_zero(top)
    assert axis.low == axis.ticks[0] == 0
    assert axis.high == axis.ticks[-1] >= top * (1 - 1e-9)
    assert 3 <= len(axis.ticks) <= 8
    assert len(axis.labels) == len(set(axis.labels)) == len(axis.ticks)


@pytest.mark.parametrize("count", [0, 1, 5, 24, 100])
def test_names_have_places_and_not_too_many_are_written(count: int) -> None:
    axis = Axis.of_labels([f"n{place}" for place in range(count)], most=9)
    assert len(axis.labels) <= 9
    assert all(label == f"n{tick}" for tick, label in zip(axis.ticks, axis.labels, strict=True))
    assert all(0 < axis.place(place) < 1 for place in range(count))


# -- looks ---------------------------------------------------------------------------------------------------------


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
def test_the_first_seven_are_told_apart_by_every_eye(sight: str, ground: str) -> None:
    chosen = looks(f"method {number}" for number in range(7))
    colours = {name: COLOURS[look.colour][ground == "dark"] for name, look in chosen.items()}
    seen = {name: perceived(SIGHT[sight] @ linear(colour)) for name, colour in colours.items()}
    assert min(float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2)) > 0.08


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_every_colour_stands_out_from_its_ground(ground: str) -> None:
    assert min(contrast(colour[ground == "dark"], GROUND[ground]) for colour in COLOURS.values()) > 3


# -- numbers ---------------------------------------------------------------------------------------------------------


@given(st.floats(1e-9, 1e12))
def test_a_step_is_round_and_the_smallest_of_its_kind(least: float) -> None:
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= 2.5 * least * (1 + 1e-6)
    first = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(first - part) for part in (1, 2, 5)) < 1e-6


@example(size=999.9, sign=1)
@given(size=st.floats(1e-4, 9e14), sign=st.sampled_from([1, -1]))
def test_few_letters_say_nearly_the_same(size: float, sign: int) -> None:
    text = short(sign * size)
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1.0)
    assert math.isclose(float(text.rstrip("kMGT").replace("−", "-")) * scale, sign * size, rel_tol=0.0051)
    assert "e" not in text
    assert len(text) <= 9
