"""Names for the array types that run through the whole package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
