"""`cldrank demo`: a week's work on synthetic data, from a click log to a ranker that ships, each step a command.

The demo types its own commands: what it shows is what it runs.
"""

from __future__ import annotations

import io
import json
import math
import operator
import shlex
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from cldrank._version import __version__
from cldrank.cli import options
from cldrank.cli.commands import declared, option
from cldrank.cli.output import console, print_json, say
from cldrank.documents.numbers import minus
from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.files import make_folder, save_text
from cldrank.wording import count, listed

Facts = dict[str, Any]

DEVICES = {"phone": 1.4, "desktop": 0.7}  # how fast examination falls: (1/position)^eta
DECISIVE = "nDCG@3"  # of the measures of the experiment
_DCG = "DCG@10"
_LABELS = {"naive": "Naive", "ips": "IPS", "cld": "CLD", "cld-pair": "CLD-pair"}
_MARK = ".cldrank-demo"  # says that all files here are a demo's, and of which
_EXTRAS = {"torch": ("PyTorch", "neural"), "xgboost": ("XGBoost", "trees")}
_STOPPED = 130

# What each step tells first, and its commands. The production ranker has learned from few labels, so that both biases
# show: a better one leaves little to gain, as Naive inherits its order. The last lines of the demo invite to try that.
_LOGGED = "--sessions 5e4 -k 10 --policy neighbour-swaps"
_SCRIPT = {
    "log": f"""Log: what people clicked on the pages of the production ranker
Synthetic, in the shape of WEB10K. The ranker learned from 0.2% of the labels and shows its top 10; on half of the \
pages two neighbours change places. People examine position k with (1/k)^1.4 on a phone and with (1/k)^0.7 on a \
desktop; they click what is relevant, and 10% of what is not.
$ data make web10k-like -n {{queries}} --seed 0 -o {{out}}/train.parquet
$ data make web10k-like -n {{half}} --skip {{queries}} --seed 0 -o {{out}}/test.parquet
$ simulate {{out}}/train.parquet {_LOGGED} --eta 1.4 --fraction 0.002 --save-production {{out}}/production --seed 0 \
--add-column device=phone --log {{out}}/log/phone.parquet
$ simulate {{out}}/train.parquet {_LOGGED} --eta 0.7 --production {{out}}/production --seed 1 \
--add-column device=desktop --log {{out}}/log/desktop.parquet""",
    "audit": """Audit: what is this log good for?
Before anything is learned from it. All findings are in audit.html.
$ clicks audit {out}/log/phone.parquet {out}/log/desktop.parquet --log-column surface=device -f {out}/train.parquet \
--html {out}/audit.html""",
    "propensities": """Propensities: how likely is each position to be examined, on each device?
Pages with two neighbours swapped show the same result at two positions; its clicks tell.
$ clicks aggregate {out}/log/phone.parquet {out}/log/desktop.parquet --segment device -f {out}/train.parquet \
-o {out}/cells.parquet
$ propensity estimate {out}/cells.parquet -o {out}/rho.json
$ show {out}/rho.json --plot {out}/propensities.svg""",
    "methods": """Methods: {ways} ways to learn from such clicks, {seeds} each, measured by labels
Naive takes clicks as relevance. IPS corrects position bias, Heckman^rank selection bias{both} at once. Oracle sees \
all labels: the ceiling. Each seed has a production ranker of its own and clicks as on a phone: η = 1.4, and the \
methods use the estimate of step 3, {assumed:.2f}.
$ experiment run {out}/demo.toml --out {out}/experiment --retry-failed""",
    "training": """Train: {models} from the log of step 1, and a choice without labels
A ranker for production, with the curve of each device. 20% of the queries are held out; their clicks choose.
$ train naive{model} -f {out}/train.parquet -c {out}/cells.parquet --hold-out 0.2 -o {out}/rankers/{first}
$ train ips{model} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json --hold-out 0.2 \
-o {out}/rankers/{second}
$ train {best}{model} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json --hold-out 0.2 \
-o {out}/rankers/{third}
$ evaluate {out}/rankers/{first} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json
$ evaluate {out}/rankers/{second} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json
$ evaluate {out}/rankers/{third} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json""",
    "verdict": f"""Verdict: is it better than production? By next week's clicks, without labels
Other queries, on pages like those of step 1: production's order, two neighbours swapped on half of them. The last \
command asks the labels, which only a demo has. Gain is 2^label - 1 by labels, and by clicks the probability of a \
click on what is examined: compare changes, not values.
$ simulate {{out}}/test.parquet {_LOGGED} --eta 1.4 --production {{out}}/production --seed 2 \
--add-column device=phone --log {{out}}/later/phone.parquet
$ simulate {{out}}/test.parquet {_LOGGED} --eta 0.7 --production {{out}}/production --seed 3 \
--add-column device=desktop --log {{out}}/later/desktop.parquet
$ clicks aggregate {{out}}/later/phone.parquet {{out}}/later/desktop.parquet --segment device -f {{out}}/test.parquet \
-o {{out}}/later.parquet
$ compare {{out}}/rankers/{{chosen}} production -f {{out}}/test.parquet -c {{out}}/later.parquet -p {{out}}/rho.json \
--quick --html {{out}}/verdict.html
$ compare {{out}}/rankers/{{chosen}} {{out}}/production -f {{out}}/test.parquet -m {_DCG}""",
    "export": """Export: the ranker for OpenSearch, scored as the engine would
A replay of the engine's arithmetic scores all test candidates; nothing is written if one differs.
$ export {out}/rankers/{chosen} --to opensearch --check {out}/test.parquet -o {out}/opensearch""",
    "report": """Report: one page, with links to all others
The command writes the page of step 4; the demo adds the one to open.
$ experiment report {out}/experiment""",
}
_GO_ON = """What if the production ranker is better? Naive inherits its order.
$ experiment run {out}/demo.toml --set production.fraction=0.02 --set methods.Production.fraction=0.02 -o {out}/better
All of this every day, with two gates, on a log of your own:
$ pipeline new LOG -f FEATURES
$ pipeline run
With labelled data of your own, a folder with train.txt and test.txt:
$ experiment run {out}/demo.toml --data FOLDER -o mine"""
_EXPERIMENT = """title = "Learning to rank from biased clicks"
data = {{ name = "web10k-like", train = {train}, test = {test} }}
seeds = {seeds}
measures = ["nDCG@1", "nDCG@3", "AP"]

[production]
fraction = 0.002

[simulation]
sessions = 100_000
depth = 10
eta = 1.4 # of the phone
assumed_eta = {assumed:.4g} # what was estimated from its log
noise = 0.1

[methods]
Production = {{ use = "svm-rank", fraction = 0.002 }}
"""
_LINEAR_METHODS = """Naive = {}
IPS = {}
"Heckman^rank" = {}
CLD = {}
Oracle = {}
"""
_METHODS = """Naive = { model = "mlp" }
IPS = { model = "mlp" }
"Heckman^rank" = {}
RankAgg = {}
CLD = {}
CLD-pair = {}
"CLD-pair trees" = { use = "cld-pair", model = "trees" }
Oracle = { model = "mlp" }
"""  # as in the paper's table 1, and trees


