from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank.experiment.definition import SHIPPED
from cldrank.experiment.results import load_results
from cldrank.report.contents import figures, method_looks, tables
from cldrank.report.sections import Section, sections


class TestBlocks:
    def test_come_in_the_paper_s_order(self, found: dict[tuple[str, str], Section]) -> None:
        names = list(dict.fromkeys(experiment for experiment, _ in found))
        assert tuple(names) == SHIPPED
        assert found["table1", "msrd"].measures == ("nDCG@1", "nDCG@3", "AP")
        assert found["table1", "msrd"].rivals[0] == "Naive"
        assert list(found["table1", "web10k-like"].methods)[-2:] == ["Mine", "Oracle"]

    def test_trees_follow_other_models_and_labels_come_last(self, found: dict[tuple[str, str], Section]) -> None:
        section = found["rq6-robust", "msrd"]
        rivals = ["Naive", "CLD", "CLD-pair", "CLD-pair+", "Naive trees", "IPS trees", "CLD-pair trees"]
        assert list(section.methods) == [*rivals, "Oracle", "Oracle trees"]
        assert section.rivals == tuple(rivals)

    def test_the_key_that_varies_most_runs_across(self, found: dict[tuple[str, str], Section]) -> None:
        section = found["rq4-misspecified", "msrd"]
        assert section.across == "simulation.assumed_eta"
        assert [panel.label for panel in section.panels] == ["depth K = 3", "depth K = 5"]
        assert section.panels[0].places == (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
        assert found["table1", "msrd"].across is None

    def test_what_varies_without_numbers_makes_panels(self, made: Any, tmp_path: Path) -> None:
        settings = [{"production.sample": sample} for sample in ("queries", "rows")]
        section = made.only(tmp_path, "mine", settings=settings)
        assert section.across is None
        assert [panel.label for panel in section.panels] == ["production.sample = queries", "production.sample = rows"]
        assert len(tables(section)) == 2
        assert len(figures(section, method_looks(section.methods.values()))) == 6

    def test_a_unit_that_stands_in_several_places_took_its_time_once(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows("mine", settings=[{"simulation.eta": eta} for eta in (0.0, 1.0)], methods=("Oracle",))
        for row in rows:
            row["unit"], row["seconds"] = f"seed {row['seed']}", 2.0
        (section,) = sections(load_results(made.save(rows, tmp_path)))
        assert (len(section.units), len(section.fits)) == (10, 5)

    def test_names_stay_apart(self, made: Any, tmp_path: Path) -> None:
        rows = [row for data in ("a b", "a-b", "ø", "å") for row in made.rows("mine", data=data)]
        names = [section.name for section in sections(load_results(made.save(rows, tmp_path)))]
        assert len(set(names)) == 4
