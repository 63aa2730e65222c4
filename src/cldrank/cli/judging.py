"""What `cldrank evaluate` and `cldrank compare` share: their options, and what they read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cldrank.cli import log_options, options
from cldrank.cli.learning_task import Sources
from cldrank.cli.option_names import dashed
from cldrank.cli.output import print_json, save_as_json, say
from cldrank.errors import CldrankWarning, UsageError, warn
from cldrank.files import recover_folder
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity.segment_propensities import Curve

PRODUCTION = "production"  # the order of the log itself
RANKER_HELP = (
    "A saved ranker (its folder), or a file of scores: Parquet or CSV as `cldrank score` writes it, text with one "
    "number per row, or .npy. With --clicks also `production`, the order of the log itself (a folder of that name is "
    "`./production`)."
)
BY_CLICKS = "By clicks"  # the panel of options that labels have no use for


@dataclass(frozen=True)
class Measuring:
    """What to measure and how, as the options say."""

    measure: Annotated[
        list[str] | None,
        options.spelled(
            "--measure -m MEASURE",
            "What to measure: nDCG@3, AP, RR, P@5, ERR@10, DCG@10, ARP; binary ones take a threshold, AP(rel=2). By "
            "clicks: DCG@5, nDCG@5, ARP, Clicks@5 (expected clicks per page), and the first decides. Repeat it, or "
            "separate by commas.",
        ),
    ] = None
    confidence: Annotated[float, options.spelled("--confidence", "The confidence level of the intervals.")] = 0.9
    skip_empty: Annotated[
        bool,
        options.spelled(
            "--skip-empty", "Leave out queries without a relevant document instead of counting 0; by labels only."
        ),
    ] = False
    seed: options.Seed = 0

    def by_labels(self) -> dict[str, Any]:
        """The arguments for `evaluate` and `compare`."""
        empty = "skip" if self.skip_empty else "zero"
        return {"measures": self.measure, "empty": empty, "confidence": self.confidence, "seed": self.seed}

    def by_clicks(self) -> dict[str, Any]:
        """The same, if clicks are given; measures that they cannot estimate are refused before anything is read."""
        from cldrank.evaluation.click_measures import parse_click_measures

        if self.skip_empty:
            raise UsageError("--skip-empty is for labels; leave it out, or leave --clicks out.")
        if self.measure:
            parse_click_measures(self.measure, sys.maxsize)
        return {"measures": self.measure, "confidence": self.confidence, "seed": self.seed}


@dataclass(frozen=True)
class ClickJudging:
    """How clicks judge, as the options say."""

    estimator: Annotated[
        str | None,
        options.spelled(
            "--estimator NAME",
            "How clicks become relevance: ips, clipped, affine, self-normalised, direct or "
            "doubly-robust. [default: doubly-robust]",
            rich_help_panel=BY_CLICKS,
            show_default=False,
        ),
    ] = None
    allow_trained: Annotated[
        bool,
        options.spelled(
            "--allow-trained",
            "Judge on queries that a ranker was trained on, too. Otherwise they are left out, since it knows them; a "
            "file of scores does not tell which they are.",
            rich_help_panel=BY_CLICKS,
        ),
    ] = False

    def arguments(self) -> dict[str, Any]:
        """As functions of `cldrank.evaluation` take them; those that are not given are left out."""
        from cldrank.evaluation.off_policy import off_policy

        if self.estimator is not None:
            off_policy(self.estimator)
        given = {"estimator": self.estimator, "allow_trained": self.allow_trained}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True)
class JudgedData:
    """What was read: the candidates, the rankers on them and, where they are named, the clicks and their curve."""

    dataset: RankingDataset
    rankers: tuple[Any, ...]
    clicks: ClickTable | None
    propensities: Curve | None

    @classmethod
    def read(
        cls, named: tuple[str, ...], sources: Sources, reading: options.Reading, log: log_options.LogReading
    ) -> JudgedData:
        """Read all that is named."""
        dataset, *rankers = _loaded(named, sources, reading)
        if not sources.clicks:
            return cls(dataset, tuple(rankers), None, None)
        table = sources.clicks_on(dataset, log)
        return cls(dataset, tuple(rankers), table, sources.curve_for(table))

    def evidence(self) -> dict[str, Any]:
        """The clicks and the curve, as `evaluate` and `compare` take them."""
        return {"clicks": self.clicks, "propensities": self.propensities}


def check_sources(named: tuple[str, ...], sources: Sources, log: log_options.LogReading, **only_clicks: Any) -> None:
    """Refuse what does not fit together before anything is read.

    only_clicks   options that labels have no use for, as they were given
    """
    if sources.clicks:
        if sources.propensity is None:
            raise UsageError(
                "to judge by clicks, name the propensities of positions as well: --propensity with a file that "
                "`cldrank propensity estimate` wrote, or power:1.0, say."
            )
        if named.count(PRODUCTION) > 1:
            raise UsageError("production would be compared with itself; name a ranker, or a file of scores.")
        return
    if PRODUCTION in named:
        folder = f" (the folder is ./{PRODUCTION})" if Path(PRODUCTION).exists() else ""
        raise UsageError(f"{PRODUCTION} is the order of a log; name the log with --clicks{folder}.")
    own = {name: getattr(sources, name) for name in ("propensity", "trust_propensity", "depth")}
    every = {**own, **vars(log), **only_clicks}
    given = [dashed(name) for name, value in every.items() if value is not None and value is not False]
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise UsageError(f"{listed(given)} {verb} of use with clicks alone; name these with --clicks.")


def warn_of_scores(named: tuple[str, ...], judging: ClickJudging) -> None:
    """Files of scores may come from rankers that were trained on the very clicks that judge them."""
    for name in dict.fromkeys(named):
        if name != PRODUCTION and Path(name).is_file() and not judging.allow_trained:
            warn(
                CldrankWarning(
                    f"{name} does not say which queries its ranker was trained on, so none is left out, and if it was "
                    "trained on these clicks, it looks better than it is. Name its folder instead; --allow-trained "
                    "accepts this."
                )
            )


def deliver(result: dict[str, Any], named: str | None) -> bool:
    """Give the result to programs, if `--json` asks for it; whether people should read it as well."""
    path = options.json_path(named)
    if path is not None:
        save_as_json(result, path)
        say(f"wrote {path}")
    elif named is not None:
        print_json(result)
    return named is None or path is not None


def _loaded(named: tuple[str, ...], sources: Sources, reading: options.Reading) -> tuple[Any, ...]:
    """The candidates, then what each name means: a ranker, which must know the features, scores in a file, or a log."""
    from cldrank.data.scores import load_scores
    from cldrank.propensity.curve_files import is_curve_file
    from cldrank.rankers import load_ranker

    paths = {name: Path(name) for name in named if name != PRODUCTION}
    rankers = {}
    for name, path in paths.items():
        recover_folder(path)
        if not path.exists():
            raise UsageError(
                f"{name} does not exist; name the folder of a ranker, as `cldrank train` writes it, a file of scores "
                f"or, with --clicks, {PRODUCTION}, the order of the log itself."
            )
        if path.is_dir():
            rankers[name] = load_ranker(path)
        elif is_curve_file(path):
            raise UsageError(f"{name} is a file of propensities, not a ranker; name it with --propensity.")
    dataset: RankingDataset | None = None
    for name, ranker in rankers.items():
        if dataset is None:
            dataset = options.load_for_ranker(ranker, paths[name], reading, sources.features)
        options.check_ranker_features(ranker, paths[name], dataset, sources.features)
    data = reading.load(sources.features) if dataset is None else dataset
    scores = {name: load_scores(path, data) for name, path in paths.items() if name not in rankers}
    known = {PRODUCTION: PRODUCTION, **rankers, **scores}
    return data, *(known[name] for name in named)
