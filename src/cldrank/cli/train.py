"""`cldrank train`."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.output import console, print_json, say, some, working
from cldrank.errors import CldrankWarning, UsageError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators.base import Estimator


class Method(StrEnum):
    """The methods that can be trained."""

    cld = "cld"
    naive = "naive"
    ips = "ips"
    heckman = "heckman"
    pijd = "pijd"
    oracle = "oracle"


_CLASSES = {
    Method.cld: "CLD",
    Method.naive: "Naive",
    Method.ips: "IPS",
    Method.heckman: "HeckmanRank",
    Method.pijd: "PIJD",
    Method.oracle: "Oracle",
}
_NEEDS_PROPENSITIES = (Method.cld, Method.ips)


class ScalingName(StrEnum):
    """How features are scaled; the scaling is learned from the training data and saved with the ranker."""

    standard = "standard"
    minmax = "minmax"
    log = "log"
    quantile = "quantile"
    none = "none"


def train(
    method: Annotated[
        Method,
        typer.Argument(
            help="`cld` corrects position and selection bias; `ips` position bias; `heckman` selection bias; `pijd` "
            "both, without propensities; `naive` takes clicks as they are; `oracle` learns from expert labels.",
            show_default=False,
        ),
    ],
    features: options.Features,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the ranker.", show_default=False)
    ],
    clicks: Annotated[
        list[str] | None,
        typer.Option("--clicks", "-c", metavar="FILE", help="The clicks: a file of cells, or raw logs."),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            "--propensity",
            "-p",
            metavar="WHICH",
            help="How likely each position is examined: `power:1.0` for (1/position)^1, `none` for all alike, or a "
            "JSON file, such as the one beside a simulated log.",
        ),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", help="cld: correlation of selection and relevance (0.1), or `profile` to estimate it."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="cld: `expected` (default) or `clicks`.")] = None,
    likelihood: Annotated[str | None, typer.Option("--likelihood", help="cld: `paper` (default) or `tobit`.")] = None,
    clip: Annotated[float | None, typer.Option("--clip", help="Raise smaller propensities to this.")] = None,
    l2: Annotated[float, typer.Option("--l2", min=0, help="Ridge penalty on the coefficients.")] = 1e-3,
    scaling: Annotated[ScalingName, typer.Option("--scaling", help="How to scale features.")] = ScalingName.standard,
    device: Annotated[str | None, typer.Option("--device", help="cld: `cuda` to fit on a GPU.")] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print the coefficients with their standard errors.")
    ] = False,
    column: options.Columns = None,
    groups: options.Groups = None,
    n_features: options.FeatureCount = None,
    missing: options.Missing = None,
    cache: options.Cached = True,
    as_json: options.Json = False,
) -> None:
    """Train a ranker and save it.

    Example: `cldrank train cld --features train.parquet --clicks cells.parquet --propensity power:1.0 --out ranker/`
    """
    chosen = {"gamma": _gamma(gamma), "target": target, "likelihood": likelihood, "clip": clip, "device": device}
    model = _estimator(method, l2, scaling, {name: value for name, value in chosen.items() if value is not None})
    dataset = options.Reading(column, groups, n_features, missing, cache).load(features)
    said = _fit(model, method, dataset, clicks, propensity)
    model.ranker_.save(out)
    if as_json:
        print_json({"method": str(method), "ranker": str(out), **_facts(model, dataset), "warnings": said})
        return
    console.print(f"{model.ranker_!r}", markup=False)
    if summary:
        console.print(model.summary(), markup=False, soft_wrap=True)
    facts = _facts(model, dataset)
    if facts["constant_features"]:
        say(f"note: constant in the training data, no weight: {some(facts['constant_features'])}")
    if facts["collinear_features"]:
        say(f"note: determined by other features, coefficients mean little: {some(facts['collinear_features'])}")
    for text in said:
        console.print(f"[yellow]warning:[/] {text}")
    console.print(f"saved in {out}", markup=False)


def _gamma(text: str | None) -> float | str | None:
    if text is None or text == "profile":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--gamma is a number between -1 and 1, or `profile`, not {text!r}.") from None


def _estimator(method: Method, l2: float, scaling: ScalingName, chosen: dict[str, Any]) -> Estimator:
    from cldrank import estimators

    kind = getattr(estimators, _CLASSES[method])
    known = kind().get_params()
    for name in chosen:
        if name not in known:
            raise UsageError(f"{method} has no option --{name}.")
    model: Estimator = kind(l2=l2, scaling=None if scaling == ScalingName.none else str(scaling), **chosen)
    return model


def _fit(
    model: Estimator, method: Method, dataset: RankingDataset, clicks: list[str] | None, propensity: str | None
) -> list[str]:
    """Fit the model; what it warned of."""
    from cldrank.clicks.table import ClickTable
    from cldrank.propensity import Propensities

    table = rho = None
    if method != Method.oracle:
        if not clicks:
            raise UsageError(f"{method} learns from clicks; name them with --clicks.")
        if method in _NEEDS_PROPENSITIES and propensity is None:
            raise UsageError(
                f"{method} needs the propensities of positions; name them with --propensity power:1.0, say."
            )
        with working("reading clicks …"):
            table = ClickTable.read(clicks[0] if len(clicks) == 1 else clicks, dataset)
        rho = Propensities.parse(propensity, max(table.depth, 1)) if propensity is not None else None
    with warnings.catch_warnings(record=True) as caught, working("training …"):
        warnings.simplefilter("always", CldrankWarning)
        model.fit(dataset, table, rho)
    return [str(warning.message) for warning in caught if issubclass(warning.category, CldrankWarning)]


def _facts(model: Any, dataset: RankingDataset) -> dict[str, Any]:
    return {
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "status": getattr(model, "status_", None),
        "steps": getattr(model, "n_iter_", None),
        "log_likelihood": getattr(model, "log_likelihood_", None),
        "constant_features": list(getattr(model, "constant_features_", ())),
        "collinear_features": list(getattr(model, "collinear_features_", ())),
    }
