"""Colours for light and dark, and how each series looks: a colour, a dash and a marker, the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

# the colours of pages and pictures by what they are for, light and dark
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "ground": "#f7f7f5", "card": "#ffffff", "ink": "#1f2328", "quiet": "#626a73", "rule": "#e3e4e1",
        "grid": "#ececea", "accent": "#2f6db5", "none": "#f1f1ef", "ok": "#2c7a4b", "ok-ground": "#e7f3eb",
        "note": "#48617d", "note-ground": "#e9eff6", "warning": "#8f5600", "warning-ground": "#fbf0dc",
        "blocking": "#a62b2b", "blocking-ground": "#fae6e4",
    },
    "dark": {
        "ground": "#15181c", "card": "#1d2126", "ink": "#e4e6e8", "quiet": "#9aa3ac", "rule": "#30363d",
        "grid": "#2a2f36", "accent": "#79aee8", "none": "#262b31", "ok": "#7fce9c", "ok-ground": "#1c3226",
        "note": "#a9c1dc", "note-ground": "#222e3b", "warning": "#f0bd6a", "warning-ground": "#392b14",
        "blocking": "#f39a92", "blocking-ground": "#401f1f",
    },
}  # fmt: skip
IN_DARK = "@media screen and (prefers-color-scheme: dark)"


@dataclass(frozen=True)
class Look:
    """The look of a series; `slot` is its place in the style sheet. No two looks share colour, dash and marker.

    light, dark    the colour on a light and on a dark ground
    dash           lengths of strokes and gaps; empty for a solid line
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

# The first seven can be told apart with every kind of colour vision; all stand out from their ground.
_COLOURS = {
    "blue": ("#2340c8", "#3f7dff"),
    "amber": ("#dd7901", "#dd9a24"),
    "green": ("#017d62", "#12bd9f"),
    "purple": ("#82107f", "#f29af2"),
    "red": ("#a31d08", "#e8402c"),
    "grey": ("#8f909c", "#777a86"),
    "ink": ("#1f2328", "#e4e6e8"),
    "sky": ("#3a9bd3", "#8fd3ff"),
    "brown": ("#8a5a3a", "#cf9a7c"),
    "violet": ("#7a5fd0", "#b7a3f5"),
    "olive": ("#6f7a00", "#c2cf52"),
}
SOLID: tuple[float, ...] = ()
_DASHES = (SOLID, (7, 3), (2, 2.5), (9, 3, 2, 3), (5, 2, 2, 2, 2, 2))

Kind = tuple[str, tuple[float, ...], str]  # the name of a colour, a dash, the name of a marker


def looks(series: Iterable[str], fixed: Mapping[str, Kind] | None = None) -> dict[str, Look]:
    """A look for each series: the one that is `fixed` for its name (in small letters), or one that is still free.

    >>> chosen = looks(["CLD", "Oracle", "MyRanker"], {"oracle": ("ink", (3, 3), "plus")})
    >>> chosen["CLD"].light, chosen["Oracle"].marker, chosen["MyRanker"].marker
    ('#2340c8', 'plus', 'square')
    """
    names = list(dict.fromkeys(series))
    kinds = {name: fixed[name.lower()] for name in names if name.lower() in fixed} if fixed else {}
    taken = set(kinds.values())
    free = (kind for kind in _variants([colour for colour, _, _ in taken]) if kind not in taken)
    kinds |= {name: next(free) for name in names if name not in kinds}
    return {name: Look(slot, *_COLOURS[kinds[name][0]], *kinds[name][1:]) for slot, name in enumerate(names)}


def _variants(used: Sequence[str]) -> Iterator[Kind]:
    """Looks without end, colours not yet used first; several hundred come before the first comes again."""
    colours = sorted(_COLOURS, key=used.count)
    markers = list(MARKERS)
    for turn in count():
        for place, colour in enumerate(colours, start=turn):
            yield colour, _DASHES[place % len(_DASHES)], markers[place % len(markers)]


def style(chosen: Iterable[Look]) -> str:
    """The colours of series as rules of a style sheet, for light and dark."""
    known = list(chosen)
    light = "".join(_rules(look.slot, look.light) for look in known)
    dark = "".join(_rules(look.slot, look.dark) for look in known)
    return f"{light}{IN_DARK} {{\n{dark}}}\n"


def _rules(slot: int, colour: str) -> str:
    lines, areas = f".m{slot} .line, .m{slot} .whisker", f".m{slot} .band, .m{slot} .mark"
    return f"{lines} {{ stroke: {colour} }} {areas} {{ fill: {colour} }}\n"
