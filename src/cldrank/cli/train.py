"""`cldrank train`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import methods, options
from cldrank.cli.output import console, print_error, print_json, progress_bar, say, working
from cldrank.errors import CldrankWarning, UsageError
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators.base import Estimator
    from cldrank.models.network.settings import Epoch

_NETWORKS = "Networks"
_INTERRUPTED = 130
_NO_COMPARISON = (
    "note: held-out concordance chooses the epoch; each method has its own targets, so it does not compare methods. "
    "`cldrank tune METHOD --trials 1` judges all by the same held-out clicks, `cldrank evaluate` by labels."
)


def train(
    method: methods.MethodName,
    features: options.Features,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the ranker.", show_default=False)
    ],
    clicks: methods.Clicks = None,
    propensity: methods.Propensity = None,
    affine: methods.Affine = None,
    depth: methods.Depth = None,
    model: methods.Model = None,
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", help="cld: correlation of selection and relevance (0.1), or `profile` to estimate it."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="cld: `expected` (default) or `clicks`.")] = None,
    likelihood: Annotated[str | None, typer.Option("--likelihood", help="cld: `paper` (default) or `tobit`.")] = None,
    selection_weight: Annotated[
        float | None,
        typer.Option("--selection-weight", help="cld-pair: C, the weight of selection (0.05; the paper has 1)."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="IPS,HECKMAN", help="rankagg: the votes of the two (1,1).")
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            "--clip",
            help="Raise smaller propensities to this; affine-ips: slopes below this share of the first; "
            "policy-aware-ips: smaller chances to be shown and examined.",
        ),
    ] = None,
    l2: Annotated[
        float, typer.Option("--l2", min=0, help="Ridge penalty on the coefficients; weight decay of a network.")
    ] = 1e-3,
    scaling: methods.Scaling = methods.ScalingName.standard,
    device: methods.Device = None,
    hidden: methods.Hidden = None,
    dropout: Annotated[
        float | None, typer.Option("--dropout", help="Of the hidden layers (0.2).", rich_help_panel=_NETWORKS)
    ] = None,
    epochs: methods.Epochs = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Of AdamW (0.002).", rich_help_panel=_NETWORKS)
    ] = None,
    unshown_ratio: Annotated[
        float | None,
        typer.Option(
            "--unshown-ratio",
            help="cld, cld-pair: pairs with an unshown candidate for each pair of shown ones (1).",
            rich_help_panel=_NETWORKS,
        ),
    ] = None,
    batch_queries: methods.BatchQueries = None,
    validation: methods.Validation = None,
    patience: methods.Patience = None,
    precision: methods.Precision = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="The same seed gives the same ranker (0).", rich_help_panel=_NETWORKS),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", metavar="FILE", help="Keep the state after each epoch here.", rich_help_panel=_NETWORKS
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint, to the same ranker as without a break.",
            rich_help_panel=_NETWORKS,
        ),
    ] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", metavar="FOLDER", help="Log for TensorBoard.", rich_help_panel=_NETWORKS),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print the fit: coefficients with their standard errors, or epochs.")
    ] = False,
    log_column: options.ClickLogColumns = None,
    first_position: options.FirstPosition = None,
    one_query: options.OneQuery = False,
    column: options.Columns = None,
    groups: options.Groups = None,
    n_features: options.FeatureCount = None,
    missing: options.Missing = None,
    cache: options.Cached = True,
    as_json: options.Json = False,
) -> None:
    """Train a ranker and save it.

    Example: `cldrank train cld --features train.parquet --clicks cells.parquet --propensity power:1.0 --out ranker/`

    Ctrl-C while a network is trained saves the best ranker so far. With `torchrun -m cldrank train …` several processes
    train together.
    """
    if resume and checkpoint is None:
        raise UsageError("--resume goes on from a checkpoint; name it with --checkpoint.")
    chosen = {
        "model": model and str(model),
        "gamma": _gamma(gamma),
        "target": target,
        "likelihood": likelihood,
        "selection_weight": selection_weight,
        "weights": _weights(weights),
        "clip": clip,
        "l2": l2,
        "device": device,
        "hidden": methods.sizes(hidden),
        "dropout": dropout,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "unshown_ratio": unshown_ratio,
        "batch_queries": batch_queries,
        "validation": validation,
        "patience": patience,
        "precision": precision and str(precision),
        "seed": seed,
        "checkpoint": checkpoint,
        "resume": resume or None,
        "tensorboard": tensorboard,
    }
    estimator = methods.estimator(method, scaling, chosen)
    log = options.LogReading(log_column, first_position, one_query)
    observed = methods.Observed(clicks, propensity, affine, depth, log)
    observed.check(method)
    options.check_ranker_folder(out)
    dataset = options.Reading(column, groups, n_features, missing, cache).load(features)
    table, rho = observed.read(method, dataset)
    network = methods.trains_network(method, model)
    with _showing(estimator, bar=network and not as_json and _leads()), _together():
        said = _fit(estimator, dataset, table, rho)
    if not _leads():
        return
    estimator.ranker_.save(out)
    facts = _facts(estimator, dataset)
    if as_json:
        more = {"summary": estimator.summary()} if summary else {}
        print_json({"method": str(method), "ranker": str(out), **facts, "warnings": said, **more})
    else:
        _print(estimator, facts, said, summary, out)
    if facts["status"] == "interrupted":
        _say_how_to_go_on(facts, out, checkpoint)
        raise typer.Exit(_INTERRUPTED)


def _gamma(text: str | None) -> float | str | None:
    if text is None or text == "profile":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--gamma is a number between -1 and 1, or `profile`, not {text!r}.") from None


def _weights(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--weights is two numbers, such as 1,1, not {text!r}.") from None


# -- training ------------------------------------------------------------------------------------------------------


def _fit(model: Estimator, dataset: RankingDataset, table: Any, rho: Any) -> list[str]:
    """Fit the model; what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CldrankWarning)
        try:
            model.fit(dataset, table, rho)
        except KeyboardInterrupt:
            if _leads():
                print_error("stopped before there was a ranker; nothing is saved.")
            raise typer.Exit(_INTERRUPTED) from None
    return [str(warning.message) for warning in caught if issubclass(warning.category, CldrankWarning)]


