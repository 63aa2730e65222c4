"""`cldrank demo`: the whole story on synthetic data, from biased clicks to a report."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cldrank.cli import options
from cldrank.cli.output import console, print_json, print_wide, working
from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.files import make_folder, replacing

if TYPE_CHECKING:
    from cldrank.clicks.audit import Audit
    from cldrank.clicks.simulate import Simulation
    from cldrank.data.dataset import RankingDataset
    from cldrank.experiment.results import Summary
    from cldrank.propensity import Propensities

_KIND = "web10k-like"
_ETA, _CUTOFF, _NOISE, _SESSIONS, _LOGGED = 1.0, 10, 0.1, 100_000, 10_000
# The share of labels that the production ranker has learned from. It is chosen small, so that both biases show: a
# better one leaves little to win, as Naive inherits its order; the demo's last lines invite to see that.
_FRACTION = 0.002
_MEASURES = ("nDCG@1", "nDCG@3", "AP")
_FILES = (
    "train.parquet",
    "test.parquet",
    "log.parquet",
    "audit.html",
    "clicks1.parquet",
    "clicks2.parquet",
    "rho.json",
)
_WITH_NETWORKS = {
    "Naive": {},
    "IPS": {},
    "Heckman^rank": {"use": "heckman"},
    "RankAgg": {},
    "CLD": {},
    "CLD-pair": {},
    "Oracle": {},
}  # as in the paper's table 1
_LINEAR = {
    "Naive": {"use": "cldrank.estimators:Naive"},
    "IPS": {"use": "cldrank.estimators:IPS"},
    "Heckman^rank": {"use": "heckman"},
    "CLD": {},
    "Oracle": {"use": "cldrank.estimators:Oracle"},
}


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to leave data, logs, results and report.")
    ] = Path("demo"),
    queries: Annotated[
        int,
        typer.Option(
            "--queries", "-n", min=100, max=100_000, help="How many queries to train on; half as many to test on."
        ),
    ] = 1000,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=10_000, help="How often to simulate and train.")] = 3,
    linear: Annotated[
        bool, typer.Option("--linear", help="Only linear methods: quicker, and without PyTorch.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """The whole story in three minutes: data, biased clicks, propensities, seven ways to learn, a report.

    All data are synthetic. Every step shows the commands that do the same. A demo that was stopped goes on where it
    was when it is called again.
    """
    _check_installed(linear)
    options.check_folder(out)
    make_folder(out)
    _check_place(out)
    story = Story(out, quiet=as_json)
    train = _make_data(story, queries)
    audit = _show_clicks(story, train)
    eta = _estimate(story, train)
    found = _run(story, eta, seeds, linear)
    page = _report(story, found)
    if as_json:
        print_json(
            {
                "out": str(out),
                "audit": audit.verdict.sentence,
                "eta": eta._asdict(),
                "results": [one.as_dict() for one in found],
                "report": str(page),
            }
        )


class Story:
    """What is told meanwhile, step by step; nothing, if machines listen."""

    def __init__(self, out: Path, quiet: bool) -> None:
        self.out, self.quiet, self.steps = out, quiet, 0

    def step(self, title: str, why: str, *commands: str) -> None:
        """The next step: what happens, why it matters, the commands that do the same."""
        self.steps += 1
        self.tell(f"{self.steps}. {title}", style="bold", above=self.steps > 1)
        self.tell(why, indent=3)
        self.commands(*commands)

    def commands(self, *commands: str) -> None:
        """Commands that can be called like this."""
        for command in commands:
            self.line(f"   $ cldrank {command}", style="dim")

    def found(self, text: str) -> None:
        """What came out."""
        self.tell(f"→ {text}", style="green", indent=3)

    def line(self, text: str, style: str) -> None:
        """A line to be copied: it stays whole, however narrow the terminal."""
        if not self.quiet:
            console.print(text, style=style, markup=False, soft_wrap=True)

    def tell(self, text: str, *, style: str = "", indent: int = 0, above: bool = False) -> None:
        """A text that wraps where the terminal ends, with a free line above or without."""
        from rich.padding import Padding
        from rich.text import Text

        if not self.quiet:
            console.print(Padding(Text(text, style=style), (int(above), 0, 0, indent), expand=False))


def _check_installed(linear: bool) -> None:
    """Say what is missing before anything is computed."""
    from importlib.util import find_spec

    if not linear and find_spec("torch") is None:
        raise MissingDependencyError(
            "four of the seven methods are neural and need PyTorch: pip install 'cldrank[neural]', or see the linear "
            "ones alone: cldrank demo --linear."
        )


def _check_place(out: Path) -> None:
    """Refuse to write over files that are somebody's own, under the names that the demo uses."""
    taken = [name for name in _FILES if (out / name).exists()]
    if taken and not (out / "demo.toml").is_file() and not _is_made(out / "train.parquet"):
        raise UsageError(
            f"{out} holds {taken[0]}, which no demo has left there, and it would be written over; name another folder "
            "with --out."
        )


