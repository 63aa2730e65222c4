from __future__ import annotations

import re

from cldrank.pages.document import document, packaged, tiles


def test_texts_cannot_break_out() -> None:
    page = document("</title><script>", [tiles({"<b>": "&"}, bad=["<b>"])])
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in page
    assert '<div class="bad"><dt>&lt;b&gt;</dt><dd>&amp;</dd></div>' in page


def test_the_common_style_comes_first_and_needs_nothing_else() -> None:
    base = packaged("cldrank.pages", "base.css")
    page = document("a", [], styles=["p { color: red; }"], after="<script></script>")
    assert page.index(base) < page.index("p { color: red; }") < page.index("</style>")
    assert page.endswith("</main><script></script></body></html>\n")
    assert not re.search(r"url\(|@import|https?:", page)


def test_every_colour_is_there_by_day_and_by_night() -> None:
    light, dark = packaged("cldrank.pages", "base.css").split("@media (prefers-color-scheme: dark)")[:2]
    named = [set(re.findall(r"(--[a-z-]+):", part.split("}")[0])) for part in (light, dark)]
    assert named[0] == named[1]
    assert {"--ground", "--ink", "--accent"} <= named[0]
