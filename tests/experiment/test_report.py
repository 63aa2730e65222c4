"""Reports as pages, Markdown and CSV."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from browser import Checked, cut_on_a_phone
from result_rows import row, table

from cldrank.documents import render_markdown
from cldrank.errors import CldrankError, DataError
from cldrank.experiment.report import figures, report_document, save_report, sections, tables
from cldrank.experiment.results import load_results, save_results, summary

EVIL = "</script><script>alert('x')</script>&\"' {}$\\_%|`#~^"
METHODS = ("Naive", "IPS", "CLD", "Oracle")
MEASURES = ("nDCG@1", "nDCG@3", "AP")


def results(
    experiment: str, settings: list[dict[str, Any]], methods: tuple[str, ...] = METHODS, seeds: int = 3, **changes: Any
) -> list[dict[str, Any]]:
    """Made-up results: each method is a little better than the one before."""
    return [
        row(
            method,
            seed,
            0.3 + 0.05 * place + 0.01 * seed + 0.002 * ((seed * (place + 1)) % 3),
            experiment=experiment,
            measure=measure,
            setting=json.dumps(setting),
            unit=f"{experiment}-{setting}-{method}-{seed}",
            **changes,
        )
        for setting, (place, method), seed, measure in itertools.product(
            settings, enumerate(methods), range(seeds), MEASURES
        )
    ]


def every() -> list[dict[str, Any]]:
    """One experiment without settings, one along numbers, one of two keys, and one of synthetic data."""
    depths = [{"simulation.depth": depth} for depth in (10, 2, 5)]
    crossed = [
        {"simulation.assumed_eta": eta, "simulation.depth": depth} for depth in (3, 5) for eta in (0.0, 1.0, 2.0)
    ]
    made = results("table1", [{}]) + results("rq1-cutoff", depths) + results("rq4-misspecified", crossed)
    return made + results("table1", [{}], data="web10k-like", synthetic=True)


def saved(rows: list[dict[str, Any]], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    save_results(folder, rows)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(every(), tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose every text is hostile."""
    settings = [{EVIL: value, "simulation.a|b": EVIL} for value in (1, 2)]
    rows = results(EVIL, settings, ("Naive", EVIL, "_hidden"), data=EVIL, fold=EVIL)
    for entry in rows:
        entry |= dict.fromkeys(("commit", "command", "data_fingerprint"), EVIL)
        entry |= {"versions": json.dumps({EVIL: EVIL}), "warnings": '["</script>\\n|<b>"]'}
    rows[0] |= {"status": "failed", "value": math.nan, "error": EVIL}
    return saved(rows, tmp_path_factory.mktemp("evil"))


# -- what is in it ---------------------------------------------------------------------------------------------------


def test_an_experiment_on_a_data_set_has_a_section_in_the_papers_order() -> None:
    titles = [section.title for section in sections(table(every()))]
    assert [re.sub(r".*\(", "", title).rstrip(")") for title in titles] == ["msrd", "web10k-like", "msrd", "msrd"]
    assert titles[0] == "Table 1: ranking accuracy (msrd)"


def test_what_varies_most_is_the_axis_and_the_rest_are_panels() -> None:
    (section,) = sections(table([entry for entry in every() if entry["experiment"] == "rq4-misspecified"]))
    assert section.across == "simulation.assumed_eta"
    assert [(panel.label, panel.ticks) for panel in section.panels] == [
        ("depth K = 3", ("0", "1", "2")),
        ("depth K = 5", ("0", "1", "2")),
    ]
    drawn = figures(section, dict.fromkeys(METHODS))  # type: ignore[arg-type]
    assert [figure.title for figure in drawn] == [f"{name} · depth K = {k}" for k in (3, 5) for name in MEASURES]
    assert [table.title for table in tables(section)] == [figure.title for figure in drawn]


def test_numbers_are_those_of_the_summary() -> None:
    (section,) = sections(table(results("table1", [{}])))
    cells = {(cell.method, cell.measure): cell for cell in summary(table(results("table1", [{}])))}
    assert figures(section, {}) == ()
    (shown,) = tables(section)
    for method, *texts in shown.rows:
        for measure, text in zip(MEASURES, texts, strict=True):
            cell = cells[str(method), measure]
            assert str(text) == f"{cell.interval:.3f}{' ≈' if cell.tied and not cell.best else ''}"


def test_what_failed_is_told(tmp_path: Path) -> None:
    rows = results("mine", [{}], seeds=2)
    for entry in rows[:3]:
        entry |= {"status": "failed", "value": math.nan, "error": "the loss is not finite"}
    text = render_markdown(report_document(load_results(saved(rows, tmp_path))))
    assert "1 of 8 units failed" in text
    assert "| Naive | the loss is not finite | 1 |" in text
    assert "(1 seed)" in text


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_page_is_well_formed_and_needs_nothing_else(folder: Path, tmp_path: Path) -> None:
    path = save_report(folder, tmp_path)
    assert path == tmp_path / "report.html"
    page = path.read_text(encoding="utf-8")
    Checked(page)
    assert not re.search(r"https?://|url\(|@import|<script", page)
    assert page.count('<svg class="figure curves"') == 9
    assert "synthetic" in page
    assert cut_on_a_phone(page, tmp_path) == {}


def test_hostile_text_is_escaped(evil: Path, tmp_path: Path) -> None:
    page = save_report(evil, tmp_path / "out.html").read_text(encoding="utf-8")
    checked = Checked(page)
    assert "script" not in checked.seen
    assert any(cells and cells[0] == EVIL for cells in checked.rows)  # and is there to be read
    text = render_markdown(report_document(load_results(evil)))
    own = re.sub(r"(?m)^<details><summary>.*</summary>$|^</details>$", "", text)
    assert not re.search(r"(?<!\\)<", re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", own))
    for rows in re.findall(r"(?m)(?:^\|.*\n)+", text):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows.splitlines()}) == 1


def test_wrong_calls(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results here"):
        save_report(tmp_path, tmp_path / "out.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(CldrankError, match="is a file; name a folder|cannot be made"):
        save_report(folder, tmp_path / "file" / "page.html")
