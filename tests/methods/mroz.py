"""The Mroz labour-supply data and what R makes of them (see tests/goldens)."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "goldens"
Floats = NDArray[np.float64]


def goldens() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "heckman.json").read_text(encoding="utf-8"))
    return found


class Mroz:
    """Women as rows: who works (selected), the wage of those who do, and the two designs, intercepts first."""

    def __init__(self) -> None:
        with (FOLDER / "mroz.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
        one = np.ones(len(rows))
        age, experience, educ = columns["age"], columns["exper"], columns["educ"]
        kids = (columns["kids5"] + columns["kids618"] > 0).astype(np.float64)
        self.works = columns["lfp"] == 1
        self.wage: Floats = columns["wage"]
        self.selection = np.column_stack([one, age, age**2, columns["faminc"], kids, educ])
        self.outcome = np.column_stack([one, experience, experience**2, educ, columns["city"]])
        self.weights: Floats = np.resize([1.0, 2.0, 3.0], len(rows))
