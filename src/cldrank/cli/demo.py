"""`cldrank demo`: the whole story on synthetic data, from biased clicks to a report."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cldrank.cli import options
from cldrank.cli.output import Story, print_json, print_wide, working
from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.files import make_folder, save_text
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.audit import Audit
    from cldrank.clicks.simulate import Simulation
    from cldrank.data.dataset import RankingDataset
    from cldrank.experiment.results import Summary
    from cldrank.propensity import Propensities

_KIND = "web10k-like"
_ETA, _DEPTH, _NOISE, _SESSIONS, _LOGGED = 1.0, 10, 0.1, 100_000, 10_000
# The share of labels that the production ranker has learned from. It is small, so that both biases show: a better one
# leaves little to gain, as Naive inherits its order. The last lines of the demo invite to try that.
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
_METHODS = """Naive = { model = "mlp" }
IPS = { model = "mlp" }
"Heckman^rank" = {}
RankAgg = {}
CLD = {}
CLD-pair = {}
Oracle = { model = "mlp" }"""  # as in the paper's table 1
_LINEAR_METHODS = """Naive = {}
IPS = {}
"Heckman^rank" = {}
CLD = {}
Oracle = {}"""


def demo(
    out: Annotated[Path, options.spelled("--out -o FOLDER", "Where to leave data, logs, results and report.")] = Path(
        "demo"
    ),
    queries: Annotated[
        int,
        options.spelled("--queries -n", "How many queries to train on; half as many to test on.", min=100, max=100_000),
    ] = 1000,
    seeds: Annotated[int, options.spelled("--seeds", "How often to simulate and train.", min=1, max=10_000)] = 3,
    linear: Annotated[bool, options.spelled("--linear", "Only linear methods: quicker, and without PyTorch.")] = False,
    as_json: options.Json = False,
) -> None:
    """The whole story in three minutes: data, biased clicks, propensities, seven ways to learn, a report.

    All data are synthetic. Every step shows the commands that do the same. Called again, a demo that was stopped
    continues where it was.
    """
    _check_installed(linear)
    options.check_folder(out)
    make_folder(out)
    _check_place(out)
    story = Story(quiet=as_json)
    train = _make_data(story, out, queries)
    audit = _show_clicks(story, out, train)
    eta = _estimate_propensities(story, out, train)
    found = _run_methods(story, out, eta, seeds, linear)
    page = _write_report(story, out, found)
    _show_what_is_next(story, out)
    if as_json:
        results = [one.as_dict() for one in found]
        facts = {"out": str(out), "audit": audit.verdict.sentence, "eta": eta._asdict()}
        print_json({**facts, "results": results, "report": str(page)})


# -- before it begins --------------------------------------------------------------------------------------------


def _check_installed(linear: bool) -> None:
    from importlib.util import find_spec

    if not linear and find_spec("torch") is None:
        raise MissingDependencyError(
            "four of the seven methods are neural and need PyTorch: pip install 'cldrank[neural]', or run the linear "
            "ones alone: cldrank demo --linear."
        )


def _check_place(out: Path) -> None:
    """Refuse to overwrite files that no demo has left under the names that it uses."""
    taken = [name for name in _FILES if (out / name).exists()]
    if taken and not (out / "demo.toml").is_file() and not _is_synthetic(out / "train.parquet"):
        raise UsageError(
            f"{out} holds {taken[0]}, which no demo has left there and which would be overwritten; name another folder "
            "with --out."
        )


def _is_synthetic(path: Path) -> bool:
    """Whether a file holds a synthetic dataset, as a demo that was stopped leaves it."""
    from cldrank.data import load

    try:
        return load(path).synthetic
    except (CldrankError, OSError):
        return False


# -- the steps ---------------------------------------------------------------------------------------------------


def _make_data(story: Story, out: Path, queries: int) -> RankingDataset:
    from cldrank.data import synthetic

    tests = queries // 2
    story.step(
        "Data: queries and their candidates, with features and expert labels",
        "Synthetic, in the shape of WEB10K. Labels are used to simulate clicks, to train Oracle and to measure.",
        f"data make {_KIND} -n {queries} --seed 0 -o {out}/train.parquet",
        f"data make {_KIND} -n {tests} --seed 1 -o {out}/test.parquet",
    )
    with working("making data …"):
        train, test = synthetic.make(_KIND, queries, 0), synthetic.make(_KIND, tests, 1)
        train.save(out / "train.parquet")
        test.save(out / "test.parquet")
    story.found(f"{train.n_queries:,} queries with {train.n_rows:,} candidates to train on, {tests:,} to test on")
    return train


def _show_clicks(story: Story, out: Path, train: RankingDataset) -> Audit:
    import numpy as np

    from cldrank.clicks.audit import audit

    story.step(
        f"Clicks: a production ranker shows its top {_DEPTH}, people click",
        f"It learned from {_FRACTION:.1%} of the labels. People examine position k with probability 1/k, click what is "
        f"relevant, and {_NOISE:.0%} of what is not.",
        f"{_simulate_command(out, _LOGGED, 0)} --log {out}/log.parquet",
        f"clicks audit {out}/log.parquet -f {out}/train.parquet --html {out}/audit.html",
    )
    with working("simulating a log, auditing it …"):
        simulation = _simulation(train, seed=0)
        simulation.save_log(out / "log.parquet", _LOGGED, seed=0)
        found = audit(str(out / "log.parquet"), train).said("shell")
        save_text(out / "audit.html", found.to_html())
    top, last = found.facts.curve[0], found.facts.curve[-1]
    relevant, shown = simulation.relevant, np.zeros(train.n_rows, bool)
    shown[simulation.showable] = True
    hidden = (relevant & ~shown).sum() / relevant.sum()
    story.found(
        f"position bias: the click-through rate is {top.rate:.1%} at position 1 and {last.rate:.1%} at position "
        f"{last.position}"
    )
    story.found(
        f"selection bias: {1 - shown.mean():.0%} of all candidates are never shown, among them {hidden:.0%} of the "
        "relevant ones"
    )
    story.found(f"audit: {found.verdict.sentence}")
    return found


def _estimate_propensities(story: Story, out: Path, train: RankingDataset) -> Eta:
    from cldrank.propensity import AllPairs
    from cldrank.propensity.smoothing import power_law

    cells = [f"{out}/clicks{seed + 1}.parquet" for seed in (0, 1)]
    story.step(
        "Propensities: how likely is each position to be examined?",
        "One ranker alone cannot tell. Two that take turns show some results at two positions, and those can.",
        *(f"{_simulate_command(out, _SESSIONS, seed)} -o {cells[seed]}" for seed in (0, 1)),
        f"propensity estimate {' '.join(cells)} --smooth power -o {out}/rho.json",
    )
    with working("estimating propensities …"):
        first, second = (_simulation(train, seed).draw(_SESSIONS, seed=seed) for seed in (0, 1))
        first.save(cells[0])
        second.save(cells[1])
        rho = power_law(AllPairs().fit(first.merge(second)))
        rho.save(out / "rho.json")
    eta = Eta.of(rho)
    story.found(
        f"(1/k)^η with η = {eta.value:.3f} ({eta.low:.3f} to {eta.high:.3f}); the truth is {_ETA:g}. "
        "The methods below use the estimate."
    )
    return eta


def _run_methods(story: Story, out: Path, eta: Eta, seeds: int, linear: bool) -> list[Summary]:
    from cldrank.cli.experiment_running import carry_out, prepare
    from cldrank.experiment.definition import read
    from cldrank.experiment.records import load_results
    from cldrank.experiment.results import summary

    methods = _LINEAR_METHODS if linear else _METHODS
    file, folder = out / "demo.toml", out / "experiment"
    story.step(
        f"Learning: {len(methods.splitlines())} methods from the same clicks, with {count(seeds, 'seed')}",
        "Naive takes clicks as relevance. IPS corrects position bias, Heckman^rank selection bias"
        + ("; CLD corrects both" if linear else ", RankAgg combines the two; CLD and CLD-pair correct both")
        + " at once. Oracle sees all labels: the ceiling.",
        f"experiment run {file} --out {folder}",
    )
    save_text(file, _definition(out, eta, seeds, methods))
    wanted = read(file)
    done = carry_out(prepare([wanted], folder, retry_failed=True), folder)
    if done.failed:
        raise CldrankError(f"{count(done.failed, 'fit')} failed: {'; '.join(done.errors[:3])}")
    return [one for one in summary(load_results(folder)) if one.experiment == wanted.name]


def _write_report(story: Story, out: Path, found: list[Summary]) -> Path:
    from cldrank.experiment.records import load_results
    from cldrank.report import save_report
    from cldrank.report.narrative import what_came_out
    from cldrank.report.sections import sections

    folder = out / "experiment"
    if not story.quiet:
        _print_results(found)
        story.tell(
            "mean over seeds ± half of its 90% interval; * best or statistically tied of those that see no labels; gap "
            "closed: the share of the gap between Naive and Oracle",
            style="dim",
            indent=3,
        )
        story.found(what_came_out(sections(load_results(folder))[0]))
    story.step("Report: one page that needs nothing else", "Open it in a browser.", f"experiment report {folder}")
    with working("writing the report …"):
        (page,) = save_report(folder, folder)
    story.line(f"   → {page.resolve()}", style="green")
    return page


def _show_what_is_next(story: Story, out: Path) -> None:
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


# -- pieces ------------------------------------------------------------------------------------------------------


class Eta(NamedTuple):
    """The severity of position bias as estimated from clicks, with its 90% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, rho: Propensities) -> Eta:
        """The η of a power law, and of the ends of its interval."""

        def exponent(values: Any) -> float:
            return -math.log(float(values[1])) / math.log(2)

        low, high = (rho.values if end is None else end for end in (rho.low, rho.high))
        return cls(exponent(rho.values), exponent(high), exponent(low))