def _is_made(path: Path) -> bool:
    """Whether a file holds a synthetic dataset, as a demo that was stopped leaves it."""
    from cldrank.data import load

    try:
        return load(path).synthetic
    except (CldrankError, OSError):
        return False


# -- the steps ---------------------------------------------------------------------------------------------------


def _make_data(story: Story, queries: int) -> RankingDataset:
    from cldrank.data import synthetic

    out, tests = story.out, queries // 2
    story.step(
        "Data: queries and their candidates, with features and expert labels",
        "Synthetic, in the shape of WEB10K. Labels serve the simulation, Oracle and the measuring.",
        f"data make {_KIND} -n {queries} --seed 0 -o {out}/train.parquet",
        f"data make {_KIND} -n {tests} --seed 1 -o {out}/test.parquet",
    )
    with working("making data …"):
        train, test = synthetic.make(_KIND, queries, 0), synthetic.make(_KIND, tests, 1)
        for part, dataset in (("train", train), ("test", test)):
            dataset.to_parquet(out / f"{part}.parquet")
    story.found(f"{train.n_queries:,} queries with {train.n_rows:,} candidates to train on, {tests:,} to test on")
    return train


def _show_clicks(story: Story, train: RankingDataset) -> Audit:
    import numpy as np

    from cldrank.clicks.audit import audit

    out = story.out
    story.step(
        f"Clicks: a production ranker shows its top {_CUTOFF}, people click",
        f"It learned from {_FRACTION:.1%} of the labels. People look at position k with probability 1/k, click what is "
        f"relevant, and {_NOISE:.0%} of what is not.",
        f"{_simulate(out, _LOGGED, 0)} --log {out}/log.parquet",
        f"clicks audit {out}/log.parquet -f {out}/train.parquet --html {out}/audit.html",
    )
    with working("simulating a log, auditing it …"):
        simulation = _simulation(train, seed=0)
        simulation.save_log(out / "log.parquet", _LOGGED, seed=0)
        found = audit(str(out / "log.parquet"), train).said("shell")
        with replacing(out / "audit.html") as temporary:
            temporary.write_text(found.to_html(), encoding="utf-8")
    top, last = found.facts.curve[0], found.facts.curve[-1]
    relevant, shown = simulation.relevant, np.zeros(train.n_rows, bool)
    shown[simulation.showable] = True
    story.found(
        f"position bias: {top.rate:.1%} of the first results are clicked, {last.rate:.1%} of those at position "
        f"{last.position}"
    )
    story.found(
        f"selection bias: {1 - shown.mean():.0%} of all candidates are never shown, with "
        f"{(relevant & ~shown).sum() / relevant.sum():.0%} of the relevant ones"
    )
    story.found(f"audit: {found.verdict.sentence}")
    return found


class Eta(NamedTuple):
    """The severity of position bias that the methods are told: estimated from clicks, with its 90% interval."""

    value: float
    low: float
    high: float


def _estimate(story: Story, train: RankingDataset) -> Eta:
    from cldrank.propensity import AllPairs
    from cldrank.propensity.smoothing import power_law

    out = story.out
    logs = [f"{_simulate(out, _SESSIONS, seed)} -o {out}/clicks{seed + 1}.parquet" for seed in (0, 1)]
    cells = f"{out}/clicks1.parquet {out}/clicks2.parquet"
    story.step(
        "Propensities: how likely is each position looked at?",
        "One ranker alone cannot tell. Two that take turns show some results at two positions, and those tell.",
        *logs,
        f"propensity estimate {cells} --smooth power -o {out}/rho.json",
    )
    with working("estimating propensities …"):
        first, second = (_simulation(train, seed).draw(_SESSIONS, seed=seed) for seed in (0, 1))
        first.save(out / "clicks1.parquet")
        second.save(out / "clicks2.parquet")
        rho = power_law(AllPairs().fit(first.merge(second)))
        rho.save(out / "rho.json")
    eta = _exponent(rho)
    story.found(
        f"(1/k)^η with η = {eta.value:.3f} ({eta.low:.3f} to {eta.high:.3f}); the truth is {_ETA:g}. "
        "The methods below get the estimate."
    )
    return eta


def _run(story: Story, eta: Eta, seeds: int, linear: bool) -> list[Summary]:
    from cldrank.cli.experiment_running import carry_out, prepare
    from cldrank.experiment import results
    from cldrank.experiment.definition import read

    methods = _LINEAR if linear else _WITH_NETWORKS
    file, folder = story.out / "demo.toml", story.out / "experiment"
    story.step(
        f"Learning: {len(methods)} methods from the same clicks, with {seeds} seed{'s' if seeds > 1 else ''}",
        "Naive takes clicks for relevance. IPS mends position bias, Heckman^rank selection bias"
        f"{'' if linear else ', RankAgg joins their votes'}; CLD{'' if linear else ' and CLD-pair'} mend"
        f"{'s' if linear else ''} both at once. Oracle sees all labels: the ceiling.",
        f"experiment run {file} --out {folder}",
    )
    with replacing(file) as temporary:
        temporary.write_text(_definition(story.out, eta, seeds, methods), encoding="utf-8")
    wanted = read(file)
    done = carry_out(prepare([wanted], folder, retry_failed=True), folder)
    if done.failed:
        raise CldrankError(f"{done.failed} fits failed: {'; '.join(done.errors[:3])}")
    return [one for one in results.summary(results.read(folder)) if one.experiment == wanted.name]


