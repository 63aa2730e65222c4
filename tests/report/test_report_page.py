from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser import Checked, cut_on_a_phone, look, seen_in

from cldrank.experiment.results import load_results, summary
from cldrank.report import save_report


@pytest.fixture(scope="module")
def page(all_shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    (path,) = save_report(all_shipped, tmp_path_factory.mktemp("page") / "report.html")
    return path.read_text(encoding="utf-8")


class TestContent:
    def test_is_well_formed_and_needs_nothing_else(self, page: str) -> None:
        checked = Checked(page)
        assert len(set(checked.ids)) == len(checked.ids)
        assert {address[1:] for address in checked.addresses} <= set(checked.ids)  # links lead within the page
        assert "@import" not in page
        assert "url(" not in page
        assert not re.search(r"https?://", page)
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page

    def test_says_how_it_was_run(self, page: str) -> None:
        for told in (
            "cldrank experiment run rq4-misspecified --data msrd",
            "data fingerprint",
            "numpy 2.1.3",
            "4f0c2d1e9a7b",
            "6 of 210 units failed",
            "the loss is not finite after 31 steps",
            "synthetic data",
        ):
            assert told in page

    def test_figures_have_a_place_for_each_value(self, page: str) -> None:
        section = page.partition('id="rq2-the-number-of-click-sessions-msrd"')[2].partition("<h2")[0]
        assert section.count('<svg class="figure curves"') == 3
        assert section.count("data-value=") == 3 * 7 * 7
        assert section.count('class="band"') == 3 * 7
        assert "sessions = 1,000,000" in section

    def test_hostile_text_is_escaped(self, made: Any, tmp_path: Path) -> None:
        rows = made.rows(
            made.evil,
            data=made.evil,
            methods=(made.evil, "Naive"),
            failing=lambda method, seed: made.evil if method and seed == 0 else "",
        )
        settings = [{made.evil: value, "other": made.evil} for value in (1, 2)]
        rows += made.rows("varied", data=made.evil, methods=(made.evil, "Naive"), settings=settings)
        for row in rows:
            row |= dict.fromkeys(("commit", "command", "data_fingerprint", "fold"), made.evil)
            row["versions"] = json.dumps({made.evil: made.evil})
            row["warnings"] = json.dumps([made.evil])
        (path,) = save_report(made.save(rows, tmp_path), tmp_path / "out.html")
        text = path.read_text(encoding="utf-8")
        checked = Checked(text)
        assert checked.seen.count("script") == 1
        assert "<script>alert" not in text
        assert any(row[0] == made.evil for row in checked.rows)  # and is there to be read
        note = "<script>document.body.dataset.seen = JSON.stringify({scripts: document.scripts.length})</script></body>"
        (tmp_path / "seen.html").write_text(text.replace("</body>", note), encoding="utf-8")
        assert seen_in(look(tmp_path / "seen.html", "--dump-dom")) == {"scripts": 2}  # ours, and the one that counts

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"seeds": [0]}, "there are no intervals"),
            ({"methods": ("CLD",)}, "no other to compare it with"),
            ({"methods": ("Oracle",)}, "No method that learns from clicks has finished"),
            ({"methods": ("CLD", "Oracle")}, "There is no Naive here"),
            ({"failing": "it broke".format}, "All units failed"),
        ],
    )
    def test_little_is_said_plainly(self, made: Any, tmp_path: Path, options: dict[str, Any], told: str) -> None:
        cases: list[list[dict[str, float]]] = [[{}], [{"simulation.noise": 0.0}, {"simulation.noise": 0.5}]]
        for settings in cases:
            folder = made.save(made.rows("mine", settings=settings, **options), tmp_path)
            text = save_report(folder, tmp_path / "out.html")[0].read_text(encoding="utf-8")
            Checked(text)
            assert told in text or len(settings) > 1
            assert "nan" not in re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL).lower()


# -- in a browser -------------------------------------------------------------------------------------------------

