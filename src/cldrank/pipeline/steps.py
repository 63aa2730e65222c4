"""The steps of a pipeline, in the order in which they run.

A step is a function that describes its task: the hashes of what it reads, the parameters that decide its result, and
the work itself, which leaves files in a folder and returns an `Outcome`. `Task.key` hashes all of that.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cldrank.auditing import Audit, audit, audit_table
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.days import DayFolder
from cldrank.clicks.holding_out import HeldOut
from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.loading import feature_files, load
from cldrank.data.query_hash import held_out
from cldrank.decoding import plain
from cldrank.errors import CldrankWarning, DataError, UnidentifiableError, UsageError, hearing_warnings, warn
from cldrank.evaluation import ClickComparison, compare
from cldrank.evaluation.experiment_planning import MORE, say_way
from cldrank.evaluation.exposure import PRODUCTION
from cldrank.export import export_ranker
from cldrank.export.format import format_named
from cldrank.files import make_folder, save_json, save_text, scratch
from cldrank.fingerprints import content_hash, file_fingerprint
from cldrank.method_choice import Choice, auto
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured, methods
from cldrank.models import Epoch, Run, models
from cldrank.online import analyse
from cldrank.online.experiment_log import experiments_in
from cldrank.pipeline.pipeline_file import AUTO, PipelineDefinition, deciding
from cldrank.pipeline.shipped import RANKER, shipped_place
from cldrank.pipeline.toml_keys import as_keys, in_keys
from cldrank.propensity import BySegment, SegmentPropensities, estimators, logged_probability
from cldrank.propensity.affine_clicks import curve_of
from cldrank.propensity.choosing import choose_method, fitted_curve
from cldrank.propensity.curve_document import save_chart
from cldrank.propensity.curve_files import load_curve, parse_curve
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers import load_ranker, ranker_fingerprint
from cldrank.runs import Outcome, Store, Task, TaskRecord
from cldrank.safety import Safe, UnsafeError
from cldrank.tables import connect, open_table, table_files
from cldrank.tables.sources import text_files
from cldrank.wording import count, listed, some

Say = Callable[[str], None]
UNFINISHED = "unfinished"  # the folder of checkpoints of stopped fits
UNSAFE = "unsafe"  # why a run stops where no learned ranker is shown to be safe
_COUNTED_FILES = "counted-files.json"
_FROM_MILD_TO_BAD = ("ok", "note", "warning", "blocking")
_READING = ("numpy", "duckdb", "pyarrow")  # the packages that read logs
_RESULTS = {  # what steps read of earlier ones: the step, and the file or folder that it left
    "days": ("days", "days"),
    "cells": ("aggregate", "cells.parquet"),
    "propensities": ("propensities", "rho.json"),
    "ranker": ("train", RANKER),
}


@dataclass
class Workbench:
    """What the steps of a run share.

    root       the folder of all runs
    results    the records of the steps that are done, by name
    inputs     the fingerprints of the files of each input, by name of the input and of the file
    say        told what is going on
    """

    pipeline: PipelineDefinition
    root: Path
    results: dict[str, TaskRecord] = field(default_factory=dict)
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)
    say: Say = lambda _: None

    @property
    def store(self) -> Store:
        """The results of steps, which runs share."""
        return Store(self.root / "steps")

    # -- what goes in ------------------------------------------------------------------------------------------------

    def hashes(self, *names: str) -> dict[str, str]:
        """The hash of each input of a task: of files by their names and content, or of what an earlier step left."""
        return {name: self._hash(name) for name in names}

    def _hash(self, name: str) -> str:
        if name in _RESULTS:
            step, file = _RESULTS[name]
            return self.results[step].hash_of(file)
        if name not in self.inputs:
            self.say(f"{name}: reading fingerprints")
            self.inputs[name] = _fingerprints(self.files(name))
        content = content_hash(self.inputs[name])
        if name == "ratings":
            chosen = {"people": sorted(self.pipeline.ratings.people), **self.pipeline.options["ratings"]}
            return content_hash({"files": content, "options": chosen})
        if name != "features":
            return content
        return content_hash({"files": content, "options": self.pipeline.options["features"]})

    @property
    def rated(self) -> tuple[str, ...]:
        """The input of ratings, if there are any."""
        return ("ratings",) if self.pipeline.ratings.file else ()

    def files(self, name: str) -> dict[str, Path]:
        """The files of an input as they are now, by their paths as seen from where the pipeline lies."""
        pipeline = self.pipeline
        if name == "features":
            files = [file.path for file in feature_files(pipeline.paths(pipeline.features.files))]
        elif name == "ratings":
            files = [pipeline.path(pipeline.ratings.file)]
        elif name == "propensities file":
            files = [pipeline.path(pipeline.propensities.file)]
        elif name == "online":
            files = text_files(pipeline.paths(pipeline.online.files))
        else:
            files = text_files(self.log_paths())
        home = pipeline.source.parent.absolute()
        paths = {file.absolute(): file for file in files}
        return {
            (path.relative_to(home) if path.is_relative_to(home) else path).as_posix(): file
            for path, file in paths.items()
        }

    def check_inputs(self, names: Collection[str]) -> None:
        """Refuse inputs that were changed since their fingerprints were taken: nobody could say what was read."""
        for name in (name for name in names if name in self.inputs):
            before, now = self.inputs[name], _fingerprints(self.files(name))
            changed = next((file for file in {**before, **now} if before.get(file) != now.get(file)), None)
            if changed is not None:
                did = "arrived" if changed not in before else "was changed" if changed in now else "was removed"
                raise DataError(f"{changed} {did} while the run was reading the {name}; run again when all is there.")

    def log_paths(self) -> list[str]:
        """The files, folders and patterns of the log."""
        return self.pipeline.paths(self.pipeline.log.files)

    def counting(self) -> dict[str, Any]:
        """The options of how the log is read and counted."""
        segment, options = self.pipeline.propensities.segment, self.pipeline.reading_options(aggregate)
        return {**options, "columns": {**options.get("columns", {}), "segment": segment}} if segment else options

    # -- what steps work with ----------------------------------------------------------------------------------------

    def result(self, step: str, file: str) -> Path:
        """A file or folder that a step left."""
        return self.store.folder / self.results[step].folder / file

    @cached_property
    def dataset(self) -> RankingDataset:
        """The candidates with their features."""
        with in_keys(self.pipeline, "features"):
            return load(self.pipeline.paths(self.pipeline.features.files), **self.pipeline.options["features"])

    @cached_property
    def clicks(self) -> ClickTable:
        """The cells, on the candidates."""
        return ClickTable.read(self.result("aggregate", "cells.parquet"), self.dataset)

    @cached_property
    def rated_clicks(self) -> ClickTable:
        """The cells beside ratings, if there are any."""
        if not self.rated:
            return self.clicks
        chosen, options = self.pipeline.ratings, self.pipeline.options["ratings"]
        with in_keys(self.pipeline, "ratings"):
            return self.clicks.rated(self.pipeline.path(chosen.file), people=chosen.people, **options)

    @cached_property
    def curve(self) -> Curve:
        """The propensities; not held against the log's pages where they were estimated from them, or are trusted.

        A part of the queries, such as those held out, may by chance refute a curve estimated from all.
        """
        curve: Curve = load_curve(self.result("propensities", "rho.json"))
        chosen = self.pipeline.propensities
        estimated = not (chosen.assume or chosen.file) and chosen.clip is None
        return curve.trusted() if estimated or self.pipeline.verdict.trust_propensity else curve


def _fingerprints(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: file_fingerprint(file) for name, file in files.items()}


# -- audit ---------------------------------------------------------------------------------------------------------


def audit_task(bench: Workbench) -> Task:
    """Check whether the log is fit for training; a verdict as bad as `stop_at` ends the run."""
    options, segment = bench.pipeline.reading_options(audit), bench.pipeline.propensities.segment

    def work(folder: Path) -> Outcome:
        dataset = bench.dataset
        bench.say("auditing the log")
        audited = audit(bench.log_paths(), dataset, **options)
        surfaces = [group.name for group in (audited.facts.log and audited.facts.log.surfaces) or ()]
        if len(surfaces) > 1 and not segment:
            several = f"the log has pages of several surfaces ({listed(surfaces)}), and one curve is taken for all"
            warn(CldrankWarning(f'{several}; segment = "surface" in [propensities] estimates a curve for each.'))
        return _audited(bench, audited, folder)

    parameters = {"stop_at": bench.pipeline.audit.stop_at, "segment": segment, **deciding(options)}
    return Task("audit", bench.hashes("log", "features"), parameters, work, _READING)


def window_audit_task(bench: Workbench) -> Task:
    """Audit the days that are learned from, which are not all that the log holds, or more than it still holds."""

    def work(folder: Path) -> Outcome:
        bench.say("auditing the window")
        days = bench.results["aggregate"].facts["days"]
        seen = f"{count(len(days), 'day')} from {days[0]} to {days[-1]}"
        return _audited(bench, audit_table(bench.clicks, source=seen), folder, f" ({seen})")

    stop_at = {"stop_at": bench.pipeline.audit.stop_at}
    return Task("window-audit", bench.hashes("cells", "features"), stop_at, work, ("numpy",))


def _audited(bench: Workbench, audited: Audit, folder: Path, seen: str = "") -> Outcome:
    """The outcome of an audit, whose page is written. `seen` says what was audited, if not the whole log."""
    save_json(folder / "audit.json", plain(audited.as_dict()))
    save_text(folder / "audit.html", audited.to_html())
    verdict, severity = audited.verdict, str(audited.verdict.severity)
    serious = [finding for finding in verdict.findings if finding.severity in ("warning", "blocking")]
    facts = {"severity": severity, "findings": [f"{finding.topic}: {finding.found}" for finding in serious]}
    stop_at = bench.pipeline.audit.stop_at
    stops = stop_at != "never" and _FROM_MILD_TO_BAD.index(severity) >= _FROM_MILD_TO_BAD.index(stop_at)
    return Outcome(verdict.sentence + seen, facts, severity if stops else "")


# -- cells ---------------------------------------------------------------------------------------------------------


def days_task(bench: Workbench) -> Task:
    """Count new log files, day by day.

    A file is counted by itself, as a task of its own. Whatever content a file has now is what counts, also if it is
    empty or was there before; a file that was deleted stays counted as it was last.
    """
    options = bench.counting()
    identity = content_hash({"log": plain(bench.pipeline.log.get_params()), "counting": plain(deciding(options))})[:20]
    memory = bench.root / _COUNTED_FILES
    remembered = _remembered(memory)
    inputs = bench.hashes("log")
    files = bench.inputs["log"]
    every = {**remembered.get(identity, {}), **files}

    def work(folder: Path) -> Outcome:
        records = {name: _counted(bench, name, key, options) for name, key in every.items()}
        save_json(memory, {**remembered, identity: every})
        by_day: dict[str, list[Path]] = {}
        for record in {record.key: record for record in records.values()}.values():
            for name in record.wrote:
                by_day.setdefault(Path(name).stem, []).append(bench.store.folder / record.folder / name)
        for day, cells in by_day.items():
            target = make_folder(folder / "days") / f"{day}.parquet"
            if len(cells) == 1:
                shutil.copyfile(cells[0], target)
            else:
                ClickTable.merged([ClickTable.read(file) for file in cells]).save(target)
        new = [record for record in records.values() if record.state == "done"]
        facts = {
            "rows": sum(record.facts["rows"] for record in new),
            "set_aside": sum(record.facts["set_aside"] for record in new),
            "counted_before": len(files) - len(new),
            "written": sorted({Path(name).stem for record in new for name in record.wrote}),
            "days": sorted(by_day),
            "counts": sorted({record.folder for record in records.values()}),
        }
        counted = f"{count(len(new), 'file')} counted, {facts['counted_before']} before"
        return Outcome(f"{counted}; {count(len(by_day), 'day')} there", facts)

    task = Task("days", {**inputs, "log": content_hash(every)}, deciding(options), work, _READING)
    if every != remembered.get(identity) and bench.store.find(task.name, task.key):
        save_json(memory, {**remembered, identity: every})  # files are restored: `work` will not be done again
    return task


def _remembered(memory: Path) -> dict[str, dict[str, str]]:
    """The fingerprint of every file that was counted, by its name, for each log and way to read it."""
    try:
        content = json.loads(memory.read_text(encoding="utf-8"))
        return {str(log): {str(name): str(key) for name, key in files.items()} for log, files in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _counted(bench: Workbench, name: str, fingerprint: str, options: Mapping[str, Any]) -> TaskRecord:
    """The counts of a file of the log, day by day; counted now unless they are in the store."""

    def work(folder: Path) -> Outcome:
        path = bench.files("log")[name]
        if not _has_rows(path):
            return Outcome(facts={"rows": 0, "set_aside": 0})
        with _with_partitions(path, bench.log_paths()) as source:
            counted = aggregate(source, days=True, **options)
        for day, cells in counted.days.items():
            cells.save(folder / f"{day.isoformat()}.parquet")
        return Outcome(facts={"rows": counted.account.rows, "set_aside": counted.account.n_rejected})

    task = Task("count", {"file": fingerprint}, deciding(options), work, _READING)
    record = bench.store.find(task.name, task.key)
    if record is not None:
        return record
    if name not in bench.files("log"):
        raise DataError(
            f"{name} is gone, and so is what was counted of it; bring it back, or delete {bench.root / _COUNTED_FILES} "
            "to go on without it."
        )
    bench.say(f"counting {name}")
    return bench.store.carry_out(task)


def _has_rows(path: Path) -> bool:
    if not path.stat().st_size:
        return False
    with open_table(path) as table:
        return bool(table.engine.rows(f"SELECT 1 AS row FROM {table} LIMIT 1"))


@contextmanager
def _with_partitions(path: Path, log: Sequence[str]) -> Iterator[Path]:
    """A file of a log; below folders such as `device=phone`, a folder with that file alone."""
    file = next(file for file in table_files(list(log)) if file.path == path)
    if not file.partition:
        yield path
        return
    with scratch() as folder:
        link = folder / path.relative_to(file.root)
        make_folder(link.parent)
        link.symlink_to(path.resolve())
        yield folder


def aggregate_task(bench: Workbench) -> Task:
    """Count how often each candidate was shown at each position, and clicked, in the log or in a window of its days."""
    window = bench.pipeline.window
    inputs = bench.hashes("days" if window.last else "log", "features")
    parameters = {"last": window.last, "depth": window.depth, **({} if window.last else deciding(bench.counting()))}

    def work(folder: Path) -> Outcome:
        bench.dataset  # noqa: B018  # read before it is said what is going on
        bench.say("aggregating the log")
        if window.last:
            days = DayFolder(bench.result("days", "days"))
            table = days.read(bench.dataset, last=window.last)
            facts: dict[str, Any] = {"days": [str(day) for day in days.window(window.last)]}
        else:
            counted = aggregate(bench.log_paths(), bench.dataset, **bench.counting())
            pq.write_table(counted.rejects, folder / "rejects.parquet")
            table, account = counted.clicks, counted.account
            facts = {"rows": account.rows, "set_aside": account.n_rejected, "reasons": dict(account.rejected)}
        if window.depth is not None and window.depth > table.depth:
            raise UsageError(
                f"window.depth = {window.depth} is deeper than the log, which reaches down to {table.depth}."
            )
        table = table if window.depth in (None, table.depth) else table.first(window.depth)
        table.save(folder / "cells.parquet")
        facts |= {"cells": table.n_cells, "depth": table.depth}
        facts |= {"impressions": int(table.impressions.sum()), "clicks": int(table.clicks.sum())}
        aside = f"; {facts['set_aside']:,} of {facts['rows']:,} rows set aside" if "rows" in facts else ""
        words = f"{facts['cells']:,} cells, {facts['impressions']:,} impressions, {facts['clicks']:,} clicks{aside}"
        return Outcome(words, facts)

    return Task("aggregate", inputs, parameters, work, _READING)


# -- propensities --------------------------------------------------------------------------------------------------


def propensities_task(bench: Workbench) -> Task:
    """The examination probability of each position: estimated, assumed, or read from a file."""
    chosen = bench.pipeline.propensities
    fixed = chosen.assume or chosen.file
    needs = "cells" if fixed or chosen.method == "auto" else estimators()[chosen.method].needs
    options = {"seed": bench.pipeline.seed, **bench.pipeline.options["propensities"]}

    def work(folder: Path) -> Outcome:
        bench.say("estimating propensities")
        curve, words, method = _curve(bench, options)
        curve.save(folder / "rho.json")
        curves = dict(curve) if isinstance(curve, SegmentPropensities) else {"examined": curve_of(curve)}
        save_chart(curves, folder / "rho.svg")
        deepest = max(map(len, curves.values()))
        if deepest < bench.clicks.depth:
            raise UsageError(
                f"the propensities reach down to position {deepest}, the clicks to {bench.clicks.depth}; window.depth "
                f"= {deepest} treats pages as if they ended there."
            )
        values = {name: [round(float(rho), 4) for rho in curve.values] for name, curve in curves.items()}
        shown = "; ".join(f"{name}: {listed([f'{rho:.3g}' for rho in own[:3]])} …" for name, own in values.items())
        return Outcome(f"{words}; {shown}", {"method": method, "values": values})

    names = ["cells", *(["propensities file"] if chosen.file else []), *([needs] if needs != "cells" else [])]
    own = {name: option for name, option in chosen.get_params().items() if name != "file"}
    more = ("torch",) if needs == "features" else ()
    return Task(
        "propensities", bench.hashes(*names), plain({**own, "options": options}), work, ("numpy", "scipy", *more)
    )


def _curve(bench: Workbench, options: Mapping[str, Any]) -> tuple[Curve, str, str]:
    """The curve or, by segment, the curves; how they came about in words; and by which method."""
    chosen, table = bench.pipeline.propensities, bench.clicks
    if chosen.assume:
        return parse_curve(chosen.assume, table), f"{chosen.assume} is assumed", "assumed"
    if chosen.file:
        return load_curve(bench.pipeline.path(chosen.file)), f"read from {chosen.file}", "file"
    try:
        name, words = chosen.method, f"by {chosen.method}"
        if chosen.method == "auto":
            best = choose_method(table, options.get("depth"))
            name, words = best.estimator, f"by {best.estimator}, since {best.reason}"
        estimator: Any = estimators()[name](**options)
        if chosen.segment:
            estimator = BySegment(estimator)
        elif estimator.needs == "log":
            reading = bench.pipeline.reading_options(logged_probability)
            estimator = estimator.given_log(logged_probability(bench.log_paths(), table, **reading))
        return fitted_curve(estimator, table, bench.dataset, clip=chosen.clip), words, name
    except UnidentifiableError as error:
        raise DataError(
            f"{error} A curve that you take for granted goes on: propensities.assume = 'power:1.0', say."
        ) from None


# -- training ------------------------------------------------------------------------------------------------------


def train_task(bench: Workbench) -> Task:
    """Train the method on all queries but those held out; where nothing is safe, the run stops."""
    chosen, options = bench.pipeline.train, bench.pipeline.options["train"]
    own: dict[str, Any] = {name: option for name, option in options.items() if name != "device"}
    packages = ["numpy", "scipy"]
    if chosen.method == AUTO:
        own["export_to"] = list(bench.pipeline.export.to)
        packages += [kind.needs[0] for kind in models().values() if kind.needs is not None]
    else:
        packages += filter(None, [configured(methods()[chosen.method], dict(options)).package])
    inputs = bench.hashes("features", "cells", "propensities", *bench.rated)
    parameters = plain({**chosen.get_params(), "options": own})
    return Task("train", inputs, parameters, partial(_trained, bench), tuple(packages))


def _trained(bench: Workbench, folder: Path) -> Outcome:
    chosen = bench.pipeline.train
    held = HeldOut.of(bench.dataset, bench.rated_clicks, chosen.hold_out)
    dataset, table = held.others
    checkpoint = bench.root / UNFINISHED / f"{train_task(bench).folder}.checkpoint"
    choice = _choice(bench)
    method = _reporting(choice.method, bench, checkpoint)
    bench.say(f"training {method.label}")
    margin, production = chosen.safe_margin, chosen.production_feature or None
    learner = Safe(method, margin=margin, production=production) if chosen.safe else method
    try:
        with hearing_warnings() as heard:
            ranker = learner.fit(dataset, *needed(learner.required, table, bench.curve)).ranker_
    except UnsafeError as error:
        return Outcome(as_keys(str(error), bench.pipeline, "train"), {"hold_out": held.as_dict()}, UNSAFE)
    if method.status_ == "interrupted":
        raise KeyboardInterrupt  # the fit kept its best ranker so far, not the ranker that was asked for
    command = f"cldrank pipeline run {bench.pipeline.source.name}"
    known = {"command": command, "held_out": chosen.hold_out, "chosen": choice.reason}
    origin = ranker.provenance.documented(list(map(str, heard)), **known)
    ranker.with_provenance(origin).save(folder / RANKER)
    checkpoint.unlink(missing_ok=True)
    safety = f"; {origin.safety}" if origin.safety is not None else ""
    facts = {"status": method.status_, "steps": int(method.n_iter_), "hold_out": held.as_dict()}
    why = f". {choice.reason}" if choice.reason else ""
    return Outcome(f"{method.label}, {method.status_}; {held}{safety}{why}", facts)


def _choice(bench: Workbench) -> Choice:
    """The method that the file names or, by `auto`, the one that suits the cells."""
    pipeline, options = bench.pipeline, dict(bench.pipeline.options["train"])
    if pipeline.train.method != AUTO:
        return Choice(configured(methods()[pipeline.train.method], options), bench.curve)
    return auto(bench.dataset, bench.rated_clicks, bench.curve, export_to=pipeline.export.to, run=Run(**options))


def _reporting(method: Any, bench: Workbench, checkpoint: Path) -> Any:
    """The method, which reports its epochs and, where it has such, saves its state as it goes on."""
    steps = method.model.progress()
    if steps is None:
        return method

    def report(epoch: Epoch) -> None:
        bench.say(f"training {method.label}: {steps[0]} {epoch.number} of {steps[1]}, loss {epoch.loss:.4f}")

    make_folder(checkpoint.parent)
    method.set_params(run__on_epoch=report, run__checkpoint=str(checkpoint), run__resume=checkpoint.exists())
    return method


# -- verdict -------------------------------------------------------------------------------------------------------


def verdict_task(bench: Workbench) -> Task:
    """Judge the ranker by the clicks on queries that it was not trained on, as `cldrank compare` does."""
    chosen = bench.pipeline.verdict
    inputs = bench.hashes("ranker", "features", "cells", "propensities", *bench.rated)
    own = {"hold_out": bench.pipeline.train.hold_out, "seed": bench.pipeline.seed}
    parameters = {**chosen.get_params(), "ship_if": sorted(chosen.ship_if), **own}
    if bench.pipeline.online.files:
        parameters["then"] = "online"
    return Task("verdict", inputs, plain(parameters), partial(_judged, bench), ("numpy", "scipy"))


def _judged(bench: Workbench, folder: Path) -> Outcome:
    chosen = bench.pipeline.verdict
    held = held_out(bench.dataset.query_ids, bench.pipeline.train.hold_out)
    bench.say("judging by clicks")
    comparison = compare(
        load_ranker(bench.result("train", RANKER)),
        PRODUCTION,
        bench.dataset[held],
        list(chosen.measures) or None,
        clicks=bench.rated_clicks[held],
        propensities=bench.curve,
        names=("the new ranker", PRODUCTION),
        margin=chosen.margin,
        confidence=chosen.confidence,
        estimator=chosen.estimator,
        trust_propensity=chosen.trust_propensity,
        seed=bench.pipeline.seed,
    )
    save_json(folder / "verdict.json", plain(comparison.as_dict()))
    save_text(folder / "verdict.html", comparison.to_html())
    verdict, first = comparison.verdict, comparison.first
    bounds = {"measure": first.measure, "low": first.interval.low, "high": first.interval.high}
    facts = plain({"decision": verdict.decision, **bounds, **_settling(bench, comparison)})
    is_open = verdict.is_open and bench.pipeline.online.files  # the experiment decides
    stop = "" if is_open or verdict.decision in chosen.ship_if else verdict.decision
    return Outcome(f"{verdict.words}: {verdict.reason}", facts, stop)


def _settling(bench: Workbench, comparison: ClickComparison) -> dict[str, Any]:
    """Where the verdict is open: the experiment that settles it with the fewest pages, and the commands for it."""
    ways = [way for way in comparison.settling if way.pages is not None and way.name != MORE]
    if not comparison.verdict.is_open or not ways:
        return {}
    ranker = shlex.quote(str(bench.result("train", RANKER)))
    commands = [f"cldrank serve {ranker} --against OLD-RANKER", f"cldrank online analyse LOG --planned {ways[0].pages}"]
    return {"settle": say_way(ways[0]), "commands": commands}


# -- experiment ----------------------------------------------------------------------------------------------------


def online_task(bench: Workbench) -> Task:
    """Judge the ranker by the experiment that tests it; it decides where the verdict is open, and may object."""
    chosen, offline = bench.pipeline.online, bench.results["verdict"].facts["decision"]
    rules = {"ship_if": sorted(bench.pipeline.verdict.ship_if), "offline": offline}
    own = {name: option for name, option in chosen.get_params().items() if name != "files"}
    parameters = plain({**own, **rules, **deciding(bench.pipeline.options["online"])})
    return Task("online", bench.hashes("online", "ranker"), parameters, partial(_settled, bench), _READING)


def _settled(bench: Workbench, folder: Path) -> Outcome:
    chosen, ship_if = bench.pipeline.online, bench.pipeline.verdict.ship_if
    offline = bench.results["verdict"].facts["decision"]
    bench.say("judging by the experiment")
    source, layout = bench.pipeline.paths(chosen.files), LogLayout.of(None, bench.pipeline.options["online"])
    ranker = ranker_fingerprint(load_ranker(bench.result("train", RANKER)))
    with connect("duckdb") as engine:
        tested = experiments_in(source, engine, layout)
    own = [name for name in tested if name.partition("-")[0] == ranker]
    if len(own) != 1:
        which = f"tests {some(tested) or 'nothing'}, and not this ranker, {ranker}" if not own else f"has {listed(own)}"
        stop = "" if offline in ship_if else offline
        return Outcome(f"offline: {offline}; online: nothing, since the log {which}", {"decision": None}, stop)
    result = analyse(
        source,
        measure=chosen.measure or None,
        margin=chosen.margin,
        confidence=chosen.confidence,
        planned=chosen.planned,
        experiment=own[0],
        layout=layout,
    )
    save_json(folder / "online.json", plain(result.as_dict()))
    save_text(folder / "online.html", result.to_html())
    verdict, interval = result.verdict, result.first.difference
    facts = {"decision": verdict.decision, "measure": result.first.measure, "low": interval.low, "high": interval.high}
    passes = verdict.decision in ship_if or (offline in ship_if and verdict.decision != "worse")
    words = f"offline: {offline}; online: {verdict.words}, {verdict.reason}"
    return Outcome(words, plain(facts), "" if passes else verdict.decision)


# -- export and card -----------------------------------------------------------------------------------------------


def export_task(bench: Workbench) -> Task:
    """Write the ranker for each engine; nothing is shipped unless all of them score alike."""
    chosen = {"name": bench.pipeline.export.name, "approximate": bench.pipeline.export.approximate}
    formats = bench.pipeline.export.to
    parameters = {"to": list(formats), **chosen, **bench.pipeline.options["export"]}

    def work(folder: Path) -> Outcome:
        facts = {name: _exported(bench, name, folder / name) for name in formats}
        words = listed([f"{name} ({fact['parity']})" for name, fact in facts.items()])
        return Outcome(f"written for {words}" if facts else "no format is named: the ranker goes as it is", facts)

    return Task("export", bench.hashes("ranker", "features"), parameters, work, ("numpy",))


def _exported(bench: Workbench, name: str, out: Path) -> dict[str, Any]:
    """Write a format; definitions of features that users completed where it is shipped are kept."""
    bench.say(f"exporting to {name}")
    chosen, tables = bench.pipeline.export, bench.pipeline.options["export"]
    shipped = shipped_place(bench.pipeline) / name
    if format_named(name).one_file:
        out = make_folder(out) / f"ranker.{name}"  # such formats are called as their files end
    elif shipped.is_dir():
        shutil.copytree(shipped, out)
    shipment = export_ranker(
        load_ranker(bench.result("train", RANKER)),
        name,
        out,
        name=chosen.name,
        version=tables.get("versions", {}).get(name),
        renamed=tables.get("rename", {}),
        approximate=chosen.approximate,
        check=bench.dataset,
    )
    notes = [*shipment.exported.losses, *shipment.exported.notes]
    return {"for": shipment.target, "parity": str(shipment.parity), "notes": notes, "to_do": dict(shipment.to_do)}


def card_task(bench: Workbench) -> Task:
    """Write the model card, with what the pipeline decided, and ship the ranker."""
    lines = ["## What the pipeline decided", ""]
    for name in ("audit", "window-audit", "propensities", "verdict", "online", "export"):
        if name in bench.results:
            lines.append(f"- **{name}**: {' '.join(bench.results[name].decided.split())}")
            lines += [f"  - {warning}" for warning in bench.results[name].warnings]
    notes = "\n".join(lines) + "\n"

    def work(folder: Path) -> Outcome:
        bench.say("writing the model card")
        ranker = load_ranker(bench.result("train", RANKER))
        ranker.save(folder / RANKER)
        save_text(folder / RANKER / "NOTES.md", notes)
        ranker.save(folder / RANKER)  # whose card takes up the notes
        place = bench.pipeline.export.folder
        return Outcome(f"the ranker, its card and its exports are in {place}/", {"folder": place})

    exports = {f"export {name}": bench.results["export"].hash_of(name) for name in bench.pipeline.export.to}
    inputs = bench.hashes("ranker") | exports
    return Task("card", inputs, {"notes": notes}, work, ("numpy",))


STEPS: Mapping[str, Callable[[Workbench], Task]] = {
    "audit": audit_task,
    "days": days_task,
    "aggregate": aggregate_task,
    "window-audit": window_audit_task,
    "propensities": propensities_task,
    "train": train_task,
    "verdict": verdict_task,
    "online": online_task,
    "export": export_task,
    "card": card_task,
}


def steps_of(pipeline: PipelineDefinition) -> list[str]:
    """The names of the steps that a pipeline has."""
    unneeded = [
        *([] if pipeline.window.last else ["days", "window-audit"]),
        *([] if pipeline.online.files else ["online"]),
    ]
    return [name for name in STEPS if name not in unneeded]
