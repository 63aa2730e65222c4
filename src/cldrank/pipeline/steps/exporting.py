"""What engines load: `cldrank export`, with the scores of each engine compared with the ranker's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from cldrank.export import export_ranker
from cldrank.export.registry import format_named
from cldrank.files import make_folder
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.shipped import shipped_record
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.rankers import load_ranker
from cldrank.wording import listed


class ExportStep(Step):
    """Write the ranker for each engine; nothing is shipped unless all of them score alike."""

    name = "export"
    sentence = "writes the ranker for each engine, and proves that the engine scores alike"

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """The formats, and how each is written."""
        formats = {
            name: {**own.get_params(), "rename": dict(renamed)}
            for name, (own, renamed) in bench.pipeline.formats.items()
        }
        return {"formats": formats, "check": bench.pipeline.export.check}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The ranker, and the features that the engines are replayed on."""
        features = {"features": bench.features_hash()} if bench.pipeline.export.check else {}
        return {"ranker": bench.result_hash("train", "ranker"), **features}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write a file or a folder per format; definitions of features that users completed are kept."""
        ranker = load_ranker(bench.result("train", "ranker"))
        place = bench.pipeline.path(bench.pipeline.export.folder)
        facts: dict[str, Any] = {}
        for name, (own, renamed) in bench.pipeline.formats.items():
            bench.say(f"exporting to {name}")
            out = folder / name
            if (place / name).is_dir() and not format_named(name).one_file:
                shutil.copytree(place / name, out)
            if format_named(name).one_file:
                out = make_folder(out) / f"ranker.{name}"  # such formats are called as their files end
            shipment = export_ranker(
                ranker,
                name,
                out,
                name=own.name,
                version=own.for_ or None,
                renamed=renamed,
                approximate=own.approximate,
                check=bench.dataset if bench.pipeline.export.check else None,
            )
            facts[name] = {
                "for": shipment.target,
                "parity": None if shipment.parity is None else str(shipment.parity),
                "losses": list(shipment.exported.losses),
                "notes": list(shipment.exported.notes),
                "to_do": dict(shipment.to_do),
                "kept": list(shipment.kept),
            }
        if not facts:
            return StepOutcome("no format is named: the ranker goes as it is", "no format", facts)
        words = listed([f"{name} ({one['parity'] or 'not compared'})" for name, one in facts.items()])
        return StepOutcome(f"written for {words}", ", ".join(facts), facts)

    def is_in_place(self, bench: Workbench, record: StepRecord) -> bool:
        """Whether this very export is the one that was shipped: else definitions completed since might be lost."""
        return shipped_record(bench).get("export") == record.key