@declared
class DemoCommand(options.JsonOutput):
    """A week's work in three minutes: log, audit, propensities, training, a verdict without labels, export, report.

    All data are synthetic. Every step shows the commands that do the same. Called again, a demo that was stopped does
    not repeat the fits of its experiment.
    """

    out: Path = option("-o FOLDER", "Where to leave data, logs, rankers and pages.", Path("demo"))
    queries: int = option(
        "--n-queries -n INTEGER",
        "How many queries to train on; half as many to test on.",
        1000,
        min=100,
        max=100_000,
    )
    seeds: int = option("INTEGER", "How often the methods are compared, on clicks anew.", 3, min=1, max=10_000)
    linear: bool = option("", "Only linear methods: quicker, without PyTorch and XGBoost.", False)

    def run(self) -> None:
        """Take all steps, in order."""
        _check_installed(self.linear)
        options.check_folder(self.out)
        make_folder(self.out)
        settings = {"queries": self.queries, "linear": self.linear, "version": __version__}
        _take_place(self.out, json.dumps(settings, indent=2) + "\n")
        week = Demo(Story(quiet=self.as_json), self.out, self.queries, self.seeds, self.linear)
        week.log()
        week.audit()
        week.propensities()
        week.methods()
        week.train()
        week.judge()
        week.export()
        week.report()
        week.next_steps()
        if self.as_json:
            print_json({"out": str(self.out), **week.facts})


