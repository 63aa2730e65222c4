"""How each method looks: a colour, a dash and a marker, the same in every figure of a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True)
class Look:
    """The look of a method; `slot` is its place in the style sheet. No two looks share colour, dash and marker.

    light, dark    the colour on a light and on a dark ground
    dash           lengths of strokes and gaps; empty for a whole line
    marker         the name of a shape of `MARKERS`
    """

    slot: int
    light: str
    dark: str
    dash: tuple[float, ...]
    marker: str


# shapes of about the same size around 0, 0, as SVG paths
MARKERS = {
    "circle": "M-3.4,0a3.4,3.4 0 1,0 6.8,0a3.4,3.4 0 1,0 -6.8,0z",
    "square": "M-3.1,-3.1h6.2v6.2h-6.2z",
    "up": "M0,-4.1L3.9,2.8H-3.9z",
    "down": "M0,4.1L3.9,-2.8H-3.9z",
    "diamond": "M0,-4.4L3.6,0L0,4.4L-3.6,0z",
    "cross": "M-3.6,-2.1L-2.1,-3.6L0,-1.5L2.1,-3.6L3.6,-2.1L1.5,0L3.6,2.1L2.1,3.6L0,1.5L-2.1,3.6L-3.6,2.1L-1.5,0z",
    "plus": "M-1.2,-4H1.2V-1.2H4V1.2H1.2V4H-1.2V1.2H-4V-1.2H-1.2z",
    "left": "M-4.1,0L2.8,-3.9V3.9z",
    "right": "M4.1,0L-2.8,-3.9V3.9z",
}

# The first seven, which the methods of the paper's table have, stay apart for every kind of sight; all stand out from
# their ground.
_COLOURS = {
    "grey": ("#8f909c", "#777a86"),
    "amber": ("#dd7901", "#dd9a24"),
    "purple": ("#82107f", "#f29af2"),
    "green": ("#017d62", "#12bd9f"),
    "blue": ("#2340c8", "#3f7dff"),
    "red": ("#a31d08", "#e8402c"),
    "ink": ("#1f2328", "#e4e6e8"),
    "sky": ("#3a9bd3", "#8fd3ff"),
    "brown": ("#8a5a3a", "#cf9a7c"),
    "violet": ("#7a5fd0", "#b7a3f5"),
    "olive": ("#6f7a00", "#c2cf52"),
}
_WHOLE: tuple[float, ...] = ()
_DASHES = (_WHOLE, (7, 3), (2, 2.5), (9, 3, 2, 3), (5, 2, 2, 2, 2, 2))

# the methods of the paper look the same in every report
_KNOWN: dict[str, tuple[str, tuple[float, ...], str]] = {
    "naive": ("grey", (2, 2.5), "cross"),
    "ips": ("amber", (7, 3), "square"),
    "heckman^rank": ("purple", (9, 3, 2, 3), "down"),
    "rankagg": ("green", (5, 2, 2, 2, 2, 2), "up"),
    "cld": ("blue", _WHOLE, "circle"),
    "cld-pair": ("red", _WHOLE, "diamond"),
    "oracle": ("ink", (3, 3), "plus"),
    "cld-n": ("sky", (7, 3), "right"),
    "cld-pair-l": ("brown", (7, 3), "left"),
}


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """A look for each method: its own for those of the paper, and one that is still free for any other.

    >>> chosen = looks(["CLD", "Oracle", "MyRanker"])
    >>> chosen["CLD"].light, chosen["MyRanker"].marker
    ('#2340c8', 'circle')
    >>> len({(look.light, look.dash, look.marker) for look in chosen.values()})
    3
    """
    names = list(dict.fromkeys(methods))
    kinds = {name: _KNOWN[name.lower()] for name in names if name.lower() in _KNOWN}
    known = set(kinds.values())
    free = (kind for kind in _variants([colour for colour, _, _ in known]) if kind not in known)
    kinds |= {name: next(free) for name in names if name not in kinds}
    return {name: Look(slot, *_COLOURS[kinds[name][0]], *kinds[name][1:]) for slot, name in enumerate(names)}


def _variants(used: Sequence[str]) -> Iterator[tuple[str, tuple[float, ...], str]]:
    """Looks without end, colours not yet used first; several hundred come before the first comes again."""
    colours = sorted(_COLOURS, key=used.count)
    markers = list(MARKERS)
    for turn in count():
        for place, colour in enumerate(colours, start=turn):
            yield colour, _DASHES[place % len(_DASHES)], markers[place % len(markers)]


def style(chosen: Collection[Look]) -> str:
    """The colours as rules of a style sheet, for light and dark."""
    light = "".join(f".m{look.slot}{{--c:{look.light}}}" for look in chosen)
    dark = "".join(f".m{look.slot}{{--c:{look.dark}}}" for look in chosen)
    return f"{light}\n@media screen and (prefers-color-scheme: dark){{{dark}}}\n"
