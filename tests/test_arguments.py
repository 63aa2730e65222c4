"""Checks of single arguments, their bounds and their words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.arguments import Bounds, check_choice, check_flag, check_number, check_whole
from cldrank.errors import UsageError

NAN, INF = float("nan"), float("inf")


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(-5, 5), st.floats(-5, 5))
def test_bounds_hold_what_lies_within(number: float, low: float, high: float) -> None:
    finite = math.isfinite(number)
    assert Bounds().hold(number) == finite
    assert Bounds(least=low, most=high).hold(number) == (finite and low <= number <= high)
    assert Bounds(above=low, below=high).hold(number) == (finite and low < number < high)


def test_a_number_comes_back_as_a_float() -> None:
    assert check_number("x", 3, least=0) == 3.0
    assert type(check_number("x", np.float32(0.5))) is float
    assert type(check_whole("x", np.int64(5))) is int
    for wrong in (True, "3", NAN, INF, None, 10**400, -1):
        with pytest.raises(UsageError, match="^`x` must be a number of at least 0, not "):
            check_number("x", wrong, least=0)
    for wrong in (True, "3", NAN, 3.0, None, 4):
        with pytest.raises(UsageError, match="^`x` must be a whole number of at least 0 and up to 3, not "):
            check_whole("x", wrong, least=0, most=3)


def test_a_choice_is_one_of_its_words_and_nothing_equal_to_it() -> None:
    check_choice("x", 1, (1, 2))
    for wrong in (True, 1.0, "1", None, [1]):
        with pytest.raises(UsageError, match="^`x` must be 1 or 2, not "):
            check_choice("x", wrong, (1, 2))


def test_a_flag_is_true_or_false() -> None:
    for good in (True, False, np.False_):
        check_flag("x", good)
    for wrong in (0, 1, None, "no"):
        with pytest.raises(UsageError, match="^`x` must be True or False, not "):
            check_flag("x", wrong)
