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

from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.experiment.results import load_results, summary
from cldrank.report import save_report


def test_a_folder_gets_a_file_of_its_own_name(all_shipped: Path, tmp_path: Path) -> None:
    assert save_report(all_shipped, tmp_path)[0] == tmp_path / "report.html"
    assert save_report(all_shipped, tmp_path / "new" / "page.html")[0].is_file()


def test_the_same_results_give_the_same_report(all_shipped: Path, tmp_path: Path) -> None:
    for name in ("html", "md"):
        first, second = (save_report(all_shipped, tmp_path / f"{turn}.out", format=name)[0] for turn in "ab")
        assert first.read_bytes().replace(b"(a-", b"(b-") == second.read_bytes()


def test_an_unknown_format_is_refused(all_shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="html, md, csv, not 'pdf'"):
        save_report(all_shipped, tmp_path, format="pdf")


def test_no_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results here"):
        save_report(tmp_path, tmp_path / "out.html")


def test_a_place_that_cannot_be_written(all_shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CldrankError, match="is a file; name a folder|cannot be made"):
        save_report(all_shipped, tmp_path / "file" / "page.html")


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sys, cldrank.report; print([m for m in ('pyarrow', 'jinja2') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class TestMarkdown:
    def test_tables_have_the_numbers_and_pictures_are_there(self, all_shipped: Path, tmp_path: Path) -> None:
        path, *pictures = save_report(all_shipped, tmp_path / "docs" / "results.md", format="md")
        text = path.read_text(encoding="utf-8")
        assert len(pictures) == 11
        assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", text) == [picture.name for picture in pictures]
        assert all(picture.parent == path.parent for picture in pictures)
        for row in summary(load_results(all_shipped)):
            shown = f"**{row.interval:.3f}**" if row.best else f"{row.interval:.3f}"
            assert shown in text
        assert "**synthetic data**" in text
        assert "`cldrank experiment run table1 --data msrd" in text

    def test_rows_are_as_wide_as_their_head(self, all_shipped: Path, evil: Path, tmp_path: Path) -> None:
        for folder in (all_shipped, evil):
            text = save_report(folder, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
            for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1

    def test_hostile_text_is_escaped(self, evil: Path, tmp_path: Path) -> None:
        text = save_report(evil, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
        own = re.findall(r"(?m)^<details><summary>(.*)</summary>$|^</details>$", text)  # long tables are folded
        assert own
        assert not any("<" in title for title in own)
        plain = re.sub(r"(?m)^<details><summary>.*</summary>$|^</details>$", "", text)
        outside_code = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)|\(<#[\w-]+>\)", "", plain)  # links within the page
        assert not re.search(r"(?<!\\)<", outside_code)

    def test_pictures_stand_alone(self, all_shipped: Path, evil: Path, tmp_path: Path) -> None:
        for folder in (all_shipped, evil):
            _, *pictures = save_report(folder, tmp_path / "out.md", format="md")
            for picture in pictures:
                root = ElementTree.parse(picture).getroot()  # noqa: S314  # we wrote it
                assert root.tag == "{http://www.w3.org/2000/svg}svg"
                assert "var(" not in picture.read_text(encoding="utf-8")

    def test_shares_of_the_gap_are_written_whole(self, all_shipped: Path, tmp_path: Path) -> None:
        text = save_report(all_shipped, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
        for row in summary(load_results(all_shipped)):
            assert math.isnan(row.gap) or f"{100 * row.gap:.0f}%".replace("-", "−") in text


class TestCsv:
    def test_is_the_summary(self, all_shipped: Path, tmp_path: Path) -> None:
        (path,) = save_report(all_shipped, tmp_path / "out.csv", format="csv")
        lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        rows = summary(load_results(all_shipped))
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows, strict=True):
            assert (line["experiment"], line["setting"], line["method"]) == (row.experiment, row.setting, row.method)
            assert float(line["mean"]) == row.mean
            assert float(line["gap"] or "nan") == pytest.approx(row.gap, nan_ok=True, rel=0, abs=0)
            assert line["best"] == ("true" if row.best else "false")

    def test_what_is_unknown_stays_empty(self, made: Any, tmp_path: Path) -> None:
        folder = made.save(made.rows("mine", seeds=[0], methods=("CLD",)), tmp_path)
        (path,) = save_report(folder, tmp_path / "out.csv", format="csv")
        line = next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        assert (line["low"], line["high"], line["gap"]) == ("", "", "")

    def test_hostile_text_comes_back(self, evil: Path, made: Any, tmp_path: Path) -> None:
        (path,) = save_report(evil, tmp_path / "out.csv", format="csv")
        lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        assert made.evil in {line["method"] for line in lines}

    def test_a_number_below_0_stays_one(self, made: Any, tmp_path: Path) -> None:
        rows = [{**row, "value": -row["value"]} for row in made.rows("mine")]
        (path,) = save_report(made.save(rows, tmp_path), tmp_path / "out.csv", format="csv")
        with path.open(encoding="utf-8", newline="") as file:
            assert all(float(line["mean"]) < 0 for line in csv.DictReader(file))
