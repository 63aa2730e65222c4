"""The propensities of positions: estimated as `cldrank propensity estimate` does, assumed, or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cldrank.errors import DataError, UnidentifiableError, UsageError
from cldrank.pipeline.definition import PipelineDefinition, reading_of
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.propensity import Propensities, SegmentPropensities, estimators
from cldrank.propensity.affine_clicks import curve_of
from cldrank.propensity.chart import save_chart
from cldrank.propensity.choosing import ChosenMethod, choose_method, fitted_curve, fitted_segments
from cldrank.propensity.segment_propensities import Curve
from cldrank.propensity.storage import load_estimate, parse_curve
from cldrank.wording import listed


class PropensityStep(Step):
    """Find out how likely each position is to be examined."""

    name = "propensities"
    sentence = "finds out how likely each position is to be examined"
    packages = ("numpy", "scipy", "duckdb", "torch")

    def packages_for(self, pipeline: PipelineDefinition) -> tuple[str, ...]:
        """DuckDB where the log is read again, torch where features are."""
        chosen = pipeline.propensities
        needs = "" if chosen.assume or chosen.file or chosen.method == "auto" else estimators()[chosen.method].needs
        unused = {"duckdb": needs != "log", "torch": needs != "features"}
        return tuple(name for name in self.packages if not unused.get(name))

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """Which curve, and the parameters of its estimator."""
        chosen = bench.pipeline.propensities
        own = {name: value for name, value in chosen.get_params().items() if name != "file"}
        return {**own, "options": {"seed": bench.pipeline.seed, **bench.pipeline.curve_options}}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The cells; a file that is named; the log or the features, where an estimator needs them."""
        chosen = bench.pipeline.propensities
        found = {"cells": bench.result_hash("aggregate", "cells.parquet")}
        if chosen.file:
            return {
                **found,
                "propensities file": bench.input_hash("propensities file", bench.pipeline.paths([chosen.file])),
            }
        needs = "cells" if chosen.assume or chosen.method == "auto" else estimators()[chosen.method].needs
        found |= {"features": bench.features_hash()} if needs == "features" else {}
        return found | ({"log": bench.log_hash()} if needs == "log" else {})

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write `rho.json`, and a chart of the curve or, of several segments, of all curves."""
        bench.say("estimating propensities")
        found, words, method = self._found(bench)
        found.save(folder / "rho.json")
        curves = _curves(found)
        save_chart(curves, folder / "rho.svg")
        deepest = max(map(len, curves.values()))
        if deepest < bench.clicks.depth:
            raise UsageError(
                f"the propensities reach down to position {deepest}, the clicks to {bench.clicks.depth}; window.depth "
                f"= {deepest} treats pages as if they ended there."
            )
        values = {name: [round(float(value), 4) for value in curve.values] for name, curve in curves.items()}
        shown = "; ".join(f"{name}: {_first_few(own)}" for name, own in values.items())
        return StepOutcome(f"{words}; {shown}", method, {"method": method, "values": values})

    def _found(self, bench: Workbench) -> tuple[Curve, str, str]:
        """The curve or, by segment, the curves; how they came about in words; and by which method."""
        chosen = bench.pipeline.propensities
        if chosen.assume:
            return parse_curve(chosen.assume, bench.clicks), f"{chosen.assume} is assumed", "assumed"
        if chosen.file:
            return load_estimate(bench.pipeline.path(chosen.file)), f"read from {chosen.file}", "file"
        try:
            return self._estimated(bench)
        except UnidentifiableError as error:
            raise DataError(
                "{} A curve that you take for granted goes on: propensities.assume = 'power:1.0', say.", str(error)
            ) from None

    @staticmethod
    def _estimated(bench: Workbench) -> tuple[Curve, str, str]:
        from cldrank.propensity import logged_probability

        chosen, table = bench.pipeline.propensities, bench.clicks
        options = {"seed": bench.pipeline.seed, **bench.pipeline.curve_options}
        named = ChosenMethod(chosen.method)
        if chosen.method == "auto":
            named = choose_method(table, options.get("depth"))
        words = f"by {named.name}{f', since {named.reason}' if named.reason else ''}"
        finish: dict[str, Any] = {"smooth": None if chosen.smooth == "no" else chosen.smooth, "clip": chosen.clip}
        estimator: Any = estimators()[named.name](**options).quiet()
        if chosen.segment:
            return fitted_segments(estimator, table, **finish), words, named.name
        if estimator.needs == "log":
            reading = reading_of(bench.pipeline, logged_probability)
            estimator = estimator.given_log(logged_probability(bench.log_paths(), table, **reading))
        return fitted_curve(estimator, table, bench.dataset, **finish), words, named.name


def _curves(found: Curve) -> dict[str, Propensities]:
    """What can be drawn: the curve, or that of each segment, by name."""
    if isinstance(found, SegmentPropensities):
        return dict(found)
    return {"examined": curve_of(found)}


def _first_few(values: Sequence[float]) -> str:
    return listed([f"{value:.3g}" for value in values[:3]]) + (" …" if len(values) > 3 else "")
