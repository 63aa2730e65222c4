"""`cldrank train`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import methods, options
from cldrank.cli.learning_task import LearningTask
from cldrank.cli.output import console, counting, print_error, print_json, print_line, say, working
from cldrank.errors import CldrankWarning
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators import Method
    from cldrank.models import Epoch

_INTERRUPTED = 130
_NO_COMPARISON = (
    "note: held-out concordance chooses the epoch; each method has its own targets, so it does not compare methods. "
    "`cldrank tune METHOD --trials 1` judges all by the same held-out clicks, `cldrank evaluate` by labels."
)


def train(
    chosen: LearningTask,
    *,
    out: Annotated[Path, options.spelled("--out -o FOLDER", "Where to save the ranker.", show_default=False)],
    summary: Annotated[
        bool, options.spelled("--summary", "Print the fit: coefficients with their standard errors, or epochs.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a ranker and save it.

    Example: `cldrank train cld --features train.parquet --clicks cells.parquet --propensity power:1.0 --out ranker/`

    Ctrl-C while a network is trained saves the best ranker so far. With `torchrun -m cldrank train …` several processes
    train together.
    """
    method = chosen.method
    chosen.check()
    method.check()
    options.check_ranker_folder(out)
    dataset, table, rho = chosen.read()
    with _showing(method, bar=not as_json and _leads()), _together():
        warned = _fit(method, dataset, table, rho)
    if not _leads():
        return
    method.ranker_.save(out)
    facts = _facts(method, dataset)
    if as_json:
        more = {"summary": method.summary()} if summary else {}
        print_json({"method": method.name, "ranker": str(out), **facts, "warnings": warned, **more})
    else:
        _print(method, facts, warned, summary, out)
    if facts["status"] == "interrupted":
        _say_how_to_continue(facts, out, method.run.checkpoint)
        raise typer.Exit(_INTERRUPTED)


# -- training ------------------------------------------------------------------------------------------------------


def _fit(method: Method, dataset: RankingDataset, table: Any, rho: Any) -> list[str]:
    """Fit the method; its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CldrankWarning)
        try:
            method.fit(dataset, table, rho)
        except KeyboardInterrupt:
            if _leads():
                print_error("stopped before there was a ranker; nothing is saved.")
            raise typer.Exit(_INTERRUPTED) from None
    return [one.message.said("shell") for one in caught if isinstance(one.message, CldrankWarning)]


@contextmanager
def _showing(method: Method, bar: bool) -> Iterator[None]:
    """A bar of epochs while a network is trained, a word otherwise."""
    from cldrank.models import Linear, Network

    network = method.model if isinstance(method.model, Network) else None
    if method.way == "fit_pairs" and isinstance(method.model, Linear):
        network = method.model.as_network()
    if not bar or network is None:
        with working("training …"):
            yield
        return
    with counting("training", network.epochs) as count:

        def report(epoch: Epoch) -> None:
            held = "" if epoch.validation is None else f", held-out concordance {epoch.validation:.4f}"
            count(epoch.number, f"loss {epoch.loss:.4f}{held}")  # type: ignore[misc]

        method.set_params(run__on_epoch=report)
        yield
        method.set_params(run__on_epoch=None)


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


def _print(method: Method, facts: dict[str, Any], warned: list[str], summary: bool, out: Path) -> None:
    console.print(f"{method.ranker_!r}", markup=False)
    if summary:
        print_line(method.summary())
    if facts["best_epoch"]:
        print_line(_kept_epoch(facts))
        if facts["held_out_queries"]:
            say(_NO_COMPARISON)
    if facts["constant_features"]:
        say(f"note: constant in the training data, no weight: {some(facts['constant_features'])}")
    if facts["collinear_features"]:
        named = some(facts["collinear_features"])
        say(f"note: some features are determined by others, so their coefficients mean little: {named}")
    for text in warned if facts["status"] != "interrupted" else ():
        console.print("[yellow]warning:[/]", end=" ")
        console.print(text, markup=False)
    console.print(f"saved in {out}", markup=False)


def _kept_epoch(facts: dict[str, Any]) -> str:
    kept = facts["history"][facts["best_epoch"] - 1]
    held = "nothing held out"
    if kept["validation"] is not None:
        held = f"held-out concordance {kept['validation']:.4f} with {facts['held_out_targets']}"
    return f"epoch {kept['number']} of {len(facts['history'])} kept: loss {kept['loss']:.4f}, {held}"


def _say_how_to_continue(facts: dict[str, Any], out: Path, checkpoint: object) -> None:
    further = (
        "to be able to continue, train with --checkpoint FILE"
        if checkpoint is None
        else f"the same command with --resume continues from {checkpoint}"
    )
    done = len(facts["history"])
    print_error(f"stopped after epoch {done}; the ranker of epoch {facts['best_epoch']} is saved in {out}; {further}.")


def _facts(method: Method, dataset: RankingDataset) -> dict[str, Any]:
    return {
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "status": method.status_,
        "steps": method.n_iter_,
        "log_likelihood": getattr(method, "log_likelihood_", None),
        "best_epoch": getattr(method, "best_epoch_", None),
        "held_out_queries": getattr(method, "n_held_", None),
        "held_out_targets": method.learns if hasattr(method, "best_epoch_") else None,
        "history": [asdict(epoch) for epoch in getattr(method, "history_", ())],
        "constant_features": list(getattr(method, "constant_features_", ())),
        "collinear_features": list(getattr(method, "collinear_features_", ())),
    }


app = methods.group(train)
