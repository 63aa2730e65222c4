"""`cldrank evaluate` and `cldrank compare`: rankers judged by labels, or by clicks alone."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.option_names import dashed
from cldrank.cli.output import console, print_json, print_line, say, working
from cldrank.errors import CldrankWarning, UsageError, warn
from cldrank.files import recover_folder, save_text

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.evaluation import ClickComparison, SeveralComparisons

PRODUCTION = "production"  # the order of the log itself
EXIT_CODES = {"better": 0, "worse": 3, "no difference": 4, "cannot tell": 5}  # of a verdict, for gates
_RANKER = (
    "A saved ranker (its folder), or a file of scores: Parquet or CSV as `cldrank score` writes it, or text with "
    "a number per row. With --clicks also `production`, the order of the log itself (a folder of that name is "
    "`./production`)."
)
_by_clicks = partial(option, panel="By clicks")


@declared
class Judging(options.Sources, options.JsonOutput):
    """What `evaluate` and `compare` share."""

    measure: list[str] | None = option(
        "-m MEASURE",
        "What to measure: nDCG@3, AP, RR, P@5, ERR@10, DCG@10; binary measures take a threshold, AP(rel=2). By clicks: "
        "DCG@5, Clicks@5 (expected clicks per page), and the first decides. Repeat it, or separate by commas.",
    )
    confidence: float = option("NUMBER", "The confidence level of the intervals.", 0.9)
    skip_empty: bool = option(
        "", "Leave out queries without a relevant document instead of counting 0; by labels only.", False
    )
    seed: int = option("INTEGER", "The same seed gives the same result.", 0, min=0)
    estimator: Literal["doubly-robust", "affine"] | None = _by_clicks(
        "doubly-robust|affine",
        "Never-shown results count as a model predicts, or as anything from 0 to 1. [default: doubly-robust]",
    )

    def check(self, named: tuple[str, ...], outputs: list[Path | None], **only_clicks: Any) -> None:
        """Refuse options that contradict each other, before anything is read.

        only_clicks   further options that labels have no use for, as they were given
        """
        self._check_evidence(named, only_clicks)
        places: set[object] = set()
        for name in named:
            place = name if name == PRODUCTION else Path(name).resolve()
            if place in places:
                raise UsageError(f"{name} would be compared with itself; name another ranker, or a file of scores.")
            places.add(place)
        for name in named:
            for output in outputs if name != PRODUCTION else ():
                options.check_outside(output, Path(name))
        rankers = [name for name in named if name != PRODUCTION]
        options.check_outputs(outputs, [*self.features, *(self.clicks or ()), *options.named(self.ratings), *rankers])

    def _check_evidence(self, named: tuple[str, ...], only_clicks: dict[str, Any]) -> None:
        if self.clicks and self.propensity is None:
            raise UsageError(
                "to judge by clicks, name the propensities of positions as well: --propensity with a file that "
                "`cldrank propensity estimate` wrote, or power:1.0, say."
            )
        if self.clicks:
            return
        if PRODUCTION in named:
            raise UsageError(
                f"{PRODUCTION} is the order of a log (a folder: ./{PRODUCTION}); name the log with --clicks."
            )
        reading = ("propensity", "trust_propensity", "depth", "log_column", "event_weight", "last", "until")
        names = (*reading, "ratings", "person", "rating_column", "estimator")
        every = {**{name: getattr(self, name) for name in names}, **only_clicks}
        for name, value in every.items():
            if value is not None and value is not False:
                raise UsageError(f"{dashed(name)} is of use with clicks alone; name the clicks with --clicks.")

    def arguments(self) -> dict[str, Any]:
        """The arguments for `cldrank.evaluation`; measures that clicks cannot estimate are refused."""
        from cldrank.evaluation.click_measures import parse_click_measures

        given: dict[str, Any] = {"measures": self.measure, "confidence": self.confidence, "seed": self.seed}
        if not self.clicks:
            return {**given, "empty": "skip" if self.skip_empty else "zero"}
        if self.skip_empty:
            raise UsageError("--skip-empty is for labels; leave it out, or leave --clicks out.")
        if self.measure:
            parse_click_measures(self.measure, sys.maxsize)
        return {**given, "estimator": self.estimator}

    def read(self, named: tuple[str, ...]) -> tuple[RankingDataset, list[Any], dict[str, Any]]:
        """The candidates, the rankers on them and, if clicks are named, their evidence."""
        dataset, rankers = self._rankers(named)
        if not self.clicks:
            return dataset, rankers, {}
        table = self.clicks_on(dataset)
        evidence = {"clicks": table, "propensities": self.curve_for(table)}
        is_known = any(getattr(ranker, "trained_on", None) is not None for ranker in rankers)
        for name in named:
            if name != PRODUCTION and Path(name).is_file():
                out = "only those of the other rankers are" if is_known else "none is"
                says = f"{name} does not say which queries its ranker was trained on, so {out} left out"
                warn(CldrankWarning(f"{says}; name the ranker's folder instead, unless it saw none of them."))
        return dataset, rankers, evidence

    def _rankers(self, named: tuple[str, ...]) -> tuple[RankingDataset, list[Any]]:
        """The candidates, and for each name a ranker that fits their features, scores, or the log's own order."""
        from cldrank.data.scores import load_scores
        from cldrank.rankers import load_ranker

        paths = {name: Path(name) for name in named if name != PRODUCTION}
        rankers = {}
        for name, path in paths.items():
            recover_folder(path)
            if not path.exists():
                raise UsageError(
                    f"{name}: no such file or folder; name the folder of a ranker, as `cldrank train` writes it, "
                    f"a file of scores or, with --clicks, {PRODUCTION}, the order of the log itself."
                )
            if path.is_dir():
                rankers[name] = load_ranker(path)
        if rankers:
            first = next(iter(rankers))
            data = self.load_for_ranker(rankers[first], paths[first], self.features)
        else:
            data = self.load(self.features)
        for name, ranker in rankers.items():
            options.check_ranker_features(ranker, paths[name], data, self.features)
        scores = {name: load_scores(path, data) for name, path in paths.items() if name not in rankers}
        known = {PRODUCTION: PRODUCTION, **rankers, **scores}
        return data, [known[name] for name in named]


