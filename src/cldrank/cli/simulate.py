"""`cldrank simulate`."""

from __future__ import annotations

import warnings
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cldrank.cli import options
from cldrank.cli.commands import Option, argument, built, choice, declared, option, option_of, options_of
from cldrank.cli.option_names import dashed
from cldrank.cli.output import console, counting, print_json, print_title, say, working
from cldrank.cli.show import positions_of, print_positions
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.wording import some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cldrank.clicks.simulate import Simulation
    from cldrank.clicks.simulate.click_models import SimulationPart
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.parameters import Parameter

_PANELS = {"click_model": "Who clicks", "policy": "What is shown"}
_of_production = partial(option, panel="The production ranker")
_of_experiment = partial(option, panel="An experiment between two rankers")


@declared
class SimulateCommand(options.Reading, options.JsonOutput):
    """Simulate clicks on labelled candidates: a production ranker shows pages, people examine and click them.

    Each session draws a query, is shown the top results, examines position k with probability (1/k)^eta, clicks what
    is relevant and, with probability `--noise`, what is not. `--out` counts any number of sessions at once, exactly;
    `--log` saves each of them; with both, the cells are those of the log. The truth (all parameters, the
    propensities) is saved beside each file, as FILE.json.

    Example: `cldrank simulate train.txt --sessions 1e6 --eta 1 --depth 5 --noise 0.1 --out cells.parquet`
    """

    features: list[str] = argument(
        "FEATURES",
        "Labelled candidates: a Parquet, CSV or LETOR file, a folder or pattern of parts, or a known data set such as "
        "`mq2008:train`.",
    )
    sessions: float = option("COUNT", "How many pages are shown, such as 1e5.", 1e5)
    out: Path | None = option("-o FILE", "Save cells: counts by document and position, for training.")
    log: Path | None = option("FILE", "Save the raw log, a row per impression, session by session.")
    add_column: str | None = option(
        "COLUMN=VALUE", "With --log: add this column, such as device=phone; ids of sessions begin with the value."
    )
    depth: int = option("-k COUNT", "How many results a page shows.", 5, min=1)
    relevant_from: float | None = option(
        "LABEL", "The lowest label that counts as relevant. [default: 3 if any label reaches it, else 1]"
    )
    event: list[str] | None = option(
        "NAME=SHARE",
        "What follows this share of clicks on the best results, and fewer on others, such as `cart=0.3`; repeatable.",
    )
    seed: int = option("INTEGER", "The same seed gives the same result.", 0, min=0)
    production: str = _of_production(
        "svm|FOLDER|FILE|column:NAME",
        "`svm` trains a linear SVM-rank on a fraction of the labels; or the folder of a saved ranker, a file of "
        "scores, or a feature to rank by.",
        "svm",
    )
    fraction: float | None = _of_production(
        "NUMBER", "svm: the share of the labelled rows to train on. [default: 0.01]"
    )
    save_production: Path | None = _of_production("FOLDER", "svm: save the production ranker.")
    new: str | None = _of_experiment(
        "FOLDER|FILE|column:NAME", "The new ranker; the log is that of an experiment between it and production."
    )
    kind: Literal["interleaving", "ab"] = _of_experiment(
        "interleaving|ab",
        "Pages that both rankers make together, or people who see pages of one of them.",
        "interleaving",
    )
    people: int | None = _of_experiment("COUNT", "How many people search. [default: one for each page]", min=1)
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Draw sessions, and save cells, a log, or both."""
        from cldrank.clicks.simulate import Simulation
        from cldrank.clicks.simulate.simulation import whole_sessions
        from cldrank.clicks.simulate.truth import truth_path

        count = whole_sessions(self.sessions)
        outputs = [path for path in (self.out, self.log) if path is not None]
        if not outputs:
            raise UsageError("say where to write: --out FILE for cells, --log FILE for a raw log, or both.")
        segment = self._segment()
        ranked_by = [self.production] if Path(self.production).is_file() else []
        options.check_outputs([*outputs, *map(truth_path, outputs)], [*self.features, *ranked_by])
        if self.save_production is not None:
            options.check_ranker_folder(self.save_production)
        click_model, policy = (self._chosen(name) for name in _PANELS)
        self._check_production()
        dataset = self.load(self.features)
        if dataset.labels is None:
            raise DataError(f"{some(self.features)} has no labels; name their column with `columns={{'label': ...}}`.")
        is_svm = self.production == "svm"
        scores, origin = self._trained(dataset) if is_svm else options.ranked_by(self.production, dataset)
        events = options.numbers_by_name(self.event, "--event")
        simulation = Simulation(dataset, scores, click_model, policy, self.depth, self.relevant_from, origin, events)
        if self.new is None:
            self._show(simulation, self._drawn(simulation, count, segment), count)
            return
        scores, origin = options.ranked_by(self.new, dataset)
        self._show(simulation, self._tested(simulation, scores, count), count, origin)

    def _segment(self) -> tuple[str, str] | None:
        """The column that names the segment of a log, and the segment."""
        if self.add_column is None:
            return None
        column, _, value = self.add_column.partition("=")
        if not column or not value:
            raise UsageError(f"--add-column {self.add_column} is not of the form COLUMN=VALUE, such as device=phone.")
        if self.log is None or self.out is not None:
            raise UsageError(
                f"--add-column {self.add_column} is a column of a raw log; write one with --log, and make cells of it "
                f"with `cldrank clicks aggregate --log-column segment={column}`."
            )
        return column, value

    def _tested(self, simulation: Simulation, new: NDArray[Any], count: int) -> ClickTable:
        """Save the log of an experiment, and count its cells."""
        from cldrank.clicks.table import ClickTable
        from cldrank.online import SimulatedTest

        log: Any = self.log
        test = SimulatedTest(simulation, new, self.kind, self.people)
        with counting("sessions", count) as report:
            test.save(log, count, seed=self.seed, progress=report)
        with warnings.catch_warnings(action="ignore", category=CldrankWarning):  # who asks for it knows what it mixes
            cells = ClickTable.read(log, simulation.dataset)
        if self.out is not None:
            cells.save(self.out)
        return cells

    def _drawn(self, simulation: Simulation, count: int, segment: tuple[str, str] | None) -> ClickTable:
        """Draw the sessions, and save the log or the cells."""
        with counting("sessions", count, shown=self.log is not None or not simulation.counts_all) as report:
            drawing: dict[str, Any] = {"seed": self.seed, "progress": report}
            if self.log is None:
                cells = simulation.draw(count, **drawing)
            else:
                cells = simulation.save_log(self.log, count, segment=segment, **drawing)
        if self.out is not None:
            cells.save(self.out)
        return cells

    def _show(self, simulation: Simulation, cells: ClickTable, count: int, new: dict[str, Any] | None = None) -> None:
        """Save the truth beside what was written, and print both."""
        from cldrank.clicks.simulate.truth import save_truth, truth_of

        truth = truth_of(simulation, count, self.seed, by_session=self.log is not None)
        if new is not None:
            truth["experiment"] = {"kind": self.kind, "people": self.people, "new": new}
        written = {name: path for name, path in (("log", self.log), ("out", self.out)) if path is not None}
        truths = {name: save_truth(truth, path) for name, path in written.items()}
        by_position = positions_of(cells)
        if self.as_json:
            files = {name: str(path) for name, path in written.items()}
            files |= {f"{name}_truth": str(path) for name, path in truths.items() if path is not None}
            print_json({**files, "cells": cells.n_cells, "by_position": by_position, "truth": truth})
            return
        data, relevance = truth["data"], truth["relevance"]
        synthetic = " (synthetic)" if data["synthetic"] else ""
        print_title(
            f"{count:,} sessions on {data['name'] or 'unnamed data'}{synthetic}, {data['queries']:,} queries; "
            f"relevant: label {relevance['relevant_from']:g} or more"
        )
        print_positions("", by_position)
        for name, path in written.items():
            beside = f", and the truth about it in {truths[name]}" if truths[name] else ""
            console.print(f"wrote {path}{beside}", markup=False)

    def _chosen(self, name: str) -> Any:
        """The chosen click model or policy, with the given parameters."""
        kinds, known = _parts()[name], _choice(name)
        word = self.settings.get(name)
        kind = known.default if word is None else known.parse(word)
        return built(kinds, kind, self.settings, said=f"{dashed(name)} {kind}")

    def _check_production(self) -> None:
        """Refuse options that contradict each other, before any file is read."""
        if self.new is not None and (self.log is None or self.add_column is not None):
            raise UsageError(f"--new {self.new} makes a raw log; write it with --log, without --add-column.")
        if self.new is None and self.people is not None:
            raise UsageError(f"--people {self.people} take part in an experiment; say with --new which ranker is new.")
        for name in ("fraction", "save_production"):
            if self.production != "svm" and getattr(self, name) is not None:
                raise UsageError(f"{dashed(name)} is for --production svm; {self.production} is used as it is.")
        if not self.production.startswith(("svm", "column:")) and not Path(self.production).exists():
            raise UsageError(
                f"--production {self.production}: there is no such ranker folder or score file; "
                "say svm, column:NAME, a folder or a file."
            )

    def _trained(self, dataset: RankingDataset) -> tuple[NDArray[Any], dict[str, Any]]:
        """The scores of an SVM-rank trained on a fraction of the labels, and a record of its training."""
        from cldrank.methods.svm_rank import SVMRank
        from cldrank.models import Run

        chosen: dict[str, Any] = {} if self.fraction is None else {"fraction": self.fraction}
        with working("training the production ranker …"):
            method = SVMRank(run=Run(seed=self.seed), **chosen).fit(dataset)
        if self.save_production is not None:
            method.ranker_.save(self.save_production)
            say(f"the production ranker: {self.save_production}")
        origin = {"kind": "svm", "rows": method.n_rows_, "pairs": method.n_pairs_}
        return method.predict(dataset), {**origin, **method.ranker_.provenance.parameters}


# -- click models and policies -------------------------------------------------------------------------------------


def _parts() -> dict[str, dict[str, type[SimulationPart]]]:
    """Click models and policies by name, each behind the option that chooses it."""
    from cldrank.clicks.simulate.click_models import MODELS
    from cldrank.clicks.simulate.policies import POLICIES

    return {"click_model": {kind.name: kind for kind in MODELS}, "policy": {kind.name: kind for kind in POLICIES}}


def _choice(name: str) -> Parameter:
    kinds = _parts()[name]
    return choice(name, {word: kind.about for word, kind in kinds.items()}, default=next(iter(kinds)))


def derived_options() -> list[Option]:
    """--click-model and --policy, with an option for each of their parameters."""
    every = []
    for name, kinds in _parts().items():
        panel = _PANELS[name]
        every += [option_of(_choice(name), panel, metavar="NAME"), *options_of(kinds, panel)]
    return every
