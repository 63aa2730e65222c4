"""Pictures of the documentation that nothing else draws.

    python tools/pictures.py                                  # all of them
    python tools/pictures.py explanation/causal-graph.svg     # one
    python tools/pictures.py results/msrd.parquet             # those of a report on results: msrd-1.svg, …

Each is a function that returns an SVG text, under the name of its file in docs/.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from markupsafe import Markup

from cldrank.documents import Block, Details, Figure, Panels, picture
from cldrank.documents.figure import IN_DARK, THEMES
from cldrank.documents.svg import element, text_at

DOCS = Path(__file__).parents[1] / "docs"

# name: x, y, what it is, whether the log has it
NODES = {
    "x": (52, 196, "features", True),
    "s": (176, 92, "shown", True),
    "r": (300, 196, "relevance", False),
    "k": (176, 300, "position", True),
    "e": (330, 300, "examined", False),
    "c": (468, 196, "clicked", True),
}
# from, to, what the arrow is part of
ARROWS = (
    ("x", "r", "wanted"),
    ("r", "c", "plain"),
    ("x", "k", "confounder"),
    ("k", "e", "confounder"),
    ("e", "c", "confounder"),
    ("x", "s", "collider"),
    ("r", "s", "collider"),
)
COLOURS = {"plain": "quiet", "wanted": "ok", "confounder": "accent", "collider": "warning"}  # of THEMES
RADIUS = 24


def causal_graph() -> str:
    """What makes a click: the path that confounds, and the collider that every log is conditioned on."""
    parts = [element("title", "Causal graph of a click log"), element("style", Markup(_graph_style()))]  # noqa: S704
    parts.append(element("rect", class_="paper", width=530, height=402))
    parts += [_arrow(*arrow) for arrow in ARROWS]
    for name, (x, y, words, logged) in NODES.items():
        shape = "node" if logged else "node hidden"
        if name == "s":
            parts.append(element("rect", class_="frame", x=x - 33, y=y - 33, width=66, height=66, rx=6))
        parts.append(element("circle", class_=shape, cx=x, cy=y, r=RADIUS))
        parts.append(text_at(x, y + 6, name, "middle", "letter"))
        parts.append(text_at(x, y + (-42 if name == "s" else 44), words, "middle", "label"))
    parts += [
        text_at(222, 74, "Selection bias: s is a collider of", kind="collider"),
        text_at(222, 94, "x and r, and clicks exist only", kind="collider"),
        text_at(222, 114, "where s = 1", kind="collider"),
        text_at(176, 186, "to be learned", "middle", "wanted"),
        text_at(20, 384, "Position bias: x also decides the position, so x confounds e and c", kind="confounder"),
    ]
    parts.append(element("circle", class_="node hidden", cx=404, cy=26, r=9))
    parts.append(text_at(420, 31, "not in the log"))
    size = {"viewBox": "0 0 530 402", "width": 530, "height": 402}
    return f"{element('svg', *parts, xmlns='http://www.w3.org/2000/svg', **size)}\n"


def _arrow(start: str, end: str, kind: str) -> Markup:
    """From the rim of one node to that of another, with its head."""
    (x1, y1, *_), (x2, y2, *_) = NODES[start], NODES[end]
    length = math.hypot(x2 - x1, y2 - y1)
    across, down = (x2 - x1) / length, (y2 - y1) / length
    near, far = RADIUS + 4, (RADIUS + (18 if end == "s" else 5))
    tip_x, tip_y = x2 - far * across, y2 - far * down
    back_x, back_y = tip_x - 11 * across, tip_y - 11 * down
    corners = ((tip_x, tip_y), (back_x - 5 * down, back_y + 5 * across), (back_x + 5 * down, back_y - 5 * across))
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    line = element("line", x1=x1 + near * across, y1=y1 + near * down, x2=back_x, y2=back_y)
    return element("g", line, element("polygon", points=head), class_=f"arrow {kind}")


def _graph_style() -> str:
    return "".join(_rules()) + f"{IN_DARK} {{\n" + "".join(_rules("dark")) + "}\n"


def _rules(theme: str = "light") -> Iterator[str]:
    colours = THEMES[theme]
    yield f'text {{ font: 15px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: {colours["ink"]} }}\n'
    yield ".letter { font-size: 19px; font-style: italic; font-weight: 600 } .tick { font-size: 13px }\n"
    yield f".paper {{ fill: {colours['card']} }} .arrow line {{ stroke-width: 2 }}\n"
    yield f".node {{ fill: {colours['card']}; stroke: {colours['ink']}; stroke-width: 1.8 }}\n"
    yield f".hidden {{ fill: {colours['none']}; stroke: {colours['quiet']}; stroke-dasharray: 4 3 }}\n"
    yield f".frame {{ fill: none; stroke: {colours['warning']}; stroke-width: 1.8 }}\n"
    for kind, name in COLOURS.items():
        yield f".{kind} line {{ stroke: {colours[name]} }} .{kind} polygon, text.{kind} {{ fill: {colours[name]} }}\n"


def envelope() -> str:
    """What one ranker's clicks say of examination: click-through rates, the bound, the truth, and a guess."""
    import numpy as np

    from cldrank import Propensities, RankingDataset
    from cldrank.clicks.simulate import PositionBased, Simulation
    from cldrank.propensity import ClickThrough, Envelope
    from cldrank.propensity.curve_document import curve_figure

    random = np.random.default_rng(0)
    labels = random.choice(5, 30_000, p=(0.5, 0.25, 0.13, 0.08, 0.04))
    data = RankingDataset.from_arrays(np.zeros((30_000, 1)), np.repeat(np.arange(2000), 15), labels)
    ranker = labels + random.normal(0, 1, 30_000)
    clicks = Simulation(data, ranker, PositionBased(eta=1, noise=0.1), depth=8).draw(3e4, seed=1)
    curves = {
        "true curve, 1/k": Propensities.power(1, 8),
        "Envelope": Envelope().fit(clicks),
        "click-through rates": ClickThrough().fit(clicks),
        "assumed: 1/k²": Propensities.power(2, 8),
    }
    return curve_figure(curves, "One ranker that never changes, 30,000 simulated sessions")._repr_svg_()


PICTURES: dict[str, Callable[[], str]] = {
    "explanation/causal-graph.svg": causal_graph,
    "explanation/envelope.svg": envelope,
}


def of_report(results: Path) -> dict[str, str]:
    """The pictures of a report on results, by the names that its Markdown gives them."""
    from cldrank.experiment.report import report_document
    from cldrank.experiment.results import load_results

    figures = enumerate(figures_in(report_document(load_results(results)).blocks), start=1)
    return {
        f"{results.stem}-{at}.svg": picture(own.figures, own.columns) if isinstance(own, Panels) else picture([own])
        for at, own in figures
    }


def figures_in(blocks: Iterable[Block]) -> Iterator[Figure | Panels]:
    """The figures of a document, in the order of its Markdown."""
    for block in blocks:
        if isinstance(block, Details):
            yield from figures_in(block.blocks)
        elif isinstance(block, Figure | Panels):
            yield block


def main() -> None:
    """Write the pictures that are named, or all."""
    for name in sys.argv[1:] or PICTURES:
        if name.endswith(".parquet"):
            for file, svg in of_report(DOCS / name).items():
                (DOCS / name).with_name(file).write_text(svg, encoding="utf-8")
            continue
        (DOCS / name).write_text(PICTURES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
