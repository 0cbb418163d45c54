"""Moments of numbers whose squares are no DOUBLE are infinite, as in arithmetic of DOUBLE."""

import numpy as np

from tidegate.kernels.aggregates.exact import UNIT
from tidegate.kernels.aggregates.numbers import _co_moment


def exact(value: float, power: int = 1) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator**power << (-UNIT)) // denominator**power


def test_a_moment_beyond_all_doubles_is_infinite() -> None:
    assert exact(1.0) > 0
    x, square = exact(1e308), exact(1e308, 2)
    assert _co_moment(2, 0, 0, 2 * square, True, False) == np.inf
    assert _co_moment(2, 0, 0, -2 * square, False, True) == -np.inf
    assert _co_moment(2, 2 * x, 2 * x, 2 * square, True, False) == 0.0