@declared
class EvaluateCommand(Judging):
    """Measure how well a ranker orders candidates, with intervals over queries: by labels, or by clicks alone.

    Example: `cldrank evaluate ranker/ --features test.txt -m nDCG@3,AP`

    With `--clicks LOG --propensity FILE`, no labels are needed, and the result says how much the log can see: the share
    of the ranker's top that was ever shown, and what the rest may be worth. Queries that the ranker was trained on are
    left out; see `train --hold-out`.

    Example: `cldrank evaluate ranker/ --features later.parquet --clicks log/ --propensity rho.json`
    """

    ranker: str = argument("RANKER", _RANKER)
    record: bool = option(
        "", "Add the result to the ranker's folder: its description and its model card; by labels only.", False
    )

    def run(self) -> None:
        """Print the measures."""
        from cldrank.documents import render_terminal
        from cldrank.evaluation import evaluate
        from cldrank.rankers import record_evaluation

        self.check((self.ranker,), [])
        if self.clicks and self.record:
            raise UsageError("--record is for labels; leave it out.")
        if self.record:
            self._check_recordable()
        arguments = self.arguments()
        dataset, (ranker,), evidence = self.read((self.ranker,))
        with working("judging by clicks …" if evidence else "measuring …"):
            result: Any = evaluate(ranker, dataset, name=self.ranker, **evidence, **arguments)
        if self.record:
            record_evaluation(ranker, result, self.ranker)
        if self.as_json:
            print_json(result.as_dict())
            return
        render_terminal(result.document(), console)
        if self.record:
            say(f"recorded in {Path(self.ranker) / 'README.md'}")

    def _check_recordable(self) -> None:
        """Refuse a place where the result cannot be recorded, before anything is read."""
        from cldrank.rankers import check_replaceable

        path = Path(self.ranker)
        if path.is_file():
            raise UsageError(f"--record is for rankers; {path} is a file of scores.")
        options.check_folder(path)
        check_replaceable(path)


