from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cldrank.experiment.records import load_results
from cldrank.experiment.results import summary
from cldrank.report import save_report


def check_latex(text: str) -> None:
    """Environments and braces are closed, mathematics too, and every row of a table is as wide as the table."""
    assert re.findall(r"\\begin\{(\w+)\}", text).count("tabular") == re.findall(r"\\end\{(\w+)\}", text).count(
        "tabular"
    )
    bare = re.sub(r"\\[\\{}$&#%_]", "", re.sub(r"(?m)^%.*$", "", text))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search("[#%<>|~]", bare)
    for columns, body in re.findall(r"\\begin\{tabular\}\{@\{\}(l+r+)@\{\}\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        for line in re.findall(r"(?m)^(.*) \\\\$", body):
            spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line))
            assert len(re.findall(r"(?<!\\)&", line)) + 1 + spans == len(columns)


def test_is_balanced_and_has_all_rows(all_shipped: Path, tmp_path: Path) -> None:
    (path,) = save_report(all_shipped, tmp_path / "out.tex", format="latex")
    text = path.read_text(encoding="utf-8")
    check_latex(text)
    section = text.partition("tab:table1-msrd-1")[2].partition(r"\end{table}")[0]
    rows = [row for row in summary(load_results(all_shipped)) if (row.experiment, row.data) == ("table1", "msrd")]
    for row in rows:
        half = row.mean - row.low
        assert f"{row.mean:.3f}$\\,\\pm\\,${half:.3f}" in section
        assert (f"\\textbf{{{row.mean:.3f}$\\,\\pm\\,${half:.3f}}}" in section) or not row.best
    assert section.count(r"\textbf") == sum(row.best for row in rows)
    assert section.count(r"\approx}") == sum(row.tied and not row.best for row in rows)
    assert r"Heckman\textsuperscript{rank}" in section


def test_hostile_text_is_escaped(evil: Path, tmp_path: Path) -> None:
    (path,) = save_report(evil, tmp_path / "out.tex", format="latex")
    text = path.read_text(encoding="utf-8")
    check_latex(text)
    assert r"\textasciicircum{}2\$" in text


def test_nothing_finished(made: Any, tmp_path: Path) -> None:
    folder = made.save(made.rows("mine", failing="broke".format), tmp_path)
    (path,) = save_report(folder, tmp_path / "out.tex", format="latex")
    assert "There are no results to show" in path.read_text(encoding="utf-8")
