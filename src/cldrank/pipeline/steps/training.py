"""The ranker: `cldrank train`, with queries held out for the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.holding_out import HeldOut
from cldrank.errors import hearing_warnings
from cldrank.estimators.evidence import needed
from cldrank.estimators.registry import configured, methods, unused_settings
from cldrank.files import make_folder
from cldrank.pipeline.definition import PipelineDefinition
from cldrank.pipeline.shipped import WARM_START, shipped_content, shipped_ranker_hash
from cldrank.pipeline.step import UNFINISHED, Step, StepOutcome, Workbench
from cldrank.safety import Safe, UnsafeError

if TYPE_CHECKING:
    from cldrank.estimators import Method
    from cldrank.models import Epoch
    from cldrank.rankers import Ranker

UNSAFE = "unsafe"  # nothing that was learned is shown to be safe


class TrainStep(Step):
    """Train the method on all queries but those held out."""

    name = "train"
    sentence = "trains the ranker"
    gate = True
    packages = ("numpy", "scipy")

    def packages_for(self, pipeline: PipelineDefinition) -> tuple[str, ...]:
        """With torch or XGBoost, if the model is of theirs."""
        method = self._plain_method(pipeline)
        needed_too = method.model.package(method.way)
        return self.packages if needed_too is None else (*self.packages, needed_too[0])

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """The method with all its parameters; not where it is computed, which does not decide the result."""
        chosen = bench.pipeline.train.get_params()
        del chosen["warm_start"]
        own = {name: value for name, value in bench.pipeline.train_options.items() if name != "device"}
        return {**chosen, "options": own}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """Features, cells and propensities; the ranker that it begins from, where that decides the result."""
        found = {
            "features": bench.features_hash(),
            "cells": bench.result_hash("aggregate", "cells.parquet"),
            "propensities": bench.result_hash("propensities", "rho.json"),
        }
        return found | self._start(bench, found)

    def _start(self, bench: Workbench, others: dict[str, str]) -> dict[str, str]:
        """The hash of the ranker that a fit begins from.

        Networks end elsewhere when they begin elsewhere; a linear model has one optimum, wherever it begins. If what is
        shipped was learned from all the same, it stays, and what it began from is what counts.
        """
        method = self._plain_method(bench.pipeline)
        if not bench.pipeline.train.warm_start or method.model.progress(method.way) is None:
            return {}
        shipped = shipped_content(bench.pipeline)
        earlier = {WARM_START: str(shipped[WARM_START])} if shipped.get(WARM_START) else {}
        key = self.key(bench.pipeline, self.settings(bench), {**others, **earlier})
        if shipped.get("train") == key and (bench.store / f"{self.name}-{key}").is_dir():
            return earlier
        if not self._begins_from(bench, method):
            return {}
        return {WARM_START: shipped_ranker_hash(bench, WARM_START)}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the ranker with its card; where nothing is safe, say so instead."""
        chosen = bench.pipeline.train
        held = HeldOut.of(bench.dataset, bench.clicks, chosen.hold_out)
        dataset, table = held.others
        checkpoint = self._checkpoint(bench)
        method = self._method(bench, checkpoint)
        bench.say(f"training {method.label}")
        try:
            with hearing_warnings() as heard:
                ranker = self._learned(bench, method, dataset, table)
        except UnsafeError as error:
            return StepOutcome(str(error), UNSAFE, {"hold_out": held.as_dict()}, UNSAFE)
        if method.status_ == "interrupted":
            raise KeyboardInterrupt  # the fit kept its best ranker so far, which is not the one that was asked for
        origin = ranker.provenance.documented(
            [str(one) for one in heard],
            command=f"cldrank pipeline run {bench.pipeline.source.name}",
            held_out=chosen.hold_out,
        )
        ranker.with_provenance(origin).save(folder / "ranker")
        checkpoint.unlink(missing_ok=True)
        facts = {
            "ranker": repr(ranker),
            "status": method.status_,
            "steps": int(method.n_iter_),
            "hold_out": held.as_dict(),
            "safety": None if origin.safety is None else str(origin.safety),
        }
        safety = f"; {origin.safety}" if origin.safety is not None else ""
        return StepOutcome(
            f"{method.label}, {method.status_}; {held}{safety}", f"{method.label}, {method.model.name}", facts
        )

    @staticmethod
    def _learned(bench: Workbench, method: Method, dataset: Any, table: Any) -> Ranker:
        chosen = bench.pipeline.train
        if not chosen.safe:
            return method.fit(dataset, *needed(method.required, table, bench.curve)).ranker_
        feature = chosen.production_feature or None
        return Safe(method, margin=chosen.safe_margin, production=feature).fit(dataset, table, bench.curve).ranker_

    def _method(self, bench: Workbench, checkpoint: Path) -> Method:
        """The method, which reports its epochs and, where it has such, saves its state as it goes on."""
        chosen, options = bench.pipeline.train, dict(bench.pipeline.train_options)
        method = self._plain_method(bench.pipeline)
        if chosen.warm_start:
            method = configured(methods()[chosen.method], {**options, **self._begins_from(bench, method)})
        steps = method.model.progress(method.way)
        if steps is None:
            return method

        def report(epoch: Epoch) -> None:
            bench.say(f"training {method.label}: {steps[0]} {epoch.number} of {steps[1]}, loss {epoch.loss:.4f}")

        make_folder(checkpoint.parent)
        method.set_params(run__on_epoch=report, run__checkpoint=str(checkpoint), run__resume=checkpoint.exists())
        return method

    @staticmethod
    def _plain_method(pipeline: PipelineDefinition) -> Method:
        return configured(methods()[pipeline.train.method], dict(pipeline.train_options))

    @staticmethod
    def _begins_from(bench: Workbench, method: Method) -> dict[str, Any]:
        """The ranker that was shipped last, if the method can begin from it, and it has the same features."""
        from cldrank.rankers import load_ranker

        if "warm_start" in unused_settings(type(method), type(method.model)):
            return {}
        shipped = bench.pipeline.path(bench.pipeline.export.folder) / "ranker"
        if not shipped.is_dir() or load_ranker(shipped).feature_names != bench.dataset.feature_names:
            return {}
        return {"warm_start": str(shipped)}

    def _checkpoint(self, bench: Workbench) -> Path:
        """The state of a fit that was stopped; what decides the fit is in its name."""
        key = self.key(bench.pipeline, self.settings(bench), self.reads(bench))
        return bench.store.parent / UNFINISHED / f"train-{key}.checkpoint"