def _check_installed(linear: bool) -> None:
    from importlib.util import find_spec

    missing = [] if linear else [named for module, named in _EXTRAS.items() if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"networks and boosted trees need {' and '.join(name for name, _ in missing)}: pip install "
            f"'cldrank[{','.join(extra for _, extra in missing)}]', or see the "
            "linear methods alone: cldrank demo --linear."
        )


def _take_place(out: Path, settings: str) -> None:
    """Mark the folder as this demo's; refuse to overwrite what others left there, or a demo of other settings."""
    mark = out / _MARK
    if mark.is_file():
        if mark.read_text(encoding="utf-8") != settings:
            raise UsageError(f"{out} holds a demo of other settings; delete it, or name another folder with `out`.")
    elif taken := sorted(path.name for path in out.iterdir()):
        raise UsageError(f"{out} holds {taken[0]}, which no demo has left there; name another folder with `out`.")
    save_text(mark, settings)


def typed(command: str, *, doing: str = "") -> Any:
    """What a command of cldrank answers with `--json`, run in this process as if it had been typed.

    doing   what is said while it runs, in place of all that the command says beside its answer, but for warnings
    """
    from rich.console import Console

    from cldrank.cli import app

    answer, remarks = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        if doing:  # on the terminal as it is, before the command's own remarks go elsewhere
            stack.enter_context(Console(file=sys.stderr).status(f"{doing} …"))
            stack.enter_context(redirect_stderr(remarks))
        stack.enter_context(redirect_stdout(answer))
        code = app(args=[*shlex.split(command), "--json"], prog_name="cldrank", standalone_mode=False)
    for line in remarks.getvalue().splitlines():
        if line.startswith("warning: "):
            say(line)
    if code == _STOPPED:
        say("stopped; the same call continues from there")
        raise click.exceptions.Exit(code)
    return json.loads(answer.getvalue())


