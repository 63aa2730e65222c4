"""The steps of the demo: each tells what it is for, types its commands, and says what came of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cldrank.cli.demo import world
from cldrank.cli.demo.typed import typed
from cldrank.cli.demo.world import DEPTH, DEVICES, HELD_OUT, NOISE, shell_word
from cldrank.cli.output import Story
from cldrank.errors import CldrankError
from cldrank.files import make_folder, save_text
from cldrank.wording import count, listed

Facts = dict[str, Any]

_LABELS = {"naive": "Naive", "ips": "IPS", "cld": "CLD", "cld-pair": "CLD-pair"}
_MEASURE = f"DCG@{DEPTH}"


@dataclass
class Steps:
    """The demo in a folder; each step is called once, in order, and returns what `--json` tells about it."""

    story: Story
    out: Path
    queries: int
    seeds: int
    linear: bool
    facts: Facts = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)

    def found(self, step: str, text: str) -> None:
        """A result: told once here, and again on the page."""
        self.told.setdefault(step, []).append(text)
        self.story.found(text)

    def path(self, name: str) -> str:
        """A file of the demo, as commands name it."""
        return shell_word(self.out / name)

    # -- what a search engine leaves behind ------------------------------------------------------------------------

    def log(self) -> Facts:
        """Data, and a week of clicks on two devices."""
        make_folder(self.out / "log")
        commands = [
            f"data make {world.KIND} -n {self.queries} --seed 0 -o {self.path('train.parquet')}",
            f"data make {world.KIND} -n {self.queries // 2} --skip {self.queries} --seed 0 "
            f"-o {self.path('test.parquet')}",
            *self._simulated("train.parquet", "log", 0, first=True),
        ]
        falls = " and ".join(f"with (1/k)^{eta} on a {device}" for device, eta in DEVICES.items())
        self.story.step(
            "Log: what people clicked on the pages of the production ranker",
            f"Synthetic, in the shape of WEB10K. The ranker learned from {world.FRACTION:.1%} of the labels and shows "
            f"its top {DEPTH}; on half of the pages two neighbours change places. People examine position k {falls}; "
            f"they click what is relevant, and {NOISE:.0%} of what is not.",
            *commands,
        )
        train, _, *logs = [typed(command, doing="making data and a log") for command in commands]
        pages = sum(int(log["by_position"][0]["impressions"]) for log in logs)
        self.found(
            "log",
            f"{train['queries']:,} queries with {train['rows']:,} candidates, {pages:,} pages on "
            f"{count(len(logs), 'device')}.",
        )
        return {"queries": train["queries"], "candidates": train["rows"], "pages": pages}

    def audit(self) -> Facts:
        """What the log can be used for."""
        command = (
            f"clicks audit {world.logs(self.out, 'log')} --log-column surface=device -f {self.path('train.parquet')} "
            f"--html {self.path('audit.html')}"
        )
        self.story.step(
            "Audit: what is this log good for?",
            "Before anything is learned from it. All findings are in audit.html.",
            command,
        )
        found = typed(command, doing="auditing the log")
        top, last = found["by_position"][0], found["by_position"][-1]
        self.found(
            "audit",
            f"position bias: the click-through rate is {top['rate']:.1%} at position {top['position']} and "
            f"{last['rate']:.1%} at position {last['position']}.",
        )
        selection = next((one["found"] for one in found["verdict"]["findings"] if one["topic"] == "selection"), None)
        if selection:
            self.found("audit", f"selection bias: {selection}")
        self.found("audit", found["verdict"]["sentence"])
        return {"audit": found["verdict"]["sentence"]}

    def propensities(self) -> Facts:
        """One curve for each device."""
        train, cells, rho = (self.path(name) for name in ("train.parquet", "cells.parquet", "rho.json"))
        truths = " ".join(f"--truth {device}={self.path(f'log/{device}.parquet.json')}" for device in DEVICES)
        commands = (
            f"clicks aggregate {world.logs(self.out, 'log')} --segment device -f {train} -o {cells}",
            f"propensity estimate {cells} --smooth power -o {rho}",
            f"propensity show {rho} {truths} --plot {self.path('propensities.svg')}",
        )
        self.story.step(
            "Propensities: how likely is each position to be examined, on each device?",
            "Pages with two neighbours swapped show the same result at two positions; its clicks tell. A power law, "
            "which is the truth here, evens out the noise that the audit warns of.",
            *commands,
        )
        _, found, _ = [typed(command, doing="estimating propensities") for command in commands]
        etas = {device: _eta(found["segments"][device]["positions"]) for device in DEVICES}
        for device, eta in etas.items():
            self.found(
                "propensities",
                f"{device}: (1/k)^η with η = {eta['eta']:.2f} ({eta['low']:.2f} to {eta['high']:.2f}); "
                f"the truth is {DEVICES[device]}.",
            )
        return {"propensities": etas}

    # -- what can be learned from it ---------------------------------------------------------------------------------

    def methods(self) -> Facts:
        """All methods, measured by labels, over and over."""
        from cldrank.cli.experiment import print_section
        from cldrank.experiment.results import load_results, summary
        from cldrank.report.findings import what_came_out
        from cldrank.report.sections import sections

        file, folder = self.out / "demo.toml", self.out / "experiment"
        command = f"experiment run {shell_word(file)} --out {shell_word(folder)} --retry-failed"
        number = len(world.methods_to_try(self.linear).splitlines()) - 1  # Oracle sees no clicks
        device, assumed = world.STUDIED, self.facts["propensities"][world.STUDIED]["eta"]
        self.story.step(
            f"Methods: {number} ways to learn from such clicks, {count(self.seeds, 'seed')} each, measured by labels",
            "Naive takes clicks as relevance. IPS corrects position bias, Heckman^rank selection bias"
            + ("; CLD corrects both" if self.linear else ", RankAgg joins the two; CLD and CLD-pair correct both")
            + " at once. Oracle sees all labels: the ceiling. Each seed has a production ranker of its own and clicks "
            f"as on a {device}: η = {DEVICES[device]}, and the methods use the estimate of step 3, {assumed:.2f}.",
            command,
        )
        save_text(file, world.definition(self.out, assumed, self.seeds, self.linear))
        typed(command)
        results = load_results(folder)
        found = summary(results)
        if any(cell.failed for cell in found):
            raise CldrankError(f"some fits failed; `cldrank experiment report {folder}` says why.")
        if not self.story.quiet:
            print_section(sections(results)[0])
        self.found("methods", what_came_out(sections(results)[0]))
        return {"results": [one.as_dict() for one in found]}

    def training(self) -> Facts:
        """Three rankers from the log itself, and the choice between them, without labels."""
        chosen = world.candidates(self.linear)
        train = {name: self._train(name, asked) for name, asked in chosen.items()}
        judge = {
            name: f"evaluate {self.path(f'rankers/{name}')} {self._given('train', 'cells')} -p {self.path('rho.json')}"
            for name in chosen
        }
        model = "linear models" if self.linear else "boosted trees"
        self.story.step(
            f"Train: {model} from the log of step 1, and a choice without labels",
            f"A ranker for production, with the curve of each device. {HELD_OUT:.0%} of the queries are held out; "
            "their clicks choose.",
            *train.values(),
            *judge.values(),
        )
        make_folder(self.out / "rankers")
        for name, command in train.items():
            typed(command, doing=f"training {label(name)}")
        found = {
            name: typed(command, doing=f"judging {name} by held-out clicks")["measures"][_MEASURE]
            for name, command in judge.items()
        }
        best = max(found, key=lambda name: float(found[name]["estimate"]))
        values = [f"{label(name)} {_with_interval(one)}" for name, one in found.items()]
        near = [label(name) for name, one in found.items() if name != best and one["high"] > found[best]["low"]]
        doubt = f", though its interval overlaps with {'that' if len(near) == 1 else 'those'} of {listed(near)}"
        self.found(
            "training",
            f"{_MEASURE} by held-out clicks: {listed(values)}; {label(best)} is chosen{doubt if near else ''}.",
        )
        return {"rankers": found, "chosen": best}

    # -- what is shipped ---------------------------------------------------------------------------------------------

    def verdict(self) -> Facts:
        """The chosen ranker against production on the clicks of the next week, and what labels say."""
        from cldrank.evaluation.click_results import WayToSettle
        from cldrank.evaluation.experiment_planning import say_way

        make_folder(self.out / "later")
        chosen, test, later = self.facts["chosen"], self.path("test.parquet"), self.path("later.parquet")
        others = [name for name in self.facts["rankers"] if name != chosen]
        ranker = self.path(f"rankers/{chosen}")
        logged = self._simulated("test.parquet", "later", len(DEVICES))
        commands = (
            *logged,
            f"clicks aggregate {world.logs(self.out, 'later')} --segment device -f {test} -o {later}",
            f"compare {ranker} production {self._given('test', 'later')} -p {self.path('rho.json')} --quick "
            f"--html {self.path('verdict.html')}",
            f"compare {ranker} {self.path('production')} -f {test} -m {_MEASURE}",
            *(f"evaluate {self.path(f'rankers/{name}')} -f {test} -m {_MEASURE}" for name in others),
        )
        self.story.step(
            "Verdict: is it better than production? By next week's clicks, without labels",
            "Other queries, on pages like those of step 1: production's order, two neighbours swapped on half of them. "
            "The last commands ask the labels, which only a demo has. Gain is 2^label - 1 by labels, and by clicks the "
            "probability of a click on what is examined: compare changes, not values.",
            *commands,
        )
        found = [typed(command, doing="judging by clicks") for command in commands]
        clicks, labels, *rest = found[len(logged) + 1 :]
        seen, true = clicks["measures"][_MEASURE], labels["measures"][_MEASURE]
        by_clicks, by_labels = _relative(seen, seen["old"]), _relative(true, true["old"])
        self.found("verdict", f"clicks alone: {clicks['verdict']}. {clicks['reason']}")
        if clicks["settling"]:
            way, verb = clicks["settling"][0], "confirm" if clicks["decision"] == "better" else "settle"
            self.found("verdict", say_way(WayToSettle(**way), verb))
        values = [one["measures"][_MEASURE]["mean"] / true["old"] - 1 for one in rest]
        told = listed(f"{_signed(value)} ({label(name)})" for name, value in zip(others, values, strict=True))
        self.found(
            "verdict",
            f"change in {_MEASURE}: by clicks {_change(by_clicks)}, by labels {_change(by_labels)}. By labels, the "
            f"others would have changed it by {told}.",
        )
        return {
            "verdict": {"decision": clicks["decision"], "reason": clicks["reason"], "measure": _MEASURE, **by_clicks},
            "labels": {"measure": _MEASURE, **by_labels, "others": dict(zip(others, values, strict=True))},
        }

    def export(self) -> Facts:
        """The ranker for a search engine, with the proof that it scores alike there."""
        folder = self.path("opensearch")
        command = (
            f"export {self.path('rankers/' + self.facts['chosen'])} --to opensearch "
            f"--check {self.path('test.parquet')} -o {folder}"
        )
        self.story.step(
            "Export: the ranker for OpenSearch, scored as the engine would",
            "A replay of the engine's arithmetic scores all test candidates; nothing is written if one differs.",
            command,
        )
        found = typed(command, doing="exporting")
        parity = found["parity"]
        order = "all in the same order" if parity["same_order"] else f"{parity['swapped']:,} pairs change places"
        self.found(
            "export",
            f"{parity['rows']:,} candidates score alike (largest difference {parity['largest']:.2g}), {order}. What is "
            "left to you: the features in featureset.json.",
        )
        for note in found["notes"]:
            self.found("export", f"note: {note}.")
        return {"export": {"out": found["out"], "for": found["for"], "to_do": found["to_do"], "parity": parity}}

    def report(self) -> Facts:
        """One page about all of it, which leads to the pages of the steps."""
        from cldrank.cli.demo.page import save_pages

        folder = self.out / "experiment"
        self.story.step(
            "Report: one page, with links to all others",
            "The command writes the page of step 4; the demo adds the one to open.",
            f"experiment report {shell_word(folder)}",
        )
        pages = save_pages(self.out, {**self.facts, "told": self.told})
        self.story.line(f"   → {pages['report'].resolve()}", style="green")
        return {"told": self.told, "pages": {name: str(path) for name, path in pages.items()}}

    def next_steps(self) -> None:
        """What to try now."""
        story, out = self.story, self.out
        story.tell("Go on", style="bold", above=True)
        story.tell("What if the production ranker is better? Naive inherits its order.", indent=3)
        story.commands(
            f"experiment run {self.path('demo.toml')} --set production.fraction=0.02 "
            f"--set methods.Production.fraction=0.02 -o {self.path('better')}"
        )
        story.tell("All of this every day, with two gates, on a log of your own:", indent=3)
        story.commands("pipeline new LOG -f FEATURES", "pipeline run")
        story.tell("With labelled data of your own, a folder with train.txt and test.txt:", indent=3)
        story.commands(f"experiment run {shell_word(out / 'demo.toml')} --data FOLDER -o mine")

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _simulated(self, data: str, folder: str, seed: int, *, first: bool = False) -> list[str]:
        """The commands that make the logs of all devices."""
        return [
            world.simulate(self.out, data, folder, device, seed + number, first=first and not number)
            for number, device in enumerate(DEVICES)
        ]

    def _given(self, data: str, clicks: str) -> str:
        return f"-f {self.path(f'{data}.parquet')} -c {self.path(f'{clicks}.parquet')}"

    def _train(self, name: str, asked: str) -> str:
        curve = "" if asked.startswith("naive") else f" -p {self.path('rho.json')}"
        return (
            f"train {asked} {self._given('train', 'cells')}{curve} --hold-out {HELD_OUT} "
            f"-o {self.path(f'rankers/{name}')}"
        )


def label(name: str) -> str:
    """What a ranker is called in sentences.

    >>> label("cld-pair-trees"), label("ips")
    ('CLD-pair trees', 'IPS')
    """
    method = name.removesuffix("-trees")
    return _LABELS[method] + (" trees" if method != name else "")


def _eta(positions: list[dict[str, float]]) -> dict[str, float]:
    """The exponent of a power law and of the ends of its interval, from what is examined at position 2."""
    second = positions[1]
    ends = {"eta": "examined", "low": "high", "high": "low"}
    return {name: -math.log2(second.get(end, second["examined"])) for name, end in ends.items()}


def _relative(found: Facts, old: float) -> Facts:
    """A difference and its interval as shares of the old value."""
    return {"change": found["difference"] / old, "low": found["low"] / old, "high": found["high"] / old}


def _change(found: Facts) -> str:
    return f"{_signed(found['change'])} ({_signed(found['low'])} to {_signed(found['high'])})"


def _signed(share: float) -> str:
    return f"{share:+.0%}".replace("-", "−")


def _with_interval(found: Facts) -> str:
    return f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
