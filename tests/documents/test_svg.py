from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from browser import Checked

from cldrank.documents.figure import Axis, Figure, Point, Series, looks
from cldrank.documents.svg import draw, element, height, picture

EVIL = "</title><script>alert('x')</script>&\"'"


def dots(*points: Point) -> Figure:
    return Figure("t", (Series("s", points),), Axis.of_labels("abc"), Axis.from_zero(0.5, in_percent=True), "dots")


def test_texts_and_attributes_cannot_break_out() -> None:
    made = element("text", EVIL, element("title", EVIL), data_name=EVIL)
    found = ElementTree.fromstring(made)  # noqa: S314  # we wrote it
    assert (found.text, found[0].text, found.get("data-name")) == (EVIL, EVIL, EVIL)
    assert [child.tag for child in found] == ["title"]


def test_values_stand_where_they_belong() -> None:
    chart = draw(dots(Point(0, 0.4, 0.3, 0.5), Point(2, 0.2)))
    Checked(chart)
    heights = [float(y) for y in re.findall(r'class="mark"[^>]*translate\([\d.]+ ([\d.]+)\)', chart)]
    ticks = {float(m[1]): float(m[0]) - 4 for m in re.findall(r'y="([\d.]+)" text-anchor="end">([\d.]+)%', chart)}
    assert heights == pytest.approx([ticks[40.0], ticks[20.0]], abs=0.11)


class TestCurves:
    def figure(self) -> Figure:
        chosen = looks(["one", EVIL])
        points = tuple(Point(at, at / 10, at / 11, at / 9, f"note {at}") for at in (1, 2, 4))
        gap = (Point(1, 0.1, 0.05, 0.15), Point(2, 0.2), Point(4, 0.3, 0.2, 0.35))
        series = (Series("one", points, chosen["one"]), Series(EVIL, gap, chosen[EVIL]))
        return Figure(EVIL, series, Axis.of_labels("abcde"), Axis.around([0.05, 0.45]))

    def test_a_band_is_interrupted_where_there_is_no_interval(self) -> None:
        chart = draw(self.figure())
        assert chart.count('class="band"') == 1
        assert chart.count('class="whisker"') == 2


def test_rows_have_their_names_and_rings() -> None:
    chosen = looks(["one", "two"])
    series = tuple(
        Series(name, (Point(row, 0.3, 0.2, 0.4, reference=0.35),), chosen[name]) for row, name in enumerate(chosen)
    )
    figure = Figure("t", series, Axis.of_rows(list(chosen)), Axis.around([0.2, 0.4]), "rows", references="published")
    chart = draw(figure)
    Checked(chart)
    assert re.findall(r'class="label"[^>]*>(\w+)<', chart) == ["one", "two"]
    assert chart.count('class="reference"') == 2
    assert "one: 0.350 published" in chart
    heights = [float(y) for y in re.findall(r'class="label"[^>]* y="([\d.]+)"', chart)]
    assert heights == sorted(heights)
    assert heights[-1] < height(figure)
    drawn = picture([figure])
    assert 'class="swatch ' not in drawn  # no legend of what is written beside the rows
    assert all(f".{look.colour} .mark" in drawn for look in chosen.values())


class TestPicture:
    def figures(self, names: list[str]) -> list[Figure]:
        chosen = looks(names)
        series = tuple(Series(name, (Point(0, 0.5, 0.4, 0.6),), chosen[name]) for name in names)
        return [Figure(f"{EVIL} {n}", series, Axis.of_labels("a"), Axis.from_zero(1), "dots") for n in range(3)]

    def test_it_stands_alone_in_light_and_dark(self) -> None:
        text = picture(self.figures(["a", EVIL]), columns=2)
        found = ElementTree.fromstring(text)  # noqa: S314
        assert found.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r"url\(|@import|https?:", text.replace("http://www.w3.org/2000/svg", ""))
        assert {child.tag.partition("}")[2] for child in found.iter()} <= {
            "svg", "title", "style", "rect", "text", "line", "path", "polyline", "g",
        }  # fmt: skip