@declared
class CompareCommand(Judging):
    """Compare rankers: by labels, query by query, or by clicks alone, with a verdict.

    Example: `cldrank compare new/ old/ --features test.txt`

    With `--clicks LOG --propensity FILE`, no labels are needed: is the new ranker better than the old, or than
    `production`, the order of the log? The answer is *better*, *worse*, *no difference larger than the margin* or
    *cannot tell*, with all that it rests on, and what would settle it. After everything is written, it exits with code
    0 if the new ranker is better, 3 if it is worse, 4 if there is no difference, 5 if it cannot tell; by labels
    always with 0.

    Example: `cldrank compare new/ production --features later.parquet --clicks log/ --propensity rho.json --html
    verdict.html`

    Of more than two rankers, each is compared with the last, with intervals that hold all differences at once; the exit
    code is the verdict on the ranker to try first.

    Example: `cldrank compare trees/ linear/ production --features later.parquet --clicks log/ --propensity rho.json`
    """

    rankers: list[str] = argument(
        "RANKER", f"{_RANKER} Name one or more new rankers, and last the one to compare them with."
    )
    margin: float | None = _by_clicks(
        "DIFFERENCE",
        "The smallest difference that matters, in the units of the first measure, not in percent. [default: 1% of the "
        "old value]",
    )
    html: Path | None = _by_clicks("FILE", "Write the verdict as a page that needs no other files.")

    def run(self) -> None:
        """Print the comparison; by clicks, the exit code is the verdict."""
        from cldrank.arguments import check_number
        from cldrank.documents import render_terminal
        from cldrank.evaluation import compare

        named = tuple(self.rankers)
        if len(named) < 2:
            raise UsageError(f"{named[0]} would be compared with nothing; name another ranker, or a file of scores.")
        self.check(named, [self.html], margin=self.margin, html=self.html)
        arguments = self.arguments()
        if self.margin is not None:
            arguments["margin"] = check_number("margin", self.margin, least=0)
        dataset, (*models, old), evidence = self.read(named)
        new: Any = models[0] if len(models) == 1 else dict(zip(named, models, strict=False))
        arguments["names"] = (named[0], named[-1])
        if evidence:
            with working("judging by clicks …"):
                result: Any = compare(
                    new, old, dataset, **evidence, **arguments, trust_propensity=self.trust_propensity
                )
            self._print_verdict(result)
            return
        result = compare(new, old, dataset, **arguments)
        if self.as_json:
            print_json(result.as_dict())
        else:
            render_terminal(result.document(), console)

    def _print_verdict(self, result: ClickComparison | SeveralComparisons) -> None:
        """Print the verdict with all that it rests on, and once more in the last line, where people look."""
        from cldrank.evaluation import SeveralComparisons

        pair: Any = next(iter(result.values())) if isinstance(result, SeveralComparisons) else result
        verdict = result if isinstance(result, SeveralComparisons) else result.verdict
        measure, margin, whole = pair.first.measure, pair.verdict.margin, pair.first.old.interval.estimate
        if margin > abs(whole):
            itself = f"--margin {margin:.4g} is more than the {measure} of {pair.old} itself, {whole:.4g}"
            warn(CldrankWarning(f"{itself}; it is a difference in {measure}, not in percent."))
        tell_verdict(result, verdict, html=self.html, as_json=self.as_json)


def tell_verdict(result: Any, verdict: Any, *, html: Path | None, as_json: bool) -> None:
    """Print a result, its verdict once more in the last line, where people look; the exit code says it, too."""
    from cldrank.documents import render_terminal

    if html:
        save_text(html, result.to_html())
        say(f"wrote {html}")
    if as_json:
        print_json(result.as_dict())
    else:
        render_terminal(result.document(), console)
        print_line(f"Verdict: {verdict.words}")
    if code := EXIT_CODES[verdict.decision]:
        raise click.exceptions.Exit(code)
