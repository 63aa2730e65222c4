"""The methods as the command line names them: their options, the estimators made of these, and what they learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.output import working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators.base import Estimator
    from cldrank.propensity import AffineClicks, Propensities


class Method(StrEnum):
    """The methods that can be trained."""

    cld = "cld"
    cld_pair = "cld-pair"
    naive = "naive"
    ips = "ips"
    heckman = "heckman"
    rankagg = "rankagg"
    affine_ips = "affine-ips"
    policy_aware_ips = "policy-aware-ips"
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
    Method.affine_ips: "AffineIPS",
    Method.policy_aware_ips: "PolicyAwareIPS",
    Method.pijd: "PIJD",
    Method.oracle: "Oracle",
}
_NEEDS_PROPENSITIES = (Method.cld, Method.cld_pair, Method.ips, Method.rankagg, Method.policy_aware_ips)
_USES_NO_PROPENSITIES = {
    Method.naive: "takes clicks as they are",
    Method.heckman: "corrects for selection, not for positions",
    Method.pijd: "corrects for positions by itself",
    Method.oracle: "learns from labels",
}
_NETWORK_UNLESS_SAID = (Method.cld_pair, Method.rankagg)
_SHAPE = ("hidden", "dropout")
_TRAINING = ("batch_queries", "patience", "validation", "precision", "checkpoint", "resume", "tensorboard")
_OF_THE_LOOP = ("epochs", "learning_rate", "unshown_ratio", "seed", *_TRAINING)

_NETWORKS = "Networks"
MethodName = Annotated[
    Method,
    typer.Argument(
        help="`cld` and `cld-pair` correct position and selection bias; `ips` position bias; `heckman` selection bias; "
        "`rankagg` joins these two; `affine-ips` corrects position bias and trust in high positions; "
        "`policy-aware-ips` position and selection bias, where pages vary; `pijd` both, without propensities; `naive` "
        "takes clicks as they are; `oracle` learns from expert labels.",
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
        "JSON file: the one beside a simulated log, or what `cldrank propensity estimate` wrote.",
    ),
]
Affine = Annotated[
    Path | None,
    typer.Option(
        "--affine",
        metavar="FILE",
        help="affine-ips: slope and base of each position, as `cldrank propensity estimate --method trust-bias` writes "
        "them; instead of --propensity.",
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth",
        min=1,
        help="Take every page as if it ended after so many positions: clicks below are left out, and what was shown "
        "only there counts as not shown. For propensities that reach no further.",
        show_default=False,
    ),
]
Scaling = Annotated[ScalingName, typer.Option("--scaling", help="How to scale features.")]
Device = Annotated[str | None, typer.Option("--device", help="cld and networks: `cuda` for a GPU.")]
Model = Annotated[
    ModelName | None,
    typer.Option(
        "--model",
        help="`linear`, or `mlp` for a network. By default `mlp` for cld-pair and rankagg, `linear` for the others.",
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
        help="`bfloat16` for mixed precision; `float32` by default.",
        show_default=False,
        rich_help_panel=_NETWORKS,
    ),
]


def estimator(method: Method, scaling: ScalingName, chosen: Mapping[str, Any]) -> Estimator:
    """The estimator of a method with what was chosen (None: nothing was said); options it does not have are refused."""
    from cldrank import estimators

    kind = getattr(estimators, _CLASSES[method])
    given = {name: value for name, value in chosen.items() if value is not None}
    known = kind().get_params()
    if method in _USES_NO_PROPENSITIES:
        known.pop("clip", None)  # of heckman, for a correction that has no option here
    _check_options(method, known, given)
    if trains_network(method, given.get("model")):
        from cldrank.models.network.networks import check_torch

        check_torch()
    shape = {name: given.pop(name) for name in _SHAPE if name in given}
    training = {name: given.pop(name) for name in _TRAINING if name in given}
    if shape:
        from cldrank.models.network.networks import MLP

        given["model"] = MLP(**shape)
    if training:
        from cldrank.models.network import Training

        given["training"] = Training(**training)
    built: Estimator = kind(scaling=None if scaling == ScalingName.none else str(scaling), **given)
    return built


def trains_network(method: Method, model: str | None) -> bool:
    """Whether the loop for networks does the work; cld-pair with a linear model is trained by it too."""
    usual = ModelName.mlp if method in _NETWORK_UNLESS_SAID else ModelName.linear
    return method == Method.cld_pair or (model or usual) == ModelName.mlp


@dataclass(frozen=True)
class Observed:
    """What a method learns from beside the dataset, as it was named."""

    clicks: list[str] | None
    propensity: str | None
    affine: Path | None
    depth: int | None
    log: options.LogReading = field(default_factory=options.LogReading)

    def check(self, method: Method, *, judges: bool = False) -> None:
        """Refuse what does not fit the method, and a method without what it needs, before anything is read.

        `judges` says whether the propensities also correct clicks that rankers are judged by.
        """
        if self.propensity is not None and method in _USES_NO_PROPENSITIES and not judges:
            raise UsageError(
                f"{method} {_USES_NO_PROPENSITIES[method]} and uses no propensities; leave --propensity out, or train "
                "a method that corrects for them, such as cld or ips."
            )
        if self.affine is not None and method != Method.affine_ips:
            raise UsageError(f"{method} has no option --affine; slopes and bases are for affine-ips.")
        if self.affine is not None and self.propensity is not None:
            raise UsageError("--affine and --propensity both say how clicks depend on the position; name one of them.")
        if method == Method.oracle:
            for option, value in (("--clicks", self.clicks), ("--depth", self.depth)):
                if value:
                    raise UsageError(f"oracle learns from labels, not from clicks; leave {option} out.")
            return
        if not self.clicks:
            raise UsageError(f"{method} learns from clicks; name them with --clicks.")
        if method == Method.affine_ips and self.affine is None and self.propensity is None:
            raise UsageError(
                "affine-ips needs slope and base of each position: --affine FILE, which `cldrank propensity estimate "
                "--method trust-bias` writes; or --propensity power:1.0, say, if nobody trusts a position."
            )
        if method in _NEEDS_PROPENSITIES and self.propensity is None:
            raise UsageError(
                f"{method} needs the propensities of positions; name them with --propensity: power:1.0, say, or what "
                "`cldrank propensity estimate` wrote."
            )

    def read(
        self, method: Method, dataset: RankingDataset
    ) -> tuple[ClickTable | None, Propensities | AffineClicks | None]:
        """The clicks, and the propensities (or slopes and bases) of their positions."""
        from cldrank.clicks.table import ClickTable

        if method == Method.oracle or not self.clicks:
            return None, None
        with working("reading clicks …"):
            named = self.clicks[0] if len(self.clicks) == 1 else self.clicks
            table = ClickTable.read(named, dataset, **self.log.chosen())
        if self.depth is not None:
            if self.depth > table.depth:
                raise UsageError(
                    f"--depth {self.depth} is deeper than the clicks, which reach down to position {table.depth}; "
                    "leave it out, or name less."
                )
            table = table.first(self.depth)
        found = self._of_positions(max(table.depth, 1))
        if found is not None and len(found) < table.depth:
            raise UsageError(
                f"{self.affine or self.propensity} reaches down to position {len(found)}, the clicks to {table.depth}; "
                f"--depth {len(found)} takes pages as if they ended there."
            )
        return table, found

    def _of_positions(self, depth: int) -> Propensities | AffineClicks | None:
        from cldrank.cli.propensity_output import load
        from cldrank.propensity import AffineClicks, Propensities

        if self.affine is not None:
            return AffineClicks.load(self.affine)
        if self.propensity is None:
            return None
        if Path(self.propensity).is_file() and isinstance(load(self.propensity), AffineClicks):
            raise UsageError(
                f"{self.propensity} holds slopes and bases, not propensities; train affine-ips with --affine "
                f"{self.propensity}."
            )
        return Propensities.parse(self.propensity, depth)


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
