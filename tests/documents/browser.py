"""What tests look at pages with: a strict parser, and Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

_VOID = {"meta"}


class Checked(HTMLParser):
    """Reads a page, insists that every element is closed in order, and keeps tables, ids and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        named = {name: value or "" for name, value in attrs}
        self.ids += [named["id"]] if "id" in named else []
        self.addresses += [value for name, value in named.items() if name in ("src", "href", "action", "srcset")]
        assert not any(name.startswith("on") for name in named)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        del attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.rows and self.rows[-1] and any(tag in self.open for tag in ("td", "th")):
            self.rows[-1][-1] += data


def look(page: Path, *options: str, address: str = "") -> str:
    """Open a page in Chromium, or what a server has at an address; nothing may appear on the console."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium here to look at the page with")
    silent = ("gpu", "quic", "background-networking", "component-update", "sync")
    call = [browser, "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in silent)]
    call += [
        "--enable-logging=stderr",
        "--v=0",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
        address or page.as_uri(),
    ]
    ran = subprocess.run(call, capture_output=True, text=True, timeout=600, check=True)
    assert "CONSOLE" not in ran.stderr
    return ran.stdout


def seen_in(shown: str) -> dict[str, Any]:
    """What a script left in `document.body.dataset.seen` as JSON."""
    found = re.search(r'data-seen="([^"]*)"', shown)
    assert found is not None
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


_PHONE = """<script>
for (const folded of document.querySelectorAll("details")) folded.open = true;
const named = (one) => `${one.tagName} ${one.textContent.trim().slice(0, 40)}`;
const room = document.documentElement.clientWidth, everything = [...document.querySelectorAll("body *")];
const letters = [...document.querySelectorAll("svg text")];
parent.document.body.dataset.seen = JSON.stringify({
  room,
  wide: Math.max(document.documentElement.scrollWidth - room, 0),
  outside: everything.filter((one) => one.getBoundingClientRect().right > room + 1).map(named),
  scrolled: everything.filter((one) =>
    getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1).map(named),
  clipped: letters.filter((one) => {
    const box = one.getBoundingClientRect(), frame = one.ownerSVGElement.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map(named),
  tiny: letters.filter((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a < 8.5).map(named),
});
</script></body>"""


def cut_on_a_phone(page: str, folder: Path) -> dict[str, Any]:
    """What of a page, all unfolded, a phone does not show whole or not legibly; a window is at least 500 pixels wide,
    so the phone is a frame in it."""
    assert "</body>" in page
    (folder / "phone.html").write_text(page.replace("</body>", _PHONE), encoding="utf-8")
    frame = '<body><iframe src="phone.html" style="width:390px;height:844px;border:0"></iframe></body>'
    (folder / "frame.html").write_text(frame, encoding="utf-8")
    shown = look(folder / "frame.html", "--dump-dom", "--allow-file-access-from-files", "--hide-scrollbars")
    seen = seen_in(shown)
    assert seen.pop("room") == 390
    return {what: found for what, found in seen.items() if found}
