"""Whatever a text holds, a reader of Markdown or of a terminal sees that text and nothing else."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from cldrank.documents import (
    Axis,
    Block,
    Details,
    Document,
    Facts,
    Figure,
    Heading,
    Link,
    Mono,
    Notice,
    Panels,
    Paragraph,
    Strong,
    Table,
    render_markdown,
    terminal_text,
    visible,
)
from cldrank.documents.text import code, code_block, escaped

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


def test_every_block_is_written() -> None:
    empty = Figure("Clicks|", (), Axis.of_labels("ab"), Axis.from_zero(1))
    table = Table(("a|", "b"), [(Mono("x|y"), Strong("*")), (Link("there", "#a"), "<b>")])
    document = Document(
        "A <title>",
        [
            Heading("Part"), Paragraph("use `fit` **now**"), Notice("warning", "careful", "topic", "do"),
            Facts({"seed": "1"}), table, empty, Details("more", [Panels((empty, empty))]),
        ],
    )  # fmt: skip
    text = render_markdown(document, "report")
    assert [line for line in text.splitlines() if line] == [
        r"# A \<title\>",
        "## Part",
        "use `fit` **now**",
        "> **warning** **topic** careful do",
        "- seed: 1",
        r"| a\| | b |",
        "|---|---:|",
        r"| `x\|y` | **\*** |",
        r"| [there](<#a>) | \<b\> |",
        r"![Clicks\|](report-1.svg)",
        "<details><summary>more</summary>",
        r"![Clicks\|](report-2.svg)",
        "</details>",
    ]


# -- terminal ---------------------------------------------------------------------------------------------------------


EVIL = "\x1b[31m\x1b]0;owned\x07\r\x9b2J[bold]\u202e"


def test_data_cannot_command_the_terminal() -> None:
    blocks: list[Block] = [
        Heading(EVIL), Paragraph([EVIL]), Notice("warning", EVIL, EVIL, EVIL), Notice("ok", EVIL, large=True),
        Facts({EVIL: EVIL}), Table((EVIL, "b"), [(EVIL, Link(EVIL, EVIL))], title=EVIL, about=EVIL),
        Details(EVIL, [Paragraph([EVIL])]),
    ]  # fmt: skip
    text = terminal_text(Document(EVIL, blocks, [EVIL]), width=500)
    assert not set("\x1b\x07\r\x9b\u202e") & set(text)
    assert text.count(visible(EVIL)) == 17
