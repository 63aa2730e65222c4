"""The methods as the command line names them: their options, the estimators made of these, and what they learn from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli.output import working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators.base import Estimator
    from cldrank.propensity import Propensities


class Method(StrEnum):
    """The methods that can be trained."""

    cld = "cld"
    cld_pair = "cld-pair"
    naive = "naive"
    ips = "ips"
    heckman = "heckman"
    rankagg = "rankagg"
    pijd = "pijd"
    oracle = "oracle"


class ModelName(StrEnum):
    """What a ranker is made of."""

    linear = "linear"
    mlp = "mlp"


class PrecisionName(StrEnum):
    """Of the numbers in a network while it is trained."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class ScalingName(StrEnum):
    """How features are scaled; the scaling is learned from the training data and saved with the ranker."""

    standard = "standard"
    minmax = "minmax"
    log = "log"
    quantile = "quantile"
    none = "none"


_CLASSES = {
    Method.cld: "CLD",
    Method.cld_pair: "CLDPair",
    Method.naive: "Naive",
    Method.ips: "IPS",
    Method.heckman: "HeckmanRank",
    Method.rankagg: "RankAgg",
    Method.pijd: "PIJD",
    Method.oracle: "Oracle",
}
_NEEDS_PROPENSITIES = (Method.cld, Method.cld_pair, Method.ips, Method.rankagg)
_NETWORK_UNLESS_SAID = (Method.cld_pair, Method.rankagg)
_SHAPE = ("hidden", "dropout")
_TRAINING = ("batch_queries", "patience", "validation", "precision", "checkpoint", "resume", "tensorboard")
_OF_THE_LOOP = ("epochs", "learning_rate", "unshown_ratio", "seed", *_TRAINING)

_NETWORKS = "Networks"
MethodName = Annotated[
    Method,
    typer.Argument(
        help="`cld` and `cld-pair` correct position and selection bias; `ips` position bias; `heckman` selection bias; "
        "`rankagg` joins these two; `pijd` corrects both without propensities; `naive` takes clicks as they are; "
        "`oracle` learns from expert labels.",
        show_default=False,
    ),
]
Clicks = Annotated[
    list[str] | None,
    typer.Option("--clicks", "-c", metavar="FILE", help="The clicks: a file of cells, or raw logs."),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        "-p",
        metavar="WHICH",
        help="How likely each position is examined: `power:1.0` for (1/position)^1, `none` for all alike, or a "
        "JSON file, such as the one beside a simulated log.",
    ),
]
Scaling = Annotated[ScalingName, typer.Option("--scaling", help="How to scale features.")]
Device = Annotated[str | None, typer.Option("--device", help="cld and networks: `cuda` for a GPU.")]
Model = Annotated[
    ModelName | None,
    typer.Option(
        "--model",
        help="`linear`, or `mlp` for a network. Of cld-pair and rankagg `mlp`, of the others `linear`, unless said.",
        show_default=False,
    ),
]
Hidden = Annotated[
    str | None,
    typer.Option(
        "--hidden", metavar="SIZES", help="Sizes of the hidden layers (256,128,64).", rich_help_panel=_NETWORKS
    ),
]
Epochs = Annotated[
    int | None, typer.Option("--epochs", min=1, help="Passes over the queries (12).", rich_help_panel=_NETWORKS)
]
BatchQueries = Annotated[
    int | None,
    typer.Option("--batch-queries", min=1, help="Queries of a step (a 64th, 8 to 128).", rich_help_panel=_NETWORKS),
]
Patience = Annotated[
    int | None,
    typer.Option(
        "--patience", min=1, help="Stop after so many epochs without a better one.", rich_help_panel=_NETWORKS
    ),
]
Validation = Annotated[
    float | None,
    typer.Option(
        "--validation",
        help="Share of the queries held out; their clicks choose the epoch (0.1).",
        rich_help_panel=_NETWORKS,
    ),
]
Precision = Annotated[
    PrecisionName | None,
    typer.Option(
        "--precision",
        help="`bfloat16` for mixed precision; `float32` unless said.",
        show_default=False,
        rich_help_panel=_NETWORKS,
    ),
]


def estimator(method: Method, scaling: ScalingName, chosen: Mapping[str, Any]) -> Estimator:
    """The estimator of a method with what was chosen (None: nothing was said); options it does not have are refused."""
    from cldrank import estimators

    kind = getattr(estimators, _CLASSES[method])
    given = {name: value for name, value in chosen.items() if value is not None}
    _check_options(method, kind().get_params(), given)
    if trains_network(method, given.get("model")):
        from cldrank.training.networks import check_torch

        check_torch()
    shape = {name: given.pop(name) for name in _SHAPE if name in given}
    training = {name: given.pop(name) for name in _TRAINING if name in given}
    if shape:
        from cldrank.training.networks import MLP

        given["model"] = MLP(**shape)
    if training:
        from cldrank.training import Training

        given["training"] = Training(**training)
    built: Estimator = kind(scaling=None if scaling == ScalingName.none else str(scaling), **given)
    return built


def trains_network(method: Method, model: str | None) -> bool:
    """Whether the loop for networks does the work; cld-pair with a linear model is trained by it too."""
    usual = ModelName.mlp if method in _NETWORK_UNLESS_SAID else ModelName.linear
    return method == Method.cld_pair or (model or usual) == ModelName.mlp


def read_clicks(
    method: Method, dataset: RankingDataset, clicks: list[str] | None, propensity: str | None
) -> tuple[ClickTable | None, Propensities | None]:
    """What a method learns from beside the dataset; refused where something it needs was not named."""
    from cldrank.clicks.table import ClickTable
    from cldrank.propensity import Propensities

    if method == Method.oracle:
        return None, None
    if not clicks:
        raise UsageError(f"{method} learns from clicks; name them with --clicks.")
    if method in _NEEDS_PROPENSITIES and propensity is None:
        raise UsageError(f"{method} needs the propensities of positions; name them with --propensity power:1.0, say.")
    with working("reading clicks …"):
        table = ClickTable.read(clicks[0] if len(clicks) == 1 else clicks, dataset)
    return table, Propensities.parse(propensity, max(table.depth, 1)) if propensity is not None else None


def sizes(text: str | None) -> tuple[int, ...] | None:
    """The sizes of layers from a text.

    >>> sizes("256,128,64")
    (256, 128, 64)
    """
    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--hidden lists the sizes of the layers, such as 256,128,64, not {text!r}.") from None


def spelled(name: str) -> str:
    """How a parameter is spelled as an option.

    >>> spelled("learning_rate")
    '--learning-rate'
    """
    return f"--{name.replace('_', '-')}"


def _check_options(method: Method, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    model = given.get("model")
    network = trains_network(method, model)
    for name in given:
        parameter = "model" if name in _SHAPE else "training" if name in _TRAINING else name
        if parameter not in known:
            raise UsageError(f"{method} has no option {spelled(name)}.")
        if name in _SHAPE and (model == ModelName.linear or not network):
            raise UsageError(f"{spelled(name)} shapes a network, and a linear model has none; say --model mlp.")
        if not network and (name in _OF_THE_LOOP or (name == "device" and method != Method.cld)):
            raise UsageError(f"{spelled(name)} is for networks; {method} is linear unless you say --model mlp.")
