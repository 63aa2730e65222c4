"""A heat map as SVG: counts of pairs, darker where they are larger."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from cldrank.drawing.numbers import short
from cldrank.drawing.svg import element, text_at

_LEFT, _TOP, _SIDE = 50.0, 12.0, 330.0
_MOST_LABELS = 9


def heat(names: Sequence[str], values: Sequence[Sequence[int]], *, title: str, across: str, unit: str) -> Markup:
    """A square table of counts on a log scale, under the `title`; the diagonal is left out.

    >>> heat(["a", "b"], [[0, 3], [3, 0]], title="Pairs", across="position", unit="candidates").count('class="self"')
    2
    """
    size = len(names)
    side = _SIDE / max(size, 1)
    inner = side - min(1.0, side * 0.06)
    most = max((values[i][j] for i in range(size) for j in range(size) if i != j), default=0)
    parts = []
    for i in range(size):
        for j in range(size):
            shape = {"x": _LEFT + j * side, "y": _TOP + i * side, "width": inner, "height": inner}
            if i == j:
                parts.append(element("rect", class_="self", **shape))
            else:
                note = element("title", f"{names[i]} and {names[j]}: {values[i][j]:,} {unit}")
                parts.append(element("rect", note, **_shade(values[i][j], most), **shape))
    for index in range(0, size, max(1, math.ceil(size / _MOST_LABELS))):
        middle = (index + 0.5) * side
        parts.append(text_at(_LEFT - 6, _TOP + middle + 4, names[index], "end"))
        parts.append(text_at(_LEFT + middle, _TOP + _SIDE + 15, names[index], "middle"))
    parts.append(text_at(_LEFT + _SIDE / 2, _TOP + _SIDE + 32, across, "middle", "name"))
    parts.append(_scale(most, _TOP + _SIDE + 44, unit))
    return element("svg", *parts, class_="figure", viewBox="0 0 440 430", role="img", aria_label=title)


def _shade(count: int, most: int) -> dict[str, str]:
    if not count:
        return {"class_": "none"}
    return {"class_": "heat", "fill_opacity": f"{0.12 + 0.88 * math.log1p(count) / math.log1p(most):.2f}"}


def _scale(most: int, top: float, unit: str) -> Markup:
    """What the shades mean: none, and counts evenly spread on the log scale up to the largest."""
    steps = sorted({0, most, *(round(math.expm1(math.log1p(most) * part / 4)) for part in range(1, 4))})
    width = _SIDE / len(steps)
    parts = []
    for index, count in enumerate(steps):
        x = _LEFT + index * width
        parts.append(element("rect", **_shade(count, most), x=x, y=top, width=width - 1, height=10))
        parts.append(text_at(x + width / 2, top + 24, short(count), "middle"))
    return Markup("").join([*parts, text_at(_LEFT + _SIDE / 2, top + 39, unit, "middle", "name")])
