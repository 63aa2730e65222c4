"""`cldrank distil`."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cldrank.cli import options
from cldrank.cli.commands import Option, argument, declared, option, option_of, parsed
from cldrank.cli.option_names import as_options
from cldrank.cli.output import counting, print_json, print_line
from cldrank.cli.train import INTERRUPTED, check_places, command_words, place_of, warnings_at_the_end

if TYPE_CHECKING:
    from cldrank.models import Epoch


@declared
class DistilCommand(options.Reading, options.JsonOutput):
    """Fit boosted trees to the scores of a ranker, such as a network, so that any engine can rank as it does.

    Example: `cldrank distil network/ --into trees --features all.parquet --out trees/`

    Several rankers are an ensemble, whose mean score is learned. Neither labels nor clicks are needed: name the
    features of as many queries as there are. Queries held out say how alike the trees rank; what is lost by clicks or
    labels, `cldrank compare trees/ network/` says.
    """

    rankers: list[str] = argument("RANKER", "The folders of one or more saved rankers, the teacher.")
    into: Literal["trees"] = option("MODEL", "What is fitted to the scores: trees.", "trees")
    features: list[str] = option("-f FILE", f"{options.CANDIDATES} Repeat it for several.", ...)
    out: Path = option("-o FOLDER", "Where to save the trees.", ...)
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Read, fit, save, and print."""
        from cldrank.distillation import STUDENT, distil
        from cldrank.models import Run
        from cldrank.parameters import parameters
        from cldrank.rankers import load_ranker

        for name in self.rankers:
            options.check_outside(self.out, Path(name))
        check_places(self.out)
        model = replace(STUDENT, **parsed(parameters(type(STUDENT)), self.settings))
        run = Run(**parsed(parameters(Run), self.settings))
        teachers = {name: load_ranker(name) for name in self.rankers}
        data = self.load_for_ranker(teachers[self.rankers[0]], Path(self.rankers[0]), self.features)
        for name, teacher in teachers.items():
            options.check_ranker_features(teacher, Path(name), data, self.features)
        with warnings_at_the_end() as heard, counting("training", model.rounds, shown=not self.as_json) as tell:

            def report(epoch: Epoch) -> None:
                tell(epoch.number, f"loss {epoch.loss:.4f}")

            ranker = distil(list(teachers.values()), data, model=model, run=replace(run, on_epoch=report))
        said = [as_options(str(warning)) for warning in heard]
        origin: Any = ranker.provenance.documented(said, command=command_words())
        was_stopped = origin.diagnostics.status == "interrupted"
        place = place_of(self.out, was_stopped)
        ranker.with_provenance(origin).save(place)
        if self.as_json:
            facts = {"distilled": origin.distilled.as_dict(), "diagnostics": origin.diagnostics.as_dict()}
            print_json({"ranker": str(place), **facts})
        else:
            print_line(f"{ranker!r}\n{origin.distilled}\nsaved in {place}")
        if was_stopped:
            raise click.exceptions.Exit(INTERRUPTED)


def derived_options() -> list[Option]:
    """The options of the trees, with the defaults that suit distillation, and those of the run."""
    from cldrank.distillation import STUDENT
    from cldrank.models import Run
    from cldrank.parameters import parameters

    trees = [replace(own, default=getattr(STUDENT, name)) for name, own in parameters(type(STUDENT)).items()]
    offered = {"Model: trees": trees, "Run": parameters(Run).values()}
    return [option_of(own, panel) for panel, known in offered.items() for own in known if own.option]