@dataclass
class Demo:
    """The demo in a folder. Its steps are called once, in order.

    facts   what `--json` says
    told    what was said of each step, which the page repeats
    """

    story: Story
    out: Path
    queries: int
    seeds: int
    linear: bool
    facts: Facts = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)

    def show(self, step: str, **names: object) -> list[str]:
        """Tell what a step is for, and show its commands."""
        title, why, *lines = _SCRIPT[step].format(out=shlex.quote(str(self.out)), **names).splitlines()
        commands = [line.removeprefix("$ ") for line in lines]
        self.story.step(title, why, *commands)
        return commands

    def run(self, step: str, doing: str, **names: object) -> list[Any]:
        """Show the commands of a step, and run them; their answers."""
        return [typed(command, doing=doing) for command in self.show(step, **names)]

    def tell(self, step: str, text: str) -> None:
        """A result: told once here, and again on the page."""
        self.told.setdefault(step, []).append(text)
        self.story.found(text)

    # -- what a search engine leaves behind --------------------------------------------------------------------------

    def log(self) -> None:
        """Data, and a week of clicks on two devices."""
        make_folder(self.out / "log")
        train, _, *logs = self.run("log", "making data and a log", queries=self.queries, half=self.queries // 2)
        pages = sum(int(log["by_position"][0]["impressions"]) for log in logs)
        devices, rows = count(len(logs), "device"), train["rows"]
        self.tell("log", f"{train['queries']:,} queries with {rows:,} candidates, {pages:,} pages on {devices}.")
        self.facts |= {"queries": train["queries"], "candidates": rows, "pages": pages}

    def audit(self) -> None:
        """What the log can be used for."""
        (answer,) = self.run("audit", "auditing the log")
        top, last = answer["by_position"][0], answer["by_position"][-1]
        self.tell(
            "audit",
            f"position bias: the click-through rate is {top['rate']:.1%} at position {top['position']} and "
            f"{last['rate']:.1%} at position {last['position']}.",
        )
        for finding in answer["verdict"]["findings"]:
            if finding["topic"] == "selection":
                self.tell("audit", f"selection bias: {finding['found']}")
        self.facts["audit"] = answer["verdict"]["sentence"]
        self.tell("audit", self.facts["audit"])

    def propensities(self) -> None:
        """One curve for each device."""
        _, answer, _ = self.run("propensities", "estimating propensities")
        self.facts["propensities"] = {device: _eta(answer["segments"][device]["positions"]) for device in DEVICES}
        for device, eta in self.facts["propensities"].items():
            self.tell(
                "propensities",
                f"{device}: (1/k)^η with η = {eta['eta']:.2f} ({eta['low']:.2f} to {eta['high']:.2f}); "
                f"the truth is {DEVICES[device]}.",
            )

    # -- what can be learned from it ---------------------------------------------------------------------------------

    def methods(self) -> None:
        """All methods, measured by labels, over and over."""
        from cldrank.cli.experiment import print_section
        from cldrank.experiment.results import load_results, summary
        from cldrank.report.findings import what_came_out
        from cldrank.report.sections import sections

        assumed = self.facts["propensities"]["phone"]["eta"]
        methods, both = _METHODS, ", RankAgg joins the two; CLD and CLD-pair correct both"
        if self.linear:
            methods, both = _LINEAR_METHODS, "; CLD corrects both"
        train, test = (json.dumps(str(self.out / name)) for name in ("train.parquet", "test.parquet"))
        definition = _EXPERIMENT.format(train=train, test=test, seeds=self.seeds, assumed=assumed)
        save_text(self.out / "demo.toml", definition + methods)
        ways = len(methods.splitlines()) - 1  # all but Oracle, which sees no clicks
        self.run("methods", "", ways=ways, seeds=count(self.seeds, "seed"), both=both, assumed=assumed)
        results = load_results(self.out / "experiment")
        self.facts["results"] = [cell.as_dict() for cell in summary(results)]
        if any(cell["failed"] for cell in self.facts["results"]):
            raise CldrankError(f"some fits failed; `cldrank experiment report {self.out / 'experiment'}` says why.")
        (section,) = sections(results)
        if not self.story.quiet:
            print_section(section)
        self.tell("methods", what_came_out(section))

    def train(self) -> None:
        """Three rankers from the log itself, and the choice between them, without labels."""
        make_folder(self.out / "rankers")
        best, models, model, suffix = "cld-pair", "boosted trees", " --model trees", "-trees"
        if self.linear:
            best, models, model, suffix = "cld", "linear models", "", ""
        names = [f"{method}{suffix}" for method in ("naive", "ips", best)]
        places = dict(zip(("first", "second", "third"), names, strict=True))
        doing = "training rankers, and judging them by held-out clicks"
        *_, first, second, third = self.run("training", doing, best=best, models=models, model=model, **places)
        judged = {name: answer["measures"][_DCG] for name, answer in zip(names, (first, second, third), strict=True)}
        chosen = max(judged, key=lambda name: float(judged[name]["estimate"]))
        values = [
            f"{label(name)} {value['estimate']:.2f} ({value['low']:.2f} to {value['high']:.2f})"
            for name, value in judged.items()
        ]
        near = [label(name) for name in names if name != chosen and judged[name]["high"] > judged[chosen]["low"]]
        doubt = f", though its interval overlaps with {'that' if len(near) == 1 else 'those'} of {listed(near)}"
        choice = f"{label(chosen)} is chosen{doubt if near else ''}"
        self.tell("training", f"{_DCG} by held-out clicks: {listed(values)}; {choice}.")
        self.facts |= {"rankers": judged, "chosen": chosen}

    # -- what is shipped ---------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """The chosen ranker against production on the clicks of the next week, and what labels say."""
        from cldrank.evaluation.click_results import WayToSettle
        from cldrank.evaluation.experiment_planning import say_way

        make_folder(self.out / "later")
        *_, clicks, labels = self.run("verdict", "judging by clicks", chosen=self.facts["chosen"])
        seen, true = clicks["measures"][_DCG], labels["measures"][_DCG]
        by_clicks, by_labels = _relative(seen, seen["old"]), _relative(true, true["old"])
        reason = clicks["reason"].replace(clicks["new"], label(self.facts["chosen"]))  # not the path of its folder
        self.tell("verdict", f"clicks alone: {clicks['verdict']}. {reason}")
        if clicks["settling"]:
            verb = "confirm" if clicks["decision"] == "better" else "settle"
            self.tell("verdict", say_way(WayToSettle(**clicks["settling"][0]), verb))
        self.tell("verdict", f"change in {_DCG}: by clicks {_change(by_clicks)}, by labels {_change(by_labels)}.")
        self.facts["verdict"] = {"decision": clicks["decision"], "reason": reason, "measure": _DCG, **by_clicks}
        self.facts["labels"] = {"measure": _DCG, **by_labels}

    def export(self) -> None:
        """The ranker for a search engine, with the proof that it scores alike there."""
        (answer,) = self.run("export", "exporting", chosen=self.facts["chosen"])
        parity = answer["parity"]
        order = "all in the same order" if parity["same_order"] else f"{parity['swapped']:,} pairs change places"
        self.tell(
            "export",
            f"{parity['rows']:,} candidates score alike (largest difference {parity['largest']:.2g}), {order}. What is "
            "left to you: the features in featureset.json.",
        )
        for note in answer["notes"]:
            self.tell("export", f"note: {note}.")
        self.facts["export"] = {name: answer[name] for name in ("out", "for", "to_do", "parity")}

    def report(self) -> None:
        """One page about all of it, which leads to the pages of the steps."""
        from cldrank.cli.demo_page import demo_document
        from cldrank.documents import render_html
        from cldrank.report import save_report

        self.show("report")
        (experiment,) = save_report(self.out / "experiment", self.out / "experiment")
        pages = {name: str(self.out / f"{name}.html") for name in ("report", "audit", "verdict")}
        pages |= {"propensities": str(self.out / "propensities.svg"), "experiment": str(experiment)}
        save_text(Path(pages["report"]), render_html(demo_document(self.out, self.facts, self.told)))
        self.story.line(f"   → {Path(pages['report']).resolve()}", style="green")
        self.facts |= {"told": self.told, "pages": pages}

    def next_steps(self) -> None:
        """What to try now."""
        self.story.tell("Go on", style="bold", above=True)
        for line in _GO_ON.format(out=shlex.quote(str(self.out))).splitlines():
            if line.startswith("$ "):
                self.story.commands(line.removeprefix("$ "))
            else:
                self.story.tell(line, indent=3)


def label(name: str) -> str:
    """What a ranker is called in sentences.

    >>> label("cld-pair-trees"), label("ips")
    ('CLD-pair trees', 'IPS')
    """
    method = name.removesuffix("-trees")
    return _LABELS[method] + (" trees" if method != name else "")


def _eta(positions: list[dict[str, float]]) -> dict[str, float]:
    """The exponent of the nearest power law, and those of the ends of the interval; sure positions count more."""
    below = positions[1:]
    steps = [math.log(entry["position"]) for entry in below]
    weights = [step / math.log(entry["high"] / entry["low"]) ** 2 for step, entry in zip(steps, below, strict=True)]
    total = sum(map(operator.mul, weights, steps))
    ends = {"eta": "examined", "low": "high", "high": "low"}
    logs = {name: [math.log(entry[end]) for entry in below] for name, end in ends.items()}
    return {name: -sum(map(operator.mul, weights, own)) / total for name, own in logs.items()}


def _relative(measure: Facts, old: float) -> Facts:
    """A difference and its interval as shares of the old value."""
    return {"change": measure["difference"] / old, "low": measure["low"] / old, "high": measure["high"] / old}


def _change(shares: Facts) -> str:
    change, low, high = (shares[name] for name in ("change", "low", "high"))
    return minus(f"{change:+.0%} ({low:+.0%} to {high:+.0%})")


class Story:
    """What a demonstration tells, step by step; nothing if it is quiet, for programs."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self.steps = quiet, 0

    def step(self, title: str, why: str, *commands: str) -> None:
        """The next step: what happens, why it matters, the commands that do the same."""
        self.steps += 1
        self.tell(f"{self.steps}. {title}", style="bold", above=self.steps > 1)
        self.tell(why, indent=3)
        self.commands(*commands)

    def commands(self, *commands: str) -> None:
        """Commands to copy."""
        for command in commands:
            self.line(f"   $ cldrank {command}", style="dim")

    def found(self, text: str) -> None:
        """A result."""
        self.tell(f"→ {text}", style="green", indent=3)

    def line(self, text: str, style: str) -> None:
        """A line to copy: it stays whole, however narrow the terminal."""
        if not self.quiet:
            console.print(text, style=style, markup=False, soft_wrap=True)

    def tell(self, text: str, *, style: str = "", indent: int = 0, above: bool = False) -> None:
        """A text that wraps at the edge of the terminal, with an empty line above it or without."""
        from rich.padding import Padding
        from rich.text import Text

        if not self.quiet:
            console.print(Padding(Text(text, style=style), (int(above), 0, 0, indent), expand=False))
