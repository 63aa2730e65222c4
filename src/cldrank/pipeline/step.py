"""`Step`: the one shape of all steps, and the `Workbench` that they work at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cldrank.decoding import canonical, hashed
from cldrank.environment import version_of
from cldrank.errors import DataError, UsageError, advising_columns
from cldrank.pipeline.definition import PipelineDefinition, reading_of
from cldrank.pipeline.fingerprints import Fingerprints, content_hash
from cldrank.pipeline.records import StepRecord

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity.segment_propensities import Curve

Say = Callable[[str], None]
IMPORTED = "imported/log.parquet"
UNFINISHED = "unfinished"  # the folder with the states of fits that were stopped


@dataclass(frozen=True)
class StepOutcome:
    """What a step found; its files lie in the folder that it was given.

    decided   in a sentence
    brief     in a few words
    facts     numbers and words, by name, as JSON holds them
    stop      why nothing may follow; empty where something may
    """

    decided: str
    brief: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    stop: str = ""


class Step(ABC):
    """One step of a pipeline: what it reads and its settings decide its result, and `run` computes it.

    name       in the file of the pipeline and in records
    sentence   what it does, without a full stop
    gate       whether it may end the run
    format     to be raised with whatever makes its result another one, so that earlier results are not taken for it
    packages   those that compute its result, whose versions decide it too
    """

    name: ClassVar[str]
    sentence: ClassVar[str]
    gate: ClassVar[bool] = False
    format: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    def is_needed(self, pipeline: PipelineDefinition) -> bool:
        """Whether this pipeline has it."""
        del pipeline
        return True

    @abstractmethod
    def settings(self, bench: Workbench) -> dict[str, Any]:
        """All that decides its result beside what it reads, as JSON holds it."""

    @abstractmethod
    def reads(self, bench: Workbench) -> dict[str, str]:
        """The hash of everything that it reads, by name."""

    @abstractmethod
    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Do the work, and leave files in an empty folder."""

    def is_in_place(self, bench: Workbench, record: StepRecord) -> bool:
        """Whether what it left outside of its own folder, if it does, is still there."""
        del bench, record
        return True

    def settle(self, bench: Workbench, record: StepRecord, folder: Path) -> None:
        """Put what it made where it belongs outside of its own folder, if it does; called when its result is kept."""
        del bench, record, folder

    def packages_for(self, pipeline: PipelineDefinition) -> tuple[str, ...]:
        """Those of the packages that this pipeline needs."""
        del pipeline
        return self.packages

    def key(self, pipeline: PipelineDefinition, settings: Mapping[str, Any], read: Mapping[str, str]) -> str:
        """The hash of all that decides the result."""
        made_with = {name: version_of(name) for name in ("cldrank", *self.packages_for(pipeline))}
        step = {"step": self.name, "format": self.format, "made with": made_with}
        return hashed(canonical({**step, "settings": settings, "read": read}))


