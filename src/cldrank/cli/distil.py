"""`cldrank distil`."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cldrank.cli import options
from cldrank.cli.commands import Option, argument, declared, option, option_of, parsed
from cldrank.cli.option_names import as_options
from cldrank.cli.output import counting, print_json, print_line, working
from cldrank.cli.train import INTERRUPTED, command_words, warnings_at_the_end
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.models import Epoch
    from cldrank.parameters import Parameter
    from cldrank.rankers import Ranker


@declared
class DistilCommand(options.Sources, options.JsonOutput):
    """Fit boosted trees to the scores of a ranker, such as a network, so that any engine can rank as it does.

    Example: `cldrank distil network/ --features all.parquet --out trees/`

    Several rankers are an ensemble, whose mean score is learned. Neither labels nor clicks are needed: name the
    features of as many queries as there are. Queries held out say how alike the trees rank.

    With `--clicks` and `--propensity`, clicks compare the trees with their teacher, on queries that it was not trained
    on.
    """

    rankers: list[str] = argument("RANKER", "The folders of one or more saved rankers, the teacher.")
    into: Literal["trees"] = option("trees", "What to fit.", "trees")
    out: Path = option("-o FOLDER", "Where to save the trees.", ...)
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Read, fit, save, and print."""
        from cldrank.distillation import STUDENT, distil
        from cldrank.models import Run
        from cldrank.parameters import parameters
        from cldrank.rankers import check_replaceable

        self._check()
        options.check_ranker_folder(self.out)
        check_replaceable(self.out)
        model = replace(STUDENT, **parsed(parameters(type(STUDENT)), self.settings))
        run = Run(**parsed(parameters(Run), self.settings))
        model.check_installed()
        data, teachers = self._read()
        with warnings_at_the_end() as heard, counting("training", model.rounds, shown=not self.as_json) as tell:

            def report(epoch: Epoch) -> None:
                held = "" if epoch.held_loss is None else f", held-out loss {epoch.held_loss:.4f}"
                tell(epoch.number, f"loss {epoch.loss:.4f}{held}")

            ranker = distil(teachers, data, model=model, run=replace(run, on_epoch=report))
        said = [as_options(str(warning)) for warning in heard]
        ranker = ranker.with_provenance(ranker.provenance.documented(said, command=command_words()))
        ranker.save(self.out)
        known: Any = ranker.provenance
        if not self.as_json:
            print_line(f"{ranker!r}\n{known.distilled}\nsaved in {self.out}")
        verdict = self._judged(ranker, teachers, data)
        if self.as_json:
            facts = {"distilled": known.distilled.as_dict(), "diagnostics": known.diagnostics.as_dict()}
            print_json({"ranker": str(self.out), **facts, "verdict": verdict})
        elif verdict:
            print_line(f"by clicks, against the teacher: {verdict}")
        if known.diagnostics.status == "interrupted":
            raise click.exceptions.Exit(INTERRUPTED)

    def _check(self) -> None:
        """Refuse clicks without propensities, the other way round, and an output that is an input."""
        if bool(self.clicks) != (self.propensity is not None):
            given, missing = ("--clicks", "--propensity") if self.clicks else ("--propensity", "--clicks")
            raise UsageError(f"{given} compares the trees with their teacher; say {missing}, too.")
        for name in self.rankers:
            options.check_outside(self.out, Path(name))

    def _read(self) -> tuple[RankingDataset, list[Ranker]]:
        """The candidates, and the rankers, which must know their features."""
        from cldrank.rankers import load_ranker

        teachers = {name: load_ranker(name) for name in self.rankers}
        first = self.rankers[0]
        data = self.load_for_ranker(teachers[first], Path(first), self.features)
        for name, ranker in teachers.items():
            options.check_ranker_features(ranker, Path(name), data, self.features)
        return data, list(teachers.values())

    def _judged(self, ranker: Ranker, teachers: list[Ranker], data: RankingDataset) -> str | None:
        """What clicks say of the trees against their teacher; None without clicks."""
        from cldrank.distillation import teacher_scores
        from cldrank.evaluation import compare

        if not self.clicks:
            return None
        table: Any = self.clicks_on(data)
        curve: Any = self.curve_for(table)
        with working("judging by clicks …"):
            taught = teacher_scores(teachers, data)
            names = ("the trees", "the teacher")
            words: str = compare(ranker, taught, data, clicks=table, propensities=curve, names=names).verdict.words
        return words


def derived_options() -> list[Option]:
    """The options of the trees, with the defaults that suit distillation, and those of the run."""
    from cldrank.distillation import STUDENT
    from cldrank.models import Run
    from cldrank.parameters import parameters

    offered: list[tuple[Parameter, str]] = []
    for name, known in parameters(type(STUDENT)).items():
        offered.append((replace(known, default=getattr(STUDENT, name)), "Model: trees"))
    offered += [(known, "Run") for known in parameters(Run).values()]
    return [option_of(known, panel) for known, panel in offered if known.option]