def _report(story: Story, found: list[Summary]) -> Path:
    from cldrank.experiment.report import write
    from cldrank.experiment.report.contents import blocks
    from cldrank.experiment.report.sentences import what_came_out
    from cldrank.experiment.results import read

    out, folder = story.out, story.out / "experiment"
    if not story.quiet:
        _print(found)
        story.tell(
            "mean over seeds ± half of its 90% interval; * best or statistically tied, Oracle aside; gap closed: the "
            "share of the way from Naive to Oracle",
            style="dim",
            indent=3,
        )
        story.found(what_came_out(blocks(read(folder))[0]))
    story.step("Report: one page that needs nothing else", "Open it in a browser.", f"experiment report {folder}")
    with working("writing the report …"):
        (page,) = write(folder, folder)
    story.line(f"   → {page.resolve()}", style="green")
    story.tell("Go on", style="bold", above=True)
    story.tell("What if the production ranker is better? Naive inherits its order.", indent=3)
    story.commands(f"experiment run {out}/demo.toml --set production.fraction=0.02 -o {out}/better")
    story.tell("With labelled data of your own, a folder with train.txt and test.txt:", indent=3)
    story.commands(f"experiment run {out}/demo.toml --data FOLDER -o mine")
    story.tell("With a click log of your own:", indent=3)
    story.commands(
        "clicks audit LOG -f FEATURES --html audit.html",
        "propensity estimate LOG -f FEATURES -o rho.json",
        "train cld-pair -f FEATURES -c LOG -p rho.json -o ranker",
    )
    story.tell("Its columns have other names? --column doc_id=item; with train, --log-column doc_id=item.", indent=3)
    return page


# -- pieces ------------------------------------------------------------------------------------------------------


def _simulate(out: Path, sessions: int, seed: int) -> str:
    """The command that simulates as `_simulation` does."""
    return (
        f"simulate {out}/train.parquet -n {_scientific(sessions)} -k {_CUTOFF} --fraction {_FRACTION:g} --seed {seed}"
    )


def _scientific(count: int) -> str:
    """A round number in few letters.

    >>> _scientific(100_000)
    '1e5'
    """
    return f"{count:.0e}".replace("e+0", "e")


def _simulation(train: RankingDataset, seed: int) -> Simulation:
    from cldrank.clicks.simulate import PositionBased, Simulation
    from cldrank.estimators import SVMRank

    production = SVMRank(fraction=_FRACTION, seed=seed).fit(train)
    return Simulation(train, production.predict(train), model=PositionBased(eta=_ETA, noise=_NOISE), depth=_CUTOFF)


def _definition(out: Path, eta: Eta, seeds: int, methods: dict[str, dict[str, str]]) -> str:
    """The experiment as a file, to be changed and run again."""
    named = "\n".join(
        f"{json.dumps(label)} = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in chosen.items())} }}"
        for label, chosen in methods.items()
    )
    return f"""title = "Learning to rank from biased clicks"
data = {{ name = "{_KIND}", train = {json.dumps(f"{out}/train.parquet")}, test = {json.dumps(f"{out}/test.parquet")} }}
seeds = {seeds}
measures = {json.dumps(list(_MEASURES))}

[production]
fraction = {_FRACTION}

[simulation]
sessions = {_SESSIONS}
cutoff = {_CUTOFF}
eta = {_ETA}
assumed_eta = {eta.value:.4g} # estimated from the clicks of two rankers
noise = {_NOISE}

[methods]
{named}
"""


def _exponent(rho: Propensities) -> Eta:
    """The η of a power law, and of the ends of its interval."""

    def exponent(values: Any) -> float:
        return -math.log(float(values[1])) / math.log(2)

    low, high = (rho.values if end is None else end for end in (rho.low, rho.high))
    return Eta(exponent(rho.values), exponent(high), exponent(low))


def _print(found: list[Summary]) -> None:
    """A line for each method, with intervals and the share of the way from Naive to Oracle."""
    measures = list(dict.fromkeys(one.measure for one in found))
    cells = {(one.method, one.measure): one for one in found}
    rows, best = [], []
    for method in dict.fromkeys(one.method for one in found):
        gap = cells[method, _MEASURES[1]].gap
        told = [_told(cells[method, measure]) for measure in measures]
        rows.append((method, [*told, "–" if math.isnan(gap) else f"{gap:.0%}"]))
        best += [method] if cells[method, _MEASURES[1]].best else []
    print_wide("method", rows, [*measures, f"gap closed,\n{_MEASURES[1]}"], bold=best)


def _told(one: Summary) -> str:
    half = "" if math.isnan(one.low) else f" ± {one.mean - one.low:.3f}"
    return f"{one.mean:.3f}{half}{'*' if one.best or one.tied else ' '}"
