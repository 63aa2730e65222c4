"""Whatever a text holds, a reader of Markdown sees that text and nothing else."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cldrank.drawing.markdown_text import code, code_block, escaped

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
TEXTS = st.text(st.sampled_from("ab1_*`|<>&;[]()!\\#~$^{}-+=:/\"' \n\tß"), min_size=1)


def flat(text: str) -> str:
    return " ".join(text.split())


@given(TEXTS)
@example("_a_b__c_ &amp; [x](y) <b> `c` ~~d~~ **e** \\* ![f](g)")
def test_a_cell_shows_its_text(text: str) -> None:
    page = MARKDOWN.render(f"| x | y |\n|---|---|\n| {escaped(text)} | end |\n")
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert [unescape(cell) for cell in cells] == [flat(text), "end"]


@given(TEXTS.filter(lambda text: flat(text) != ""))
def test_code_shows_its_text(text: str) -> None:
    page = MARKDOWN.renderInline(f"x {code(text)} y")
    found = re.fullmatch(r"x <code>(.*?)</code> y", page)
    assert found
    assert unescape(found[1]) == flat(text)


@given(TEXTS)
@example("```\n<b>\n~~~\n````")
def test_a_block_shows_its_text(text: str) -> None:
    page = MARKDOWN.render(f"x\n\n{code_block(text, 'sh')}\n\ny\n")
    found = re.fullmatch(r'<p>x</p>\n<pre><code class="language-sh">(.*?)</code></pre>\n<p>y</p>\n', page, re.DOTALL)
    assert found
    assert unescape(found[1]) == f"{text}\n"


def test_what_cannot_be_seen_is_shown() -> None:
    assert escaped("a\u202eb\x1b") == "a�b�"
    assert code("a\u202eb") == "`a�b`"
