"""The second gate: the new ranker against production, by clicks alone, as `cldrank compare` decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank.data.query_hash import held_out
from cldrank.decoding import plain
from cldrank.evaluation import compare
from cldrank.evaluation.orders import PRODUCTION
from cldrank.files import save_json, save_text
from cldrank.pipeline.definition import AS_SHIPPED
from cldrank.pipeline.shipped import RANKER, ranker_shipped, shipped_content, shipped_ranker_hash
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.rankers import load_ranker


class VerdictStep(Step):
    """Judge the ranker by the clicks on queries that it was not trained on."""

    name = "verdict"
    sentence = "compares the ranker with production, by the clicks on held-out queries"
    gate = True
    packages = ("numpy", "scipy")

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """What is measured and how, and which verdicts pass."""
        chosen = bench.pipeline.verdict.get_params()
        own = {"hold_out": bench.pipeline.train.hold_out, "seed": bench.pipeline.seed}
        return {**chosen, "ship_if": sorted(chosen["ship_if"]), **own}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The ranker, the one it is compared with, and what it is judged by."""
        found = {
            "ranker": bench.result_hash("train", "ranker"),
            "features": bench.features_hash(),
            "cells": bench.result_hash("aggregate", "cells.parquet"),
            "propensities": bench.result_hash("propensities", "rho.json"),
        }
        against = bench.pipeline.verdict.against
        if against == AS_SHIPPED:
            return found | self._shipped_hash(bench)
        if against != PRODUCTION:
            found["against"] = bench.input_hash("against", bench.pipeline.paths([against]))
        return found

    def _shipped_hash(self, bench: Workbench) -> dict[str, str]:
        """The hash of the ranker that is shipped; if that is the new one, of the one that it was judged against."""
        if self._is_shipped(bench):
            earlier = shipped_content(bench.pipeline).get("against")
            return {"against": str(earlier)} if earlier else {}
        return {"against": shipped_ranker_hash(bench, "against")} if ranker_shipped(bench.pipeline) else {}

    @staticmethod
    def _is_shipped(bench: Workbench) -> bool:
        """Whether the new ranker is the one that is shipped already."""
        there = ranker_shipped(bench.pipeline)
        return there is not None and shipped_content(bench.pipeline).get(RANKER) == bench.result_hash("train", RANKER)

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the verdict as JSON and as a page."""
        chosen = bench.pipeline.verdict
        if chosen.against == AS_SHIPPED and self._is_shipped(bench):
            decision = shipped_content(bench.pipeline).get("verdict")
            words = "the ranker is the one that is shipped: there is nothing to compare"
            return StepOutcome(words, "as shipped", {"decision": decision, "against": AS_SHIPPED})
        old, name, note = self._old(bench)
        held = held_out(bench.dataset.query_ids, bench.pipeline.train.hold_out)
        bench.say("judging by clicks")
        found = compare(
            load_ranker(bench.result("train", "ranker")),
            old,
            bench.dataset[held],
            list(chosen.measures) or None,
            clicks=bench.clicks[held],
            propensities=bench.curve,
            names=("the new ranker", name),
            margin=chosen.margin,
            confidence=chosen.confidence,
            estimator=chosen.estimator,
            trust_propensity=chosen.trust_propensity,
            quick=chosen.quick,
            seed=bench.pipeline.seed,
            progress=lambda at: bench.say(f"judging by clicks: {at}"),
        )
        save_json(folder / "verdict.json", plain(found.as_dict()))
        save_text(folder / "verdict.html", found.to_html())
        decision, first = found.verdict.decision, found.first
        facts = {
            "decision": decision,
            "against": name,
            "measure": first.measure,
            "new": first.new.interval.estimate,
            "old": first.old.interval.estimate,
            "low": first.interval.low,
            "high": first.interval.high,
            "margin": found.verdict.margin,
            "queries": found.support.queries,
        }
        words = f"{found.verdict.words}: {found.verdict.reason}{note}"
        return StepOutcome(words, decision, plain(facts), "" if decision in chosen.ship_if else decision)

    @staticmethod
    def _old(bench: Workbench) -> tuple[Any, str, str]:
        """What the ranker is compared with, its name, and what there is to say about it."""
        against, shipped = bench.pipeline.verdict.against, ranker_shipped(bench.pipeline)
        if against == AS_SHIPPED and shipped is None:
            return PRODUCTION, PRODUCTION, " Nothing is shipped yet, so this is against the order of the log."
        if against == PRODUCTION:
            return PRODUCTION, PRODUCTION, ""
        return load_ranker(shipped if against == AS_SHIPPED and shipped else bench.pipeline.path(against)), against, ""
