"""The model card with what the pipeline decided; then the ranker is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank.files import save_text
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.shipped import ship, shipped_record
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.rankers import load_ranker


class CardStep(Step):
    """Write the card, and put ranker, card and exports where production takes them from."""

    name = "card"
    sentence = "writes the model card, and ships the ranker"

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """The notes below the card."""
        return {"notes": self._notes(bench), "override": bench.override}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The ranker and the exports."""
        names = {"ranker": bench.result_hash("train", "ranker")}
        return names | {f"export {name}": bench.result_hash("export", name) for name in bench.pipeline.formats}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the ranker again, with the notes in its card."""
        bench.say("writing the model card")
        ranker = load_ranker(bench.result("train", "ranker"))
        ranker.save(folder / "ranker")
        save_text(folder / "ranker" / "NOTES.md", self._notes(bench))
        ranker.save(folder / "ranker")  # whose card takes up the notes
        place = bench.pipeline.export.folder
        return StepOutcome(f"the ranker, its card and its exports are in {place}/", "shipped", {"folder": place})

    def is_in_place(self, bench: Workbench, record: StepRecord) -> bool:
        """Whether this card is the one that was shipped."""
        return shipped_record(bench).get("card") == record.key

    def settle(self, bench: Workbench, record: StepRecord, folder: Path) -> None:
        """Replace what is in production, as a whole."""
        ship(bench, record, folder)

    @staticmethod
    def _notes(bench: Workbench) -> str:
        """What the pipeline decided, as Markdown."""
        lines = ["## What the pipeline decided", ""]
        noted = ("audit", "window-audit", "propensities", "verdict", "export")
        for name in (name for name in noted if name in bench.results):
            lines.append(f"- **{name}**: {' '.join(bench.results[name].decided.split())}")
            lines += [f"  - {warning}" for warning in bench.results[name].warnings]
        if bench.override:
            lines += ["", f"**Shipped against the verdict**, for this reason: {bench.override}"]
        return "\n".join(lines) + "\n"
