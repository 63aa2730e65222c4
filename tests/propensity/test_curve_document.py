from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cldrank.errors import UsageError
from cldrank.propensity import Propensities
from cldrank.propensity.curve_document import curve_figure

EVIL = "</title><script>alert('x')</script>&\"'"


def estimated(method: str = "AllPairs") -> Propensities:
    return Propensities(
        np.array([1.0, 0.5, 1.1]),
        origin="estimated",
        method=method,
        low=np.array([1.0, 0.4, 0.2]),
        high=np.array([1.0, 0.6, 1.3]),
        confidence=0.8,
    )


def test_a_curve_is_drawn_into_a_file_or_for_a_notebook(tmp_path: Path) -> None:
    assert estimated().plot(tmp_path / "rho.svg") is None
    text = (tmp_path / "rho.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)  # noqa: S314
    assert "AllPairs, position 3: 1.1 (0.2 to 1.3)" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    shown: Any = estimated().plot()
    assert shown._repr_svg_() == text


def test_curves_stand_beside_each_other_and_keep_their_names() -> None:
    text = curve_figure(
        {"one": estimated(), EVIL: estimated(), "assumed": Propensities.power(1, 5)}, title=EVIL
    )._repr_svg_()
    found = ElementTree.fromstring(text)  # noqa: S314
    assert "script" not in {element.tag.rpartition("}")[2] for element in found.iter()}
    assert {element.get("data-series") for element in found.iter()} >= {"one", EVIL, "assumed"}
    assert len(re.findall(r", position \d+: ", text)) == 3 + 3 + 5
    first = [float(x) for x in re.findall(r'class="mark"[^>]*translate\(([\d.]+) [\d.]+\)" data-value', text)]
    assert first[0] < first[3] < first[6] < first[1]  # all at position 1, side by side
    assert text.count('class="whisker"') == 4  # none where low and high are the same, or unknown
    assert text.count('class="marked"') == 1  # the line at 1


def test_the_truth_is_drawn_as_rings() -> None:
    known = {"phone": Propensities.power(1.4, 3), "desktop": Propensities.power(0.7, 3)}
    text = curve_figure({"phone": estimated(), "desktop": estimated()}, truth=known)._repr_svg_()
    told = re.findall(r"(\w+): ([\d.]+) truth", text)
    assert told == [(name, f"{value:.3f}") for name, rho in known.items() for value in rho.values]
    assert text.count('class="reference"') == 7  # and one in the legend
    with pytest.raises(UsageError, match="tablet"):
        curve_figure({"phone": estimated()}, truth={"tablet": known["phone"]})
