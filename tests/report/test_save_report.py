from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError
from cldrank.experiment.records import SCHEMA
from cldrank.report import save_report
from cldrank.report.latex import render_latex
from cldrank.report.listing import as_csv
from cldrank.report.markdown import render_markdown, section_pictures
from cldrank.report.plots import save_pictures
from cldrank.report.report_page import render_report
from cldrank.report.sections import sections


class TestPng:
    def test_there_is_a_picture_for_each_block(self, made: Any, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        folder = made.save(made.every()[: 7 * 5 * 3 * 3], tmp_path / "results")
        written = save_report(folder, tmp_path / "pictures", format="png")
        assert [path.name for path in written] == ["table1-msrd.png", "rq1-cutoff-msrd.png"]
        for path in written:
            data = path.read_bytes()
            assert data.startswith(b"\x89PNG")
            assert int.from_bytes(data[16:20]) > 1500

    def test_hostile_labels_are_drawn_as_they_are(self, evil: Path, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        assert len(save_report(evil, tmp_path, format="png")) == 2

    def test_without_matplotlib_it_says_what_to_install(self, tmp_path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "matplotlib", None)
            patch.setitem(sys.modules, "matplotlib.style", None)
            with pytest.raises(MissingDependencyError, match=r"cldrank\[report\]"):
                save_pictures((), tmp_path)


def test_a_folder_gets_a_file_of_its_own_name(all_shipped: Path, tmp_path: Path) -> None:
    assert save_report(all_shipped, tmp_path)[0] == tmp_path / "report.html"
    assert save_report(all_shipped, tmp_path / "new" / "page.html")[0].is_file()


def test_the_same_results_give_the_same_report(all_shipped: Path, tmp_path: Path) -> None:
    for name in ("html", "md"):
        first, second = (save_report(all_shipped, tmp_path / f"{turn}.out", format=name)[0] for turn in "ab")
        assert first.read_bytes().replace(b"(a-", b"(b-") == second.read_bytes()


def test_an_unknown_format_is_refused(all_shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="html, md, csv, latex, png, not 'pdf'"):
        save_report(all_shipped, tmp_path, format="pdf")


def test_no_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results here"):
        save_report(tmp_path, tmp_path / "out.html")


def test_an_empty_table_is_told() -> None:
    found = sections(SCHEMA.empty_table())
    assert found == ()
    assert "There are no results yet" in render_report(found)
    assert "There are no results yet" in render_markdown(found, {})
    assert "There are no results to show" in render_latex(found)
    assert as_csv(SCHEMA.empty_table()).startswith("experiment,data,")
    assert list(section_pictures(found)) == []


def test_a_place_that_cannot_be_written(all_shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CldrankError, match="is a file; name a folder|cannot be made"):
        save_report(all_shipped, tmp_path / "file" / "page.html")


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sys, cldrank.report; print([m for m in ('pyarrow', 'matplotlib', 'jinja2') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
