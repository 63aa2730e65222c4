from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cldrank.drawing.numbers import round_step, short


@given(st.floats(1e-9, 1e12))
def test_a_step_is_round_and_the_smallest_of_its_kind(least: float) -> None:
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= 2.5 * least * (1 + 1e-6)
    first = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(first - part) for part in (1, 2, 5)) < 1e-6


@given(st.floats(1e-4, 9e14), st.sampled_from([1, -1]))
def test_few_letters_say_nearly_the_same(size: float, sign: int) -> None:
    text = short(sign * size)
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1.0)
    assert math.isclose(float(text.rstrip("kMGT")) * scale, sign * size, rel_tol=0.0051)
    assert "e" not in text
    assert len(text) <= 9
