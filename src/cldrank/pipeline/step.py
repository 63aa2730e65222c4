"""`Step`: the one shape of all steps, and the `Workbench` that they work at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cldrank._version import __version__
from cldrank.decoding import canonical, hashed
from cldrank.errors import DataError
from cldrank.pipeline.definition import PipelineDefinition
from cldrank.pipeline.fingerprints import Fingerprints, content_hash
from cldrank.pipeline.records import StepRecord

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity.segment_propensities import Curve

Say = Callable[[str], None]
IMPORTED = "imported/log.parquet"  # by file and folder, a folder of days knows it as a new version of yesterday's


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
    """

    name: ClassVar[str]
    sentence: ClassVar[str]

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

    def key(self, settings: Mapping[str, Any], read: Mapping[str, str]) -> str:
        """The hash of all that decides the result."""
        return hashed(canonical({"cldrank": __version__, "step": self.name, "settings": settings, "read": read}))


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
    _files: dict[str, Mapping[str, Path]] = field(default_factory=dict)

    # -- what goes in ------------------------------------------------------------------------------------------------

    def log_paths(self) -> list[str]:
        """The plain log: as it is named, or as it was imported."""
        if "import" in self.results:
            return [str(self.result("import", IMPORTED))]
        return self.pipeline.paths(self.pipeline.log.files)

    def log_hash(self) -> str:
        """The hash of the plain log."""
        if "import" in self.results:
            return self.result_hash("import", IMPORTED)
        return self.input_hash("log", self.log_paths())

    def input_hash(self, name: str, paths: list[str]) -> str:
        """The hash of the files that paths name, which go into the record of the run."""
        from cldrank.clicks.log.paths import existing, files_below

        if name not in self.inputs:
            self.say(f"{name}: reading fingerprints")
            files = {str(file.relative_to(root)): file for file, root in files_below(existing(paths))}
            self._read(name, files)
        return content_hash(self.inputs[name])

    def features_hash(self) -> str:
        """The hash of the feature files."""
        from cldrank.data.loading import source_files

        if "features" not in self.inputs:
            files = source_files(self.pipeline.paths(self.pipeline.features.files))
            self._read("features", {file.name: file for file in files})
        return hashed(canonical([self.inputs["features"], dict(self.pipeline.feature_options)]))

    def _read(self, name: str, files: Mapping[str, Path]) -> None:
        self.inputs[name] = self.fingerprints.of_files(files)
        self._files[name] = files

    def check_inputs(self) -> None:
        """Refuse inputs that were changed since their fingerprints were taken: nobody could say what was read."""
        for name, files in self._files.items():
            now = self.fingerprints.of_files(files)
            changed = next((file for file, key in now.items() if key != self.inputs[name][file]), None)
            if changed is not None:
                raise DataError(
                    f"{files[changed]} was changed while the run was reading it; run again when it is whole."
                )

    @cached_property
    def dataset(self) -> RankingDataset:
        """The candidates with their features."""
        from cldrank.data.loading import load

        options = dict(self.pipeline.feature_options)
        if "groups" in options:
            groups = options["groups"]
            options["groups"] = self.pipeline.paths([groups] if isinstance(groups, str) else groups)
        return load(self.pipeline.paths(self.pipeline.features.files), **options)

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
