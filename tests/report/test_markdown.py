from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

from cldrank.experiment.records import load_results
from cldrank.experiment.results import summary
from cldrank.report import save_report


def test_tables_have_the_numbers_and_pictures_are_there(all_shipped: Path, tmp_path: Path) -> None:
    path, *pictures = save_report(all_shipped, tmp_path / "docs" / "results.md", format="md")
    text = path.read_text(encoding="utf-8")
    assert len(pictures) == 11
    assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", text) == [picture.name for picture in pictures]
    assert all(picture.parent == path.parent for picture in pictures)
    for row in summary(load_results(all_shipped)):
        shown = f"**{row.interval:.3f}**" if row.best else f"{row.interval:.3f}"
        assert shown in text
    assert "**synthetic data**" in text
    assert "| best or tied | nDCG@1 | nDCG@3 | AP |" in text
    assert "| assumed η = 0.5, sessions = 1,000 | **" in text
    assert "nDCG@1, published" in text
    assert "`cldrank experiment run table1 --data msrd" in text


def test_rows_are_as_wide_as_their_head(all_shipped: Path, evil: Path, tmp_path: Path) -> None:
    for folder in (all_shipped, evil):
        text = save_report(folder, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
        for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_hostile_text_is_escaped(evil: Path, tmp_path: Path) -> None:
    text = save_report(evil, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
    own = re.findall(r"(?m)^<details><summary>(.*)</summary>$|^</details>$", text)  # long tables are folded
    assert own
    assert not any("<" in title for title in own)
    plain = re.sub(r"(?m)^<details><summary>.*</summary>$|^</details>$", "", text)
    outside_code = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", plain)
    assert not re.search(r"(?<!\\)<", outside_code)


def test_pictures_stand_alone(all_shipped: Path, evil: Path, tmp_path: Path) -> None:
    for folder in (all_shipped, evil):
        _, *pictures = save_report(folder, tmp_path / "out.md", format="md")
        for picture in pictures:
            root = ElementTree.parse(picture).getroot()  # noqa: S314  # we wrote it
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert "var(" not in picture.read_text(encoding="utf-8")


def test_shares_of_the_gap_are_written_whole(all_shipped: Path, tmp_path: Path) -> None:
    text = save_report(all_shipped, tmp_path / "out.md", format="md")[0].read_text(encoding="utf-8")
    for row in summary(load_results(all_shipped)):
        assert math.isnan(row.gap) or f"{100 * row.gap:.0f}%".replace("-", "−") in text