PROBE = """
<script>
const seen = {};
const section = document.querySelectorAll(".panels")[7];
const key = (name) => [...section.querySelectorAll("button.key")].find((k) => k.textContent === name);
const shown = (element) => getComputedStyle(element).display !== "none";
const drawn = (which = "") => [...document.querySelectorAll(`.series${which}`)].filter(shown).length;
const tip = document.getElementById("tip");
const figure = section.querySelectorAll("svg.figure")[1];
const press = (name) => figure.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));

seen.before = drawn();
const slot = key("IPS").dataset.series;
seen.ofMethod = document.querySelectorAll(`.series[data-series="${slot}"]`).length;
key("IPS").click();
seen.after = drawn();
seen.left = drawn(`[data-series="${slot}"]`);
seen.pressed = [...document.querySelectorAll(`button.key[data-series="${slot}"]`)].map((k) => k.ariaPressed);
seen.canShowAll = [...section.querySelectorAll(".key.all")].map(shown);

const box = figure.getBoundingClientRect();
figure.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 15, clientY: box.top + 60 }));
seen.tip = [...tip.children].map((line) => line.textContent);
seen.cursor = getComputedStyle(figure.querySelector(".cursor")).visibility;
figure.dispatchEvent(new PointerEvent("pointerleave"));
seen.hidden = tip.hidden;

figure.focus();
seen.focused = document.activeElement === figure;
press("Home"); press("ArrowRight");
seen.byKey = tip.firstChild.textContent;
press("Escape");
seen.escaped = tip.hidden;

section.querySelector(".key.all").click();
seen.again = drawn();
dispatchEvent(new Event("beforeprint"));
seen.unfolded = [...document.querySelectorAll("details")].every((d) => d.open);
seen.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
seen.wide = document.documentElement.scrollWidth;
seen.cut = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth + 1).length;
seen.told = getComputedStyle(document.querySelector("td[data-name]"), "::before").content;
seen.room = document.documentElement.clientWidth;
seen.ground = getComputedStyle(document.body).backgroundColor;
seen.colour = getComputedStyle(section.querySelector(".series .line")).stroke;
document.body.dataset.seen = JSON.stringify(seen);
</script></body>"""


def probed(page: str, folder: Path, *options: str) -> dict[str, Any]:
    """What the probe sees on a page."""
    path = folder / "probed.html"
    path.write_text(page.replace("</body>", PROBE), encoding="utf-8")
    return seen_in(look(path, "--dump-dom", *options))


class TestInABrowser:
    def test_methods_toggle_and_values_are_told(self, page: str, all_shipped: Path, tmp_path: Path) -> None:
        seen = probed(page, tmp_path, "--window-size=1200,900", "--blink-settings=preferredColorScheme=1")
        assert seen["left"] == 0
        assert seen["before"] - seen["after"] == seen["ofMethod"] > 10
        assert set(seen["pressed"]) == {"false"}
        assert seen["canShowAll"] == [True]
        assert seen["again"] == seen["before"]

        setting = '{"simulation.assumed_eta": 2.0, "simulation.depth": 3}'
        cells = [
            cell
            for cell in summary(load_results(all_shipped))
            if (cell.experiment, cell.setting, cell.measure) == ("rq4-misspecified", setting, "nDCG@3")
        ]
        told = [f"{cell.method}{cell.interval:.4f}" for cell in sorted(cells, key=lambda cell: -cell.mean)]
        assert seen["tip"] == ["assumed η = 2", *(line for line in told if not line.startswith("IPS"))]
        assert seen["cursor"] == "visible"
        assert seen["hidden"] is True

        assert seen["focused"] is True
        assert seen["byKey"] == "assumed η = 0.25"
        assert seen["escaped"] is True
        assert seen["unfolded"] is True
        assert seen["loaded"] == []
        assert seen["wide"] <= seen["room"]
        assert (seen["ground"], seen["colour"]) == ("rgb(247, 247, 245)", "rgb(143, 144, 156)")

    def test_dark_on_a_phone(self, page: str, tmp_path: Path) -> None:
        """A window is at least 500 pixels wide, so the phone is a frame in it."""
        inner = page.replace(
            "</body>", PROBE.replace("document.body.dataset.seen =", "parent.document.body.dataset.seen =")
        )
        (tmp_path / "inner.html").write_text(inner, encoding="utf-8")
        outer = '<body><iframe src="inner.html" style="width:375px;height:812px;border:0"></iframe></body>'
        (tmp_path / "outer.html").write_text(outer, encoding="utf-8")
        options = (
            "--dump-dom",
            "--blink-settings=preferredColorScheme=0",
            "--allow-file-access-from-files",
            "--hide-scrollbars",
        )
        seen = seen_in(look(tmp_path / "outer.html", *options))
        assert seen["room"] == 375
        assert seen["wide"] <= 375  # nothing sticks out of the page
        assert seen["cut"] == 0  # and no table has to be scrolled to be seen whole
        assert seen["told"] == '"nDCG@1"'  # each number says what it is, without the head of the table
        assert (seen["ground"], seen["colour"]) == ("rgb(21, 24, 28)", "rgb(119, 122, 134)")

    def test_no_legend_is_cut_on_a_phone(self, page: str, tmp_path: Path) -> None:
        assert cut_on_a_phone(page, tmp_path) == {}

    @pytest.mark.slow
    def test_it_prints(self, page: str, tmp_path: Path) -> None:
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        look(tmp_path / "page.html", f"--print-to-pdf={tmp_path / 'page.pdf'}")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
