"""`cldrank train`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cldrank.cli import options
from cldrank.cli.output import console, print_json, say, some, working


class Method(StrEnum):
    """The methods that can be trained."""

    oracle = "oracle"


class ScalingName(StrEnum):
    """How features are scaled; the scaling is learned from the training data and saved with the ranker."""

    standard = "standard"
    minmax = "minmax"
    log = "log"
    quantile = "quantile"
    none = "none"


def train(
    method: Annotated[
        Method, typer.Argument(help="`oracle` learns from expert labels: the ceiling.", show_default=False)
    ],
    features: options.Features,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the ranker.", show_default=False)
    ],
    l2: Annotated[float, typer.Option("--l2", min=0, help="Ridge penalty on the coefficients.")] = 1e-3,
    scaling: Annotated[ScalingName, typer.Option("--scaling", help="How to scale features.")] = ScalingName.standard,
    column: options.Columns = None,
    groups: options.Groups = None,
    n_features: options.FeatureCount = None,
    missing: options.Missing = None,
    cache: options.Cached = True,
    as_json: options.Json = False,
) -> None:
    """Train a ranker and save it.

    Example: `cldrank train oracle --features train.txt --out ranker/`
    """
    from cldrank.estimators.oracle import Oracle

    estimators = {Method.oracle: Oracle}
    dataset = options.Reading(column, groups, n_features, missing, cache).load(features)
    with working("training …"):
        model = estimators[method](l2=l2, scaling=None if scaling == ScalingName.none else str(scaling)).fit(dataset)
    model.ranker_.save(out)
    constant, collinear = list(model.constant_features_), list(model.collinear_features_)
    if as_json:
        print_json(
            {
                "method": str(method),
                "ranker": str(out),
                "data": dataset.name,
                "synthetic": dataset.synthetic,
                "queries": dataset.n_queries,
                "rows": dataset.n_rows,
                "constant_features": constant,
                "collinear_features": collinear,
            }
        )
        return
    console.print(f"{model.ranker_!r}", markup=False)
    if constant:
        say(f"constant in the training data, no weight: {some(constant)}")
    if collinear:
        say(f"determined by the features before them, their own coefficients mean little: {some(collinear)}")
    console.print(f"saved in {out}", markup=False)