@contextmanager
def _showing(model: Estimator, bar: bool) -> Iterator[None]:
    """Show how the training goes: epochs with a bar, or that something is going on."""
    if not bar:
        with working("training …"):
            yield
        return
    from cldrank.models.network import Training

    given: Any = model.get_params(deep=False)
    with progress_bar() as progress:
        report = _reporting(progress, given["epochs"])
        model.set_params(training=replace(given["training"] or Training(), on_epoch=report))
        yield
        model.set_params(training=given["training"])


def _reporting(progress: Any, epochs: int | None) -> Callable[[Epoch], None]:
    from cldrank.estimators.neural.estimator import EPOCHS

    task = progress.add_task("training", total=epochs or EPOCHS)

    def report(epoch: Epoch) -> None:
        held = "" if epoch.validation is None else f", held-out concordance {epoch.validation:.4f}"
        progress.update(task, completed=epoch.number, description=f"loss {epoch.loss:.4f}{held}")

    return report


def _leads() -> bool:
    """Whether this process writes and speaks: it is alone, or the first of those that `torchrun` started."""
    if "RANK" not in os.environ:
        return True
    from cldrank.models.network.distributed import is_leader

    return is_leader()


@contextmanager
def _together() -> Iterator[None]:
    """End what processes that trained together had between them."""
    try:
        yield
    finally:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


# -- what came of it -----------------------------------------------------------------------------------------------


def _print(model: Any, facts: dict[str, Any], said: list[str], summary: bool, out: Path) -> None:
    console.print(f"{model.ranker_!r}", markup=False)
    if summary:
        console.print(model.summary(), markup=False, soft_wrap=True)
    if facts["best_epoch"]:
        console.print(_said_of_epochs(facts), markup=False, soft_wrap=True)
        if facts["held_out_queries"]:
            say(_NO_COMPARISON)
    if facts["constant_features"]:
        say(f"note: constant in the training data, no weight: {some(facts['constant_features'])}")
    if facts["collinear_features"]:
        named = some(facts["collinear_features"])
        say(f"note: some features are determined by others, so their coefficients mean little: {named}")

    for text in said if facts["status"] != "interrupted" else ():
        console.print("[yellow]warning:[/]", end=" ")
        console.print(text, markup=False)
    console.print(f"saved in {out}", markup=False)


def _said_of_epochs(facts: dict[str, Any]) -> str:
    kept = facts["history"][facts["best_epoch"] - 1]
    held = "nothing held out"
    if kept["validation"] is not None:
        held = f"held-out concordance {kept['validation']:.4f} with {facts['held_out_targets']}"
    return f"epoch {kept['number']} of {len(facts['history'])} kept: loss {kept['loss']:.4f}, {held}"


def _say_how_to_go_on(facts: dict[str, Any], out: Path, checkpoint: Path | None) -> None:
    further = (
        "to be able to go on, train with --checkpoint FILE"
        if checkpoint is None
        else f"the same command with --resume goes on from {checkpoint}"
    )
    gone = len(facts["history"])
    print_error(f"stopped after epoch {gone}; the ranker of epoch {facts['best_epoch']} is saved in {out}; {further}.")


def _facts(model: Any, dataset: RankingDataset) -> dict[str, Any]:
    trained = getattr(model, "ips_", model)  # of RankAgg, the part that is a network
    return {
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "status": getattr(model, "status_", None),
        "steps": getattr(trained, "n_iter_", None),
        "log_likelihood": getattr(model, "log_likelihood_", None),
        "best_epoch": getattr(trained, "best_epoch_", None),
        "held_out_queries": getattr(trained, "n_held_", None),
        "held_out_targets": trained.targets if hasattr(trained, "best_epoch_") else None,
        "history": [asdict(epoch) for epoch in getattr(trained, "history_", ())],
        "constant_features": list(getattr(model, "constant_features_", ())),
        "collinear_features": list(getattr(model, "collinear_features_", ())),
    }
