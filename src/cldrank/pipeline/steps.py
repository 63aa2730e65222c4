"""The steps of a pipeline, in the order in which they run.

A step is a function that describes its task: the hashes of what it reads, the parameters that decide its result, and
the work itself, which leaves files in a folder and says what it found. `Task.key` hashes all of that.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.holding_out import HeldOut
from cldrank.data.query_hash import held_out
from cldrank.decoding import plain
from cldrank.errors import (
    CldrankWarning,
    DataError,
    MissingValueError,
    UnidentifiableError,
    UsageError,
    hearing_warnings,
    warn,
)
from cldrank.evaluation import compare
from cldrank.evaluation.orders import PRODUCTION
from cldrank.export import export_ranker
from cldrank.export.format import format_named
from cldrank.files import make_folder, save_json, save_text, scratch
from cldrank.fingerprints import content_hash, file_fingerprint
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured, methods
from cldrank.pipeline.definition import AS_SHIPPED, USERS, PipelineDefinition, deciding
from cldrank.pipeline.shipped import RANKER, shipped_content, shipped_place
from cldrank.propensity import SegmentPropensities, estimators
from cldrank.propensity.affine_clicks import curve_of
from cldrank.propensity.comparing import choose_method, fitted_curve, fitted_segments
from cldrank.propensity.curve_document import save_chart
from cldrank.propensity.curve_files import load_curve, parse_curve
from cldrank.rankers import load_ranker
from cldrank.runs import Outcome, Store, Task, TaskRecord
from cldrank.safety import Safe, UnsafeError
from cldrank.tables import table_files
from cldrank.tables.sources import text_files
from cldrank.wording import count, listed

if TYPE_CHECKING:
    from cldrank.auditing import Audit
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.models import Epoch
    from cldrank.propensity.segment_propensities import Curve

Say = Callable[[str], None]
UNFINISHED = "unfinished"  # the folder with the states of fits that were stopped
UNSAFE = "unsafe"  # why a run stops where nothing that was learned is shown to be safe
_IMPORTED = "imported/log.parquet"
_COUNTED_FILES = "counted-files.json"
_FROM_MILD_TO_BAD = ("ok", "note", "warning", "blocking")
_READING = ("numpy", "duckdb", "pyarrow")  # the packages that read logs


@dataclass
class Workbench:
    """What the steps of a run share.

    root       the folder of all runs
    results    the records of the steps that are done, by name
    inputs     the fingerprints of the files of each input, by name of the input and of the file
    override   why a ranker is to be shipped whatever the verdict says; empty: it is not
    say        told what is going on
    """

    pipeline: PipelineDefinition
    root: Path
    results: dict[str, TaskRecord] = field(default_factory=dict)
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)
    override: str = ""
    say: Say = lambda _: None
    _listing: dict[str, Callable[[], dict[str, Path]]] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """The results of steps, which runs share."""
        return Store(self.root / "steps")

    # -- what goes in ------------------------------------------------------------------------------------------------

    def input_hash(self, name: str, list_files: Callable[[], Collection[Path]]) -> str:
        """The hash of some files, by their names and their content; they go into the record of the run."""
        if name not in self.inputs:
            self.say(f"{name}: reading fingerprints")
            self._listing[name] = lambda: self._by_name(list_files())
            self.inputs[name] = _fingerprints(self._listing[name]())
        return content_hash(self.inputs[name])

    def check_inputs(self, names: Collection[str]) -> None:
        """Refuse inputs that were changed since their fingerprints were taken: nobody could say what was read."""
        for name in (name for name in names if name in self._listing):
            before, now = self.inputs[name], _fingerprints(self._listing[name]())
            changed = next((file for file in {**before, **now} if before.get(file) != now.get(file)), None)
            if changed is not None:
                did = "arrived" if changed not in before else "was changed" if changed in now else "was removed"
                raise DataError(f"{changed} {did} while the run was reading the {name}; run again when all is there.")

    def _by_name(self, files: Collection[Path]) -> dict[str, Path]:
        """Files by their paths, as they are seen from where the pipeline lies."""
        home = self.pipeline.source.parent.absolute()
        paths = [(file.absolute(), file) for file in files]
        return {
            (path.relative_to(home) if path.is_relative_to(home) else path).as_posix(): file for path, file in paths
        }

    def log_paths(self) -> list[str]:
        """The plain log: as it is named, or as it was imported."""
        if "import" in self.results:
            return [str(self.result("import", _IMPORTED))]
        return self.pipeline.paths(self.pipeline.log.files)

    def log_files(self) -> dict[str, Path]:
        """The files of the plain log, by the names under which runs know them again."""
        if "import" in self.results:
            return {_IMPORTED: self.result("import", _IMPORTED)}
        self.log_hashes()
        return self._listing["log"]()

    def log_hashes(self) -> dict[str, str]:
        """The hash of the plain log, and of the file with users whose rows are left out, if there is one."""
        if "import" in self.results:
            return {"log": self.result_hash("import", _IMPORTED), **self.users_hash()}
        return {"log": self.input_hash("log", lambda: text_files(self.log_paths())), **self.users_hash()}

    def users_hash(self) -> dict[str, str]:
        """The hash of the file with users whose rows are set aside, if there is one."""
        users = self.pipeline.options["log"].get(USERS)
        return {"excluded users": self.input_hash("excluded users", lambda: [Path(users)])} if users else {}

    def features_hash(self) -> str:
        """The hash of the feature files, and of how they are read."""
        from cldrank.data.loading import feature_files

        def list_files() -> list[Path]:
            return [file.path for file in feature_files(self.pipeline.paths(self.pipeline.features.files))]

        options = self.pipeline.options["features"]
        return content_hash({"files": self.input_hash("features", list_files), "options": options})

    def counting(self) -> dict[str, Any]:
        """The options of how the log is read and counted."""
        from cldrank.clicks.aggregate import aggregate

        segment = self.pipeline.propensities.segment
        return self.pipeline.reading_options(aggregate) | ({"segment": segment} if segment else {})

    @cached_property
    def dataset(self) -> RankingDataset:
        """The candidates with their features."""
        from cldrank.data.loading import load

        return load(self.pipeline.paths(self.pipeline.features.files), **self.pipeline.options["features"])

    # -- what steps left ---------------------------------------------------------------------------------------------

    def result(self, step: str, file: str) -> Path:
        """A file or folder that a step left."""
        return self.store.folder / self.results[step].folder / file

    def result_hash(self, step: str, file: str) -> str:
        """Its hash; of a folder, that of all files in it."""
        return self.results[step].hash_of(file)

    def learning_hashes(self) -> dict[str, str]:
        """The hashes of what is learned from, and judged by."""
        return {
            "features": self.features_hash(),
            "cells": self.result_hash("aggregate", "cells.parquet"),
            "propensities": self.result_hash("propensities", "rho.json"),
        }

    @cached_property
    def clicks(self) -> ClickTable:
        """The cells, on the candidates."""
        from cldrank.clicks.table import ClickTable

        return ClickTable.read(self.result("aggregate", "cells.parquet"), self.dataset)

    @cached_property
    def curve(self) -> Curve:
        """The propensities; not held against the log's pages where they were estimated from them, or are trusted.

        Some queries of the log, as those held out, would by chance refute what all of them together say.
        """
        curve: Curve = load_curve(self.result("propensities", "rho.json"))
        chosen = self.pipeline.propensities
        estimated = not (chosen.assume or chosen.file) and chosen.smooth == "no" and chosen.clip is None
        return curve.trusted() if estimated or self.pipeline.verdict.trust_propensity else curve


def _fingerprints(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: file_fingerprint(file) for name, file in files.items()}


# -- import --------------------------------------------------------------------------------------------------------


def import_task(bench: Workbench) -> Task:
    """Make a plain log of one that another program wrote, as `cldrank clicks import` does."""
    from cldrank.clicks.imports import import_log

    log = bench.pipeline.log
    named = {"queries": log.queries, "events": log.events} if log.from_ == "ubi" else {"log": log.files}
    paths = {name: bench.pipeline.paths(files) for name, files in named.items()}
    options = bench.pipeline.reading_options(import_log)

    def work(folder: Path) -> Outcome:
        bench.say(f"importing {log.from_}")
        given: dict[str, Any] = {**paths, **options}
        positional = [given.pop("log")] if "log" in given else []
        make_folder((folder / _IMPORTED).parent)
        report = import_log(log.from_, *positional, out=folder / _IMPORTED, progress=bench.say, **given)
        facts = {key: fact for key, fact in report.as_dict().items() if key not in ("out", "seconds")}
        return Outcome(str(report).splitlines()[0].rstrip(":"), facts)

    inputs = {name: bench.input_hash(name, partial(text_files, files)) for name, files in paths.items()}
    return Task("import", {**inputs, **bench.users_hash()}, {"from": log.from_, **deciding(options)}, work, _READING)


# -- audit ---------------------------------------------------------------------------------------------------------


def audit_task(bench: Workbench) -> Task:
    """Audit the log; a verdict as bad as `stop_at` ends the run."""
    from cldrank.auditing import audit

    options, segment = bench.pipeline.reading_options(audit), bench.pipeline.propensities.segment

    def work(folder: Path) -> Outcome:
        dataset = bench.dataset
        bench.say("auditing the log")
        found = audit(bench.log_paths(), dataset, **options)
        surfaces = [group.name for group in (found.facts.log and found.facts.log.surfaces) or ()]
        if len(surfaces) > 1 and not segment:
            several = f"the log has pages of several surfaces ({listed(surfaces)}), and one curve is taken for all"
            warn(CldrankWarning(f'{several}; segment = "surface" in [propensities] makes one for each.'))
        return _audited(bench, found, folder)

    inputs = {**bench.log_hashes(), "features": bench.features_hash()}
    parameters = {"stop_at": bench.pipeline.audit.stop_at, "segment": segment, **deciding(options)}
    return Task("audit", inputs, parameters, work, _READING)


def window_audit_task(bench: Workbench) -> Task:
    """Audit the days that are learned from, which are not all that the log holds, or more than it still holds."""

    def work(folder: Path) -> Outcome:
        from cldrank.auditing import audit_table

        bench.say("auditing the window")
        days = bench.results["aggregate"].facts["days"]
        seen = f"{count(len(days), 'day')} from {days[0]} to {days[-1]}"
        return _audited(bench, audit_table(bench.clicks, source=seen), folder, seen)

    inputs = {"cells": bench.result_hash("aggregate", "cells.parquet"), "features": bench.features_hash()}
    return Task("window-audit", inputs, {"stop_at": bench.pipeline.audit.stop_at}, work, ("numpy",))


def _audited(bench: Workbench, found: Audit, folder: Path, seen: str = "") -> Outcome:
    """What an audit leads to; its page is written. `seen` says what was audited, if not all of the log."""
    save_json(folder / "audit.json", plain(found.as_dict()))
    save_text(folder / "audit.html", found.to_html())
    severity = str(found.verdict.severity)
    serious = [finding for finding in found.verdict.findings if finding.severity in ("warning", "blocking")]
    facts = {"severity": severity, "findings": [f"{finding.topic}: {finding.found}" for finding in serious]}
    words = found.verdict.sentence + (f" ({seen})" if seen else "")
    return Outcome(words, facts, stopping(bench.pipeline.audit.stop_at, severity))


def stopping(stop_at: str, severity: str) -> str:
    """The severity, if it is as bad as what stops a run; otherwise nothing.

    >>> stopping("blocking", "warning"), stopping("warning", "blocking")
    ('', 'blocking')
    """
    if stop_at == "never" or _FROM_MILD_TO_BAD.index(severity) < _FROM_MILD_TO_BAD.index(stop_at):
        return ""
    return severity


# -- cells ---------------------------------------------------------------------------------------------------------


def days_task(bench: Workbench) -> Task:
    """The cells of each day, from what was counted of each log file.

    A file is counted by itself, as a task of its own. Whatever content a file has now is what counts, also if it is
    empty or was there before; a file that was deleted stays counted as it was last.
    """
    options, others = bench.counting(), bench.log_hashes()
    identity = content_hash({"log": plain(bench.pipeline.log.get_params()), "counting": plain(deciding(options))})[:20]
    memory = bench.root / _COUNTED_FILES
    remembered = _remembered(memory)
    files = _fingerprints(bench.log_files())
    every = {**remembered.get(identity, {}), **files}

    def work(folder: Path) -> Outcome:
        records = {name: _counted(bench, name, key, options) for name, key in every.items()}
        save_json(memory, {**remembered, identity: every})
        by_day: dict[str, list[Path]] = {}
        for record in {record.key: record for record in records.values()}.values():
            for name in record.wrote:
                by_day.setdefault(Path(name).stem, []).append(bench.store.folder / record.folder / name)
        for day, cells in by_day.items():
            _write_day(cells, make_folder(folder / "days") / f"{day}.parquet")
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

    return Task("days", {**others, "log": content_hash(every)}, deciding(options), work, _READING)


def _remembered(memory: Path) -> dict[str, dict[str, str]]:
    """The fingerprint of every file that was counted, by its name, for each log and way to read it."""
    try:
        content = json.loads(memory.read_text(encoding="utf-8"))
        return {str(log): {str(name): str(key) for name, key in files.items()} for log, files in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _counted(bench: Workbench, name: str, fingerprint: str, options: Mapping[str, Any]) -> TaskRecord:
    """What was counted of one file of the log, day by day; counted now, unless it was before."""

    def work(folder: Path) -> Outcome:
        from cldrank.clicks.aggregate import aggregate

        path = bench.log_files()[name]
        if not _has_rows(path):
            return Outcome(facts={"rows": 0, "set_aside": 0})
        with _with_partitions(path, bench.log_paths()) as source:
            found = aggregate(source, days=True, **options)
        for day, cells in found.days.items():
            cells.save(folder / f"{day.isoformat()}.parquet")
        return Outcome(facts={"rows": found.account.rows, "set_aside": found.account.n_rejected})

    task = Task("count", {"file": fingerprint}, deciding(options), work, _READING)
    record = bench.store.find(task.name, task.key)
    if record is not None:
        return record
    if name not in bench.log_files():
        raise DataError(
            f"{name} is gone, and so is what was counted of it; bring it back, or delete {bench.root / _COUNTED_FILES} "
            "to go on without it."
        )
    bench.say(f"counting {name}")
    return bench.store.carry_out(task)


def _has_rows(path: Path) -> bool:
    from cldrank.tables import open_table

    if not path.stat().st_size:
        return False
    with open_table(path) as table:
        return bool(table.engine.rows(f"SELECT 1 AS one FROM {table} LIMIT 1"))


@contextmanager
def _with_partitions(path: Path, log: Sequence[str]) -> Iterator[Path]:
    """One file of a log; below folders such as `device=phone`, a folder with that file alone."""
    file = next(file for file in table_files(list(log)) if file.path == path)
    if not file.partition:
        yield path
        return
    with scratch() as folder:
        link = folder / path.relative_to(file.root)
        make_folder(link.parent)
        link.symlink_to(path.resolve())
        yield folder


def _write_day(cells: Sequence[Path], target: Path) -> None:
    """The cells of a day, those of several files added up."""
    from cldrank.clicks.table import ClickTable

    if len(cells) == 1:
        shutil.copyfile(cells[0], target)
    else:
        ClickTable.merged([ClickTable.read(file) for file in cells]).save(target)


def aggregate_task(bench: Workbench) -> Task:
    """Count how often each candidate was shown at each position, and clicked, in the log or in a window of its days."""
    window = bench.pipeline.window
    inputs = {"days": bench.result_hash("days", "days")} if window.last else bench.log_hashes()
    parameters = {"last": window.last, "depth": window.depth, **({} if window.last else deciding(bench.counting()))}

    def work(folder: Path) -> Outcome:
        bench.dataset  # noqa: B018  # read before it is said what is going on
        bench.say("aggregating the log")
        table, facts = _window(bench) if window.last else _whole_log(bench, folder)
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

    return Task("aggregate", {**inputs, "features": bench.features_hash()}, parameters, work, _READING)


def _window(bench: Workbench) -> tuple[ClickTable, dict[str, Any]]:
    from cldrank.clicks.days import DayFolder

    days, last = DayFolder(bench.result("days", "days")), bench.pipeline.window.last
    return days.read(bench.dataset, last=last), {"days": [str(day) for day in days.window(last)]}


def _whole_log(bench: Workbench, folder: Path) -> tuple[ClickTable, dict[str, Any]]:
    import pyarrow.parquet as pq

    from cldrank.clicks.aggregate import aggregate

    found = aggregate(bench.log_paths(), bench.dataset, **bench.counting())
    pq.write_table(found.rejects, folder / "rejects.parquet")
    account = found.account
    return found.clicks, {"rows": account.rows, "set_aside": account.n_rejected, "reasons": dict(account.rejected)}


# -- propensities --------------------------------------------------------------------------------------------------


def propensities_task(bench: Workbench) -> Task:
    """Find out how likely each position is to be examined: estimated, assumed, or read from a file."""
    chosen, file = bench.pipeline.propensities, bench.pipeline.propensities.file
    needs = "cells" if chosen.assume or file or chosen.method == "auto" else estimators()[chosen.method].needs
    options = {"seed": bench.pipeline.seed, **bench.pipeline.options["propensities"]}

    def work(folder: Path) -> Outcome:
        bench.say("estimating propensities")
        curve, words, method = _curve_of(bench, options)
        curve.save(folder / "rho.json")
        curves = dict(curve) if isinstance(curve, SegmentPropensities) else {"examined": curve_of(curve)}
        save_chart(curves, folder / "rho.svg")
        deepest = max(map(len, curves.values()))
        if deepest < bench.clicks.depth:
            raise UsageError(
                f"the propensities reach down to position {deepest}, the clicks to {bench.clicks.depth}; window.depth "
                f"= {deepest} treats pages as if they ended there."
            )
        values = {name: [round(float(rho), 4) for rho in one.values] for name, one in curves.items()}
        shown = "; ".join(f"{name}: {listed([f'{rho:.3g}' for rho in own[:3]])} …" for name, own in values.items())
        return Outcome(f"{words}; {shown}", {"method": method, "values": values})

    inputs = {"cells": bench.result_hash("aggregate", "cells.parquet")}
    if file:
        inputs["propensities file"] = bench.input_hash("propensities file", lambda: [bench.pipeline.path(file)])
    inputs |= {"features": bench.features_hash()} if needs == "features" else {}
    inputs |= bench.log_hashes() if needs == "log" else {}
    own = {name: option for name, option in chosen.get_params().items() if name != "file"}
    more = {"log": ("duckdb",), "features": ("torch",)}.get(needs, ())
    return Task("propensities", inputs, plain({**own, "options": options}), work, ("numpy", "scipy", *more))


def _curve_of(bench: Workbench, options: Mapping[str, Any]) -> tuple[Curve, str, str]:
    """The curve or, by segment, the curves; how they came about in words; and by which method."""
    chosen = bench.pipeline.propensities
    if chosen.assume:
        return parse_curve(chosen.assume, bench.clicks), f"{chosen.assume} is assumed", "assumed"
    if chosen.file:
        return load_curve(bench.pipeline.path(chosen.file)), f"read from {chosen.file}", "file"
    try:
        name, words = chosen.method, f"by {chosen.method}"
        if chosen.method == "auto":
            best = choose_method(bench.clicks, options.get("depth"))
            name, words = best.estimator, f"by {best.estimator}, since {best.reason}"
        return _estimated(bench, estimators()[name](**options).quiet()), words, name
    except UnidentifiableError as error:
        raise DataError(
            f"{error} A curve that you take for granted goes on: propensities.assume = 'power:1.0', say."
        ) from None


def _estimated(bench: Workbench, estimator: Any) -> Curve:
    from cldrank.propensity import logged_probability

    chosen, table = bench.pipeline.propensities, bench.clicks
    finish: dict[str, Any] = {"smooth": None if chosen.smooth == "no" else chosen.smooth, "clip": chosen.clip}
    if chosen.segment:
        return fitted_segments(estimator, table, **finish)
    if estimator.needs == "log":
        reading = bench.pipeline.reading_options(logged_probability)
        estimator = estimator.given_log(logged_probability(bench.log_paths(), table, **reading))
    return fitted_curve(estimator, table, bench.dataset, **finish)


# -- training ------------------------------------------------------------------------------------------------------


def train_task(bench: Workbench) -> Task:
    """Train the method on all queries but those held out; where nothing is safe, the run stops."""
    chosen, options = bench.pipeline.train, bench.pipeline.options["train"]
    method = configured(methods()[chosen.method], dict(options))
    package = method.model.package(method.way)
    own = {name: option for name, option in options.items() if name != "device"}
    packages = ("numpy", "scipy", *(() if package is None else (package[0],)))
    parameters = plain({**chosen.get_params(), "options": own})
    return Task("train", bench.learning_hashes(), parameters, partial(_trained, bench), packages)


def _trained(bench: Workbench, folder: Path) -> Outcome:
    chosen = bench.pipeline.train
    held = HeldOut.of(bench.dataset, bench.clicks, chosen.hold_out)
    dataset, table = held.others
    checkpoint = bench.root / UNFINISHED / f"{train_task(bench).folder}.checkpoint"
    method = _method(bench, checkpoint)
    bench.say(f"training {method.label}")
    try:
        with hearing_warnings() as heard:
            if chosen.safe:
                safe = Safe(method, margin=chosen.safe_margin, production=chosen.production_feature or None)
                ranker = safe.fit(dataset, *needed(safe.required, table, bench.curve)).ranker_
            else:
                ranker = method.fit(dataset, *needed(method.required, table, bench.curve)).ranker_
    except UnsafeError as error:
        return Outcome(str(error), {"hold_out": held.as_dict()}, UNSAFE)
    except MissingValueError as error:
        raise DataError(f"{error} In a pipeline file, that is missing = 0 in [features].") from None
    if method.status_ == "interrupted":
        raise KeyboardInterrupt  # the fit kept its best ranker so far, which is not the one that was asked for
    command = f"cldrank pipeline run {bench.pipeline.source.name}"
    origin = ranker.provenance.documented(list(map(str, heard)), command=command, held_out=chosen.hold_out)
    ranker.with_provenance(origin).save(folder / RANKER)
    checkpoint.unlink(missing_ok=True)
    safety = f"; {origin.safety}" if origin.safety is not None else ""
    facts = {"status": method.status_, "steps": int(method.n_iter_), "hold_out": held.as_dict()}
    return Outcome(f"{method.label}, {method.status_}; {held}{safety}", facts)


def _method(bench: Workbench, checkpoint: Path) -> Any:
    """The method, which reports its epochs and, where it has such, saves its state as it goes on."""
    method: Any = configured(methods()[bench.pipeline.train.method], dict(bench.pipeline.options["train"]))
    steps = method.model.progress(method.way)
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
    chosen, against = bench.pipeline.verdict, bench.pipeline.verdict.against
    shipped = shipped_content(bench.pipeline)
    old = shipped_place(bench.pipeline) / RANKER if against == AS_SHIPPED else bench.pipeline.path(against)
    is_shipped = against == AS_SHIPPED and shipped.get(RANKER) == bench.result_hash("train", RANKER)
    inputs = {"ranker": bench.result_hash("train", RANKER), **bench.learning_hashes()}
    if is_shipped:  # what the ranker was judged against when it was new
        inputs |= {"against": str(shipped["against"])} if shipped.get("against") else {}
    elif against != PRODUCTION and (old / "ranker.json").is_file():
        inputs["against"] = bench.input_hash("against", lambda: _without_cards(old))
    own = {"hold_out": bench.pipeline.train.hold_out, "seed": bench.pipeline.seed}
    parameters = {**chosen.get_params(), "ship_if": sorted(chosen.ship_if), **own}

    def work(folder: Path) -> Outcome:
        if is_shipped:
            words = "the ranker is the one that is shipped: there is nothing to compare"
            return Outcome(words, {"decision": shipped.get("verdict"), "against": AS_SHIPPED})
        return _judged(bench, old if "against" in inputs else None, folder)

    return Task("verdict", inputs, plain(parameters), work, ("numpy", "scipy"))


def _without_cards(folder: Path) -> list[Path]:
    """The files of a ranker but for its model card, which does not decide what it does."""
    return [file for file in text_files(folder) if file.suffix != ".md"]


def _judged(bench: Workbench, old: Path | None, folder: Path) -> Outcome:
    chosen = bench.pipeline.verdict
    name = PRODUCTION if old is None else chosen.against
    note = "" if name == chosen.against else " Nothing is shipped yet, so this is against the order of the log."
    held = held_out(bench.dataset.query_ids, bench.pipeline.train.hold_out)
    bench.say("judging by clicks")
    found = compare(
        load_ranker(bench.result("train", RANKER)),
        PRODUCTION if old is None else load_ranker(old),
        bench.dataset[held],
        list(chosen.measures) or None,
        clicks=bench.clicks[held],
        propensities=bench.curve,
        names=("the new ranker", name),
        margin=chosen.margin,
        confidence=chosen.confidence,
        estimator=chosen.estimator,
        trust_propensity=chosen.trust_propensity,
        quick=chosen.quick,
        seed=bench.pipeline.seed,
        progress=lambda at: bench.say(f"judging by clicks: {at}"),
    )
    save_json(folder / "verdict.json", plain(found.as_dict()))
    save_text(folder / "verdict.html", found.to_html())
    decision, first = found.verdict.decision, found.first
    bounds = {"measure": first.measure, "low": first.interval.low, "high": first.interval.high}
    facts = plain({"decision": decision, "against": name, **bounds})
    words = f"{found.verdict.words}: {found.verdict.reason}{note}"
    return Outcome(words, facts, "" if decision in chosen.ship_if else decision)


# -- export and card -----------------------------------------------------------------------------------------------


def export_task(bench: Workbench) -> Task:
    """Write the ranker for each engine; nothing is shipped unless all of them score alike."""
    pipeline = bench.pipeline
    formats = {name: {**own.get_params(), "rename": dict(names)} for name, (own, names) in pipeline.formats.items()}
    features = {"features": bench.features_hash()} if pipeline.export.check else {}

    def work(folder: Path) -> Outcome:
        facts = {name: _exported(bench, name, folder / name) for name in formats}
        words = listed([f"{name} ({one['parity'] or 'not compared'})" for name, one in facts.items()])
        return Outcome(f"written for {words}" if facts else "no format is named: the ranker goes as it is", facts)

    inputs = {"ranker": bench.result_hash("train", RANKER), **features}
    return Task("export", inputs, {"formats": formats, "check": pipeline.export.check}, work, ("numpy",))


def _exported(bench: Workbench, name: str, out: Path) -> dict[str, Any]:
    """Write one format; definitions of features that users completed where it is shipped are kept."""
    bench.say(f"exporting to {name}")
    own, renamed = bench.pipeline.formats[name]
    shipped = shipped_place(bench.pipeline) / name
    if format_named(name).one_file:
        out = make_folder(out) / f"ranker.{name}"  # such formats are called as their files end
    elif shipped.is_dir():
        shutil.copytree(shipped, out)
    shipment = export_ranker(
        load_ranker(bench.result("train", RANKER)),
        name,
        out,
        name=own.name,
        version=own.for_ or None,
        renamed=renamed,
        approximate=own.approximate,
        check=bench.dataset if bench.pipeline.export.check else None,
    )
    parity = None if shipment.parity is None else str(shipment.parity)
    notes = [*shipment.exported.losses, *shipment.exported.notes]
    return {"for": shipment.target, "parity": parity, "notes": notes, "to_do": dict(shipment.to_do)}


def card_task(bench: Workbench) -> Task:
    """Write the ranker again, with what the pipeline decided in its card."""
    lines = ["## What the pipeline decided", ""]
    for name in ("audit", "window-audit", "propensities", "verdict", "export"):
        if name in bench.results:
            lines.append(f"- **{name}**: {' '.join(bench.results[name].decided.split())}")
            lines += [f"  - {warning}" for warning in bench.results[name].warnings]
    if bench.override:
        lines += ["", f"**Shipped against the verdict**, for this reason: {bench.override}"]
    notes = "\n".join(lines) + "\n"

    def work(folder: Path) -> Outcome:
        bench.say("writing the model card")
        ranker = load_ranker(bench.result("train", RANKER))
        ranker.save(folder / RANKER)
        save_text(folder / RANKER / "NOTES.md", notes)
        ranker.save(folder / RANKER)  # whose card takes up the notes
        place = bench.pipeline.export.folder
        return Outcome(f"the ranker, its card and its exports are in {place}/", {"folder": place})

    inputs = {"ranker": bench.result_hash("train", RANKER)}
    inputs |= {f"export {name}": bench.result_hash("export", name) for name in bench.pipeline.formats}
    return Task("card", inputs, {"notes": notes, "override": bench.override}, work, ("numpy",))


# -- all of them ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One step of a pipeline: its task, for a run that has come so far, and what it does in a sentence."""

    name: str
    describe: Callable[[Workbench], Task]
    sentence: str


def steps_of(pipeline: PipelineDefinition) -> tuple[Step, ...]:
    """The steps that a pipeline has."""
    unneeded = {"import"} if pipeline.log.from_ == "plain" else set()
    unneeded |= set() if pipeline.window.last else {"days", "window-audit"}
    return tuple(step for step in STEPS if step.name not in unneeded)


STEPS = (
    Step("import", import_task, "turns the log of another program into a plain one"),
    Step("audit", audit_task, "finds out whether the log is fit to be learned from"),
    Step("days", days_task, "counts new log files, day by day"),
    Step("aggregate", aggregate_task, "counts impressions and clicks of each candidate at each position"),
    Step("window-audit", window_audit_task, "finds out whether the days of the window are fit to be learned from"),
    Step("propensities", propensities_task, "finds out how likely each position is to be examined"),
    Step("train", train_task, "trains the ranker"),
    Step("verdict", verdict_task, "compares the ranker with production, by the clicks on held-out queries"),
    Step("export", export_task, "writes the ranker for each engine, and proves that the engine scores alike"),
    Step("card", card_task, "writes the model card, and ships the ranker"),
)
