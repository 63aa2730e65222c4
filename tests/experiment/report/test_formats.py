from __future__ import annotations

import csv
import io
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError
from cldrank.experiment.records import SCHEMA, load_results
from cldrank.experiment.report import latex, markdown, page, write
from cldrank.experiment.report.contents import blocks
from cldrank.experiment.report.listing import as_csv
from cldrank.experiment.results import summary


@pytest.fixture(scope="module")
def evil(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose every text is hostile."""
    rows = made.rows(
        made.evil, data=made.evil, methods=("Naive", made.evil, "_hidden", "Oracle"), fold=made.evil,
        failing=lambda method, seed: made.evil if (method, seed) == (made.evil, 0) else "",
    )  # fmt: skip
    rows += made.rows("varied", data=made.evil, methods=(made.evil, "$x^2$"), settings=[
        {made.evil: 1, "simulation.a|b": made.evil}, {made.evil: 2, "simulation.a|b": made.evil}
    ])  # fmt: skip
    for row in rows:
        row |= dict.fromkeys(("commit", "command", "data_fingerprint"), made.evil)
        row["warnings"] = '["</script>\\n|<b>"]'
    return Path(made.save(rows, tmp_path_factory.mktemp("evil")))


class TestCsv:
    def test_is_the_summary(self, all_seven: Path, tmp_path: Path) -> None:
        (path,) = write(all_seven, tmp_path / "out.csv", format="csv")
        lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        rows = summary(load_results(all_seven))
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows, strict=True):
            assert (line["experiment"], line["setting"], line["method"]) == (row.experiment, row.setting, row.method)
            assert float(line["mean"]) == row.mean
            assert float(line["gap"] or "nan") == pytest.approx(row.gap, nan_ok=True, rel=0, abs=0)
            assert line["best"] == ("true" if row.best else "false")

    def test_what_is_unknown_stays_empty(self, made: Any, tmp_path: Path) -> None:
        folder = made.save(made.rows("mine", seeds=[0], methods=("CLD",)), tmp_path)
        (path,) = write(folder, tmp_path / "out.csv", format="csv")
        line = next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        assert (line["low"], line["high"], line["gap"]) == ("", "", "")

    def test_hostile_text_comes_back(self, evil: Path, made: Any, tmp_path: Path) -> None:
        (path,) = write(evil, tmp_path / "out.csv", format="csv")
        lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        assert made.evil in {line["method"] for line in lines}

    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
    def test_no_text_is_a_formula(self, made: Any, tmp_path: Path, start: str) -> None:
        label = f"{start}cmd|' /C calc'!A0"
        folder = made.save(made.rows(label, methods=(label, "CLD"), data=label), tmp_path)
        (path,) = write(folder, tmp_path / "out.csv", format="csv")
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert {line["experiment"] for line in lines} == {line["data"] for line in lines} == {f"'{label}"}
        assert {line["method"] for line in lines} == {f"'{label}", "CLD"}

    def test_a_number_below_0_stays_one(self, made: Any, tmp_path: Path) -> None:
        rows = [{**row, "value": -row["value"]} for row in made.rows("mine")]
        (path,) = write(made.save(rows, tmp_path), tmp_path / "out.csv", format="csv")
        with path.open(encoding="utf-8", newline="") as file:
            assert all(float(line["mean"]) < 0 for line in csv.DictReader(file))


class TestLatex:
    def test_is_balanced_and_has_all_rows(self, all_seven: Path, tmp_path: Path) -> None:
        (path,) = write(all_seven, tmp_path / "out.tex", format="latex")
        text = path.read_text(encoding="utf-8")
        check_latex(text)
        block = text.partition("tab:table1-msrd-1")[2].partition(r"\end{table}")[0]
        rows = [row for row in summary(load_results(all_seven)) if (row.experiment, row.data) == ("table1", "msrd")]
        for row in rows:
            half = row.mean - row.low
            assert f"{row.mean:.3f}$\\,\\pm\\,${half:.3f}" in block
            assert (f"\\textbf{{{row.mean:.3f}$\\,\\pm\\,${half:.3f}}}" in block) or not row.best
        assert block.count(r"\textbf") == sum(row.best for row in rows)
        assert block.count(r"\approx}") == sum(row.tied and not row.best for row in rows)
        assert r"Heckman\textsuperscript{rank}" in block

    def test_hostile_text_is_escaped(self, evil: Path, tmp_path: Path) -> None:
        (path,) = write(evil, tmp_path / "out.tex", format="latex")
        text = path.read_text(encoding="utf-8")
        check_latex(text)
        assert r"\textasciicircum{}2\$" in text

    def test_nothing_finished(self, made: Any, tmp_path: Path) -> None:
        folder = made.save(made.rows("mine", failing="broke".format), tmp_path)
        (path,) = write(folder, tmp_path / "out.tex", format="latex")
        assert "There are no results to show" in path.read_text(encoding="utf-8")


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


class TestMarkdown:
    def test_tables_have_the_numbers_and_pictures_are_there(self, all_seven: Path, tmp_path: Path) -> None:
        path, *pictures = write(all_seven, tmp_path / "docs" / "results.md", format="md")
        text = path.read_text(encoding="utf-8")
        assert len(pictures) == 9
        assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", text) == [picture.name for picture in pictures]
        assert all(picture.parent == path.parent for picture in pictures)
        for row in summary(load_results(all_seven)):
            shown = f"**{row.interval:.3f}**" if row.best else f"{row.interval:.3f}"
            assert shown in text
        assert "**synthetic data**" in text
        assert "nDCG@1, published" in text
        assert "`cldrank experiment run table1 --data msrd" in text

    def test_rows_are_as_wide_as_their_head(self, all_seven: Path, evil: Path, tmp_path: Path) -> None:
        for folder in (all_seven, evil):
            text = write(folder, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
            for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1

    def test_hostile_text_is_escaped(self, evil: Path, tmp_path: Path) -> None:
        text = write(evil, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
        outside_code = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
        assert not re.search(r"(?<!\\)<", outside_code)

    def test_pictures_stand_alone(self, all_seven: Path, evil: Path, tmp_path: Path) -> None:
        for folder in (all_seven, evil):
            _, *pictures = write(folder, tmp_path / "out.md", format="md")
            for picture in pictures:
                root = ElementTree.parse(picture).getroot()  # noqa: S314  # we wrote it
                assert root.tag == "{http://www.w3.org/2000/svg}svg"
                assert "var(" not in picture.read_text(encoding="utf-8")


class TestPng:
    def test_there_is_a_picture_for_each_block(self, made: Any, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        folder = made.save(made.seven()[: 7 * 5 * 3 * 3], tmp_path / "results")
        written = write(folder, tmp_path / "pictures", format="png")
        assert [path.name for path in written] == ["table1-msrd.png", "rq1-cutoff-msrd.png"]
        for path in written:
            data = path.read_bytes()
            assert data.startswith(b"\x89PNG")
            assert int.from_bytes(data[16:20]) > 1500

    def test_hostile_labels_are_drawn_as_they_are(self, evil: Path, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        assert len(write(evil, tmp_path, format="png")) == 2

    def test_without_matplotlib_it_says_what_to_install(self, tmp_path: Path) -> None:
        from cldrank.experiment.report import pictures

        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "matplotlib", None)
            patch.setitem(sys.modules, "matplotlib.style", None)
            with pytest.raises(MissingDependencyError, match=r"cldrank\[report\]"):
                pictures.save((), tmp_path)


class TestWrite:
    def test_a_folder_gets_a_file_of_its_own_name(self, all_seven: Path, tmp_path: Path) -> None:
        assert write(all_seven, tmp_path)[0] == tmp_path / "report.html"
        assert write(all_seven, tmp_path / "new" / "page.html")[0].is_file()

    def test_the_same_results_give_the_same_report(self, all_seven: Path, tmp_path: Path) -> None:
        for name in ("html", "md"):
            first, second = (write(all_seven, tmp_path / f"{turn}.out", format=name)[0] for turn in "ab")
            assert first.read_bytes().replace(b"(a-", b"(b-") == second.read_bytes()

    def test_an_unknown_format_is_refused(self, all_seven: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="html, md, csv, latex, png, not 'pdf'"):
            write(all_seven, tmp_path, format="pdf")

    def test_no_results_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="there are no results here"):
            write(tmp_path, tmp_path / "out.html")

    def test_an_empty_table_is_told(self) -> None:
        found = blocks(SCHEMA.empty_table())
        assert found == ()
        assert "There are no results yet" in page.render(found)
        assert "There are no results yet" in markdown.render(found, {})
        assert "There are no results to show" in latex.render(found)
        assert as_csv(SCHEMA.empty_table()).startswith("experiment,data,")
        assert list(markdown.pictures(found)) == []

    def test_a_place_that_cannot_be_written(self, all_seven: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(CldrankError, match="is a file; name a folder|cannot be made"):
            write(all_seven, tmp_path / "file" / "page.html")

    def test_nothing_heavy_is_imported_before_it_is_needed(self) -> None:
        code = (
            "import sys, cldrank.experiment.report; print([m for m in ('pyarrow', 'matplotlib') if m in sys.modules])"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_shares_of_the_gap_are_written_whole(all_seven: Path, tmp_path: Path) -> None:
    text = write(all_seven, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
    for row in summary(load_results(all_seven)):
        assert math.isnan(row.gap) or f"{100 * row.gap:.0f}%".replace("-", "−") in text
