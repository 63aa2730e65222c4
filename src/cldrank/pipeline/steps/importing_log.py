"""The log of another program becomes a plain one: `cldrank clicks import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank.files import make_folder, save_json
from cldrank.pipeline.definition import PipelineDefinition, deciding, import_options
from cldrank.pipeline.step import IMPORTED, Step, StepOutcome, Workbench


class ImportStep(Step):
    """Import a log of UBI, Metarank or Yandex."""

    name = "import"
    sentence = "turns the log of another program into a plain one"
    packages = ("numpy", "duckdb", "pyarrow")

    def is_needed(self, pipeline: PipelineDefinition) -> bool:
        """Whether the log is not plain already."""
        return pipeline.log.from_ != "plain"

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """What wrote the log, and the options of its import."""
        return {"from": bench.pipeline.log.from_, **deciding(self._options(bench.pipeline))}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The files as they came."""
        return {name: bench.input_hash(name, paths) for name, paths in self._paths(bench.pipeline).items()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the log, and `import.json`, what became of each record."""
        from cldrank.clicks.imports import import_log

        kind, paths = bench.pipeline.log.from_, self._paths(bench.pipeline)
        bench.say(f"importing {kind}")
        named = () if kind == "ubi" else (paths["log"],)
        out = folder / IMPORTED
        make_folder(out.parent)
        given: dict[str, Any] = {**(paths if kind == "ubi" else {}), **self._options(bench.pipeline)}
        report = import_log(kind, *named, out=out, progress=bench.say, **given)
        facts = {key: value for key, value in report.as_dict().items() if key not in ("out", "seconds")}
        save_json(folder / "import.json", facts)
        return StepOutcome(str(report).splitlines()[0].rstrip(":"), f"from {kind}", facts)

    @staticmethod
    def _paths(pipeline: PipelineDefinition) -> dict[str, list[str]]:
        if pipeline.log.from_ == "ubi":
            named = {"queries": pipeline.log.queries, "events": pipeline.log.events}
            return {name: pipeline.paths(files) for name, files in named.items()}
        return {"log": pipeline.paths(pipeline.log.files)}

    @staticmethod
    def _options(pipeline: PipelineDefinition) -> dict[str, Any]:
        known = import_options()
        return {key: value for key, value in pipeline.log_options.items() if key in known}
