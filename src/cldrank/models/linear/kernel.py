"""Sums of float32 rows in float64 without a float64 copy of them; compiled by Numba, free of the interpreter lock."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def dot(block: NDArray[np.float32], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each row, Σ value * coefficient.

    >>> dot(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([1.0, 0.5]))
    array([2., 5.])
    """
    rows, width = block.shape
    found = np.empty(rows)
    for i in range(rows):
        total = 0.0
        for j in range(width):
            total += np.float64(block[i, j]) * coefficients[j]
        found[i] = total
    return found


@njit(nogil=True, cache=True, fastmath={"contract"})
def back(block: NDArray[np.float32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each column, Σ value of the row * entry.

    >>> back(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([1.0, 0.5]))
    array([2.5, 4. ])
    """
    rows, width = block.shape
    found = np.zeros(width)
    for i in range(rows):
        value = values[i]
        for j in range(width):
            found[j] += np.float64(block[i, j]) * value
    return found


@njit(nogil=True, cache=True)
def scaled(block, factors):  # typed by what it is given: the result is as wide as the factors
    """Each row times its factor.

    >>> scaled(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([1.0, 0.5]))
    array([[1. , 2. ], [1.5, 2. ]])
    """
    rows, width = block.shape
    found = np.empty((rows, width), factors.dtype)
    for i in range(rows):
        factor = factors[i]
        for j in range(width):
            found[i, j] = block[i, j] * factor
    return found