def _simulation(train: RankingDataset, seed: int) -> Simulation:
    from cldrank.clicks.simulate import PositionBased, Simulation
    from cldrank.estimators import SVMRank
    from cldrank.models import Run

    production = SVMRank(fraction=_FRACTION, run=Run(seed=seed)).fit(train)
    return Simulation(train, production.predict(train), model=PositionBased(eta=_ETA, noise=_NOISE), depth=_DEPTH)


def _simulate_command(out: Path, sessions: int, seed: int) -> str:
    """The command that simulates as `_simulation` does."""
    number = f"{sessions:.0e}".replace("e+0", "e")
    return f"simulate {out}/train.parquet -n {number} -k {_DEPTH} --fraction {_FRACTION:g} --seed {seed}"


def _definition(out: Path, eta: Eta, seeds: int, methods: str) -> str:
    """The experiment as a file, to be changed and run again."""
    return f"""title = "Learning to rank from biased clicks"
data = {{ name = "{_KIND}", train = {json.dumps(f"{out}/train.parquet")}, test = {json.dumps(f"{out}/test.parquet")} }}
seeds = {seeds}
measures = {json.dumps(_MEASURES)}

[production]
fraction = {_FRACTION}

[simulation]
sessions = {_SESSIONS}
depth = {_DEPTH}
eta = {_ETA}
assumed_eta = {eta.value:.4g} # estimated from the clicks of two rankers
noise = {_NOISE}

[methods]
{methods}
"""


def _print_results(found: list[Summary]) -> None:
    """A line per method, with intervals and the share of the gap that it closes."""
    cells = {(one.method, one.measure): one for one in found}
    rows, best = [], []
    for method in dict.fromkeys(one.method for one in found):
        decisive = cells[method, _MEASURES[1]]
        texts = [_interval(cells[method, measure]) for measure in _MEASURES]
        rows.append((method, [*texts, "–" if math.isnan(decisive.gap) else f"{decisive.gap:.0%}"]))
        best += [method] if decisive.best else []
    print_wide("method", rows, [*_MEASURES, f"gap closed,\n{_MEASURES[1]}"], bold=best)


def _interval(one: Summary) -> str:
    half = "" if math.isnan(one.low) else f" ± {one.mean - one.low:.3f}"
    return f"{one.mean:.3f}{half}{'*' if one.best or one.tied else ' '}"
