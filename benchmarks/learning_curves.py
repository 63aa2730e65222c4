"""How loss and held-out concordance go from epoch to epoch on MSRD, as a picture.

    CLDRANK_DATA=… python benchmarks/learning_curves.py --out docs/results/learning-curves.svg

Clicks as in `quality.py` (top 5, eta 1, noise 0.1, 10^5 sessions, seed 0), 30 epochs. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.methods.evidence import needed

MODELS: dict[str, Any] = {
    "Naive": cr.Naive(model=cr.MLP(epochs=30)),
    "IPS": cr.IPS(model=cr.MLP(epochs=30)),
    "CLD-pair": cr.CLDPair(model=cr.MLP(epochs=30)),
    "CLD-pair, dropout 0.5": cr.CLDPair(model=cr.MLP(dropout=0.5, epochs=30)),
    "CLD-pair-L": cr.CLDPair(model=cr.MLP(hidden=(), epochs=30)),
}
STYLES = ("-", "--", "-", "-.", ":")
COLOURS = ("#8c8c8c", "#0072b2", "#d55e00", "#cc79a7", "#009e73")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/learning-curves.svg"))
    arguments = parser.parse_args()
    if catalogue.get("msrd").find() is None:
        print(json.dumps({"benchmark": "learning_curves", "skipped": "MSRD is not here"}))
        return
    train = cr.load("msrd:train")
    production = cr.SVMRank(fraction=0.01, run=cr.Run(seed=0)).fit(train)
    model = PositionBased(eta=1.0, noise=0.1)
    simulation = Simulation(train, production.predict(train), model=model, policy=TopK(), depth=5)
    clicks, rho = simulation.draw(1e5, seed=0), cr.Propensities.power(1.0, 5)
    curves = {name: method.fit(train, *needed(method.needs, clicks, rho)).history_ for name, method in MODELS.items()}
    draw(curves, arguments.out)
    values = {name: [[epoch.loss, epoch.validation] for epoch in history] for name, history in curves.items()}
    print(json.dumps({"benchmark": "learning_curves", "values": values}))


def draw(curves: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for (name, history), style, colour in zip(curves.items(), STYLES, COLOURS, strict=True):
        numbers = [epoch.number for epoch in history]
        left.plot(numbers, [epoch.loss for epoch in history], style, color=colour, label=name)
        if name == "Naive":
            continue  # its preferences are others: those of the clicks as they are
        right.plot(numbers, [epoch.validation for epoch in history], style, color=colour)
    left.set(xlabel="epoch", ylabel="loss", yscale="log")
    right.set(xlabel="epoch", ylabel="held-out concordance")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=len(curves), frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