@dataclass
class Workbench:
    """What the steps of a run have in common: the pipeline, what was read, and the results of steps before.

    store      the folder with the results of steps
    results    the records of the steps that are done, by name
    inputs     the hashes of all files of an input, by its name
    override   why a ranker is to be shipped whatever the verdict says; empty: it is not
    say        told what is going on
    """

    pipeline: PipelineDefinition
    store: Path
    fingerprints: Fingerprints
    results: dict[str, StepRecord] = field(default_factory=dict)
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)
    override: str = ""
    say: Say = lambda _: None
    _files: dict[str, Callable[[], dict[str, Path]]] = field(default_factory=dict)

    # -- what goes in ------------------------------------------------------------------------------------------------

    def log_paths(self) -> list[str]:
        """The plain log: as it is named, or as it was imported."""
        if "import" in self.results:
            return [str(self.result("import", IMPORTED))]
        return self.pipeline.paths(self.pipeline.log.files)

    def log_files(self) -> dict[str, Path]:
        """The files of the plain log, by the names under which runs know them again."""
        if "import" in self.results:
            return {IMPORTED: self.result("import", IMPORTED)}
        self.log_hash()
        return self._files["log"]()

    def log_hash(self) -> str:
        """The hash of the plain log."""
        if "import" in self.results:
            return self.result_hash("import", IMPORTED)
        return self.input_hash("log", self.log_paths())

    def input_hash(self, name: str, paths: list[str]) -> str:
        """The hash of the files that paths name, which go into the record of the run."""
        from cldrank.clicks.log.paths import existing, files_below

        self._read(name, lambda: [file for file, _ in files_below(existing(paths))])
        return content_hash(self.inputs[name])

    def features_hash(self) -> str:
        """The hash of the feature files, and of the group files that belong to them."""
        from cldrank.data.loading import group_paths_of, groups_beside, source_files

        def files() -> list[Path]:
            found = source_files(self.pipeline.paths(self.pipeline.features.files))
            groups = group_paths_of(self._groups()) or groups_beside(found)
            return [*found, *(one for one in groups if one not in found)]

        self._read("features", files)
        return hashed(canonical([self.inputs["features"], dict(self.pipeline.feature_options)]))

    def _read(self, name: str, files: Callable[[], list[Path]]) -> None:
        """Take the fingerprints of an input; `files` lists its files, now and when it is checked."""
        if name not in self.inputs:
            self.say(f"{name}: reading fingerprints")
            self._files[name] = lambda: self._by_name(name, files())
            self.inputs[name] = self.fingerprints.of_files(self._files[name]())

    def _by_name(self, what: str, files: list[Path]) -> dict[str, Path]:
        """Files by their paths, as they are seen from where the pipeline lies."""
        found: dict[str, Path] = {}
        home = self.pipeline.source.parent.absolute()
        for file in files:
            whole = file.absolute()
            name = (whole.relative_to(home) if whole.is_relative_to(home) else whole).as_posix()
            if name in found:
                raise UsageError(f"{what}: {name} is named twice; name it once.")
            found[name] = file
        return found

    def check_inputs(self, names: Collection[str]) -> None:
        """Refuse inputs that were changed since their fingerprints were taken: nobody could say what was read."""
        for name in names:
            if name not in self._files:
                continue
            now, before = self._files[name](), self.inputs[name]
            found = self.fingerprints.of_files(now)
            changed = next((one for one in {**before, **found} if before.get(one) != found.get(one)), None)
            if changed is not None:
                did = "arrived" if changed not in before else "was changed" if changed in found else "was removed"
                file = now.get(changed, changed)
                raise DataError(f"{file} {did} while the run was reading the {name}; run again when all is there.")

    def counting(self) -> dict[str, Any]:
        """The options of how the log is read and counted."""
        from cldrank.clicks.aggregate import aggregate

        segment = self.pipeline.propensities.segment
        return reading_of(self.pipeline, aggregate) | ({"segment": segment} if segment else {})

    @cached_property
    def dataset(self) -> RankingDataset:
        """The candidates with their features."""
        from cldrank.data.loading import load

        options = {**self.pipeline.feature_options, "groups": self._groups()}
        with advising_columns(_feature_setting):
            return load(self.pipeline.paths(self.pipeline.features.files), **options)

    def _groups(self) -> list[str] | None:
        """The group files that are named, if any are."""
        groups = self.pipeline.feature_options.get("groups")
        return None if groups is None else self.pipeline.paths([groups] if isinstance(groups, str) else groups)

    # -- what steps left ---------------------------------------------------------------------------------------------

    def result(self, step: str, file: str) -> Path:
        """A file or folder that a step left."""
        return self.store / self.results[step].folder / file

    def result_hash(self, step: str, file: str) -> str:
        """Its hash; of a folder, that of all files in it."""
        wrote = self.results[step].wrote
        if file in wrote:
            return wrote[file]
        return content_hash({name: one for name, one in wrote.items() if name.startswith(f"{file}/")})

    @cached_property
    def clicks(self) -> ClickTable:
        """The cells, on the candidates."""
        from cldrank.clicks.table import ClickTable

        return ClickTable.read(self.result("aggregate", "cells.parquet"), self.dataset)

    @cached_property
    def curve(self) -> Curve:
        """The propensities."""
        from cldrank.propensity.storage import load_estimate

        return load_estimate(self.result("propensities", "rho.json"))


def _feature_setting(option: str) -> str:
    """How a pipeline file says which column of the features has a role: query = "…" in [features]."""
    from cldrank.data.formats.parquet_columns import ARGUMENTS

    role, _, name = option.removeprefix("--column ").partition("=")
    columns = "[{}]".format(", ".join(f'"{one}"' for one in name.split(","))) if "," in name else f'"{name}"'
    return f"{ARGUMENTS[role]} = {columns} in [features]"


def log_setting(option: str) -> str:
    """How it says so of the log.

    >>> log_setting("--column doc_id=NAME")
    'doc_id = "NAME" in [log.columns]'
    """
    role, _, name = option.removeprefix("--column ").partition("=")
    return f'{role} = "{name}" in [log.columns]'
