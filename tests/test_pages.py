"""The runner of code blocks finds what is wrong in a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import PAGES, setup, teardown
from sybil.example import SybilFailure


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def run(page: Path, text: str) -> None:
    """Run the blocks of a page that says this."""
    page.write_text(text, encoding="utf-8")
    document = PAGES.parse(page)
    setup(document.namespace)
    try:
        for example in document.examples():
            example.evaluate()
    finally:
        teardown(document.namespace)


RIGHT = """
<!-- invisible-code-block: sh
echo hidden > hidden.txt
-->

```sh
cat hidden.txt
name=world
```

```console
$ echo hello $name
hello world
$ printf 'took 1.234 s\\nend\\n'
took ... s
end
$ false
$ echo $?
1
$ echo one \\
    two
one two
```

<!-- file: folder/script.py -->
```python
print("written")
```

```python
number = 2
```

```python
>>> number + 1
3
>>> import subprocess, sys
>>> subprocess.run([sys.executable, "folder/script.py"], capture_output=True, text=True).stdout
'written\\n'

```

<!-- skip: next "needs a cluster" -->

```sh
exit 1
```

```text
anything
```
"""


def test_a_right_page_passes(page: Path) -> None:
    with pytest.raises(BaseException, match="needs a cluster"):  # the skip, by which pytest marks the block
        run(page, RIGHT)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```sh\nfalse\ntrue\n```", "exited with 1"),
        ("```sh\nfalse | cat\n```", "exited with 1"),
        ("```\nfalse\n```", "must name its language"),
        ("```console\n$ echo one\ntwo\n```", "printed:\none\n\nand not:\ntwo"),
        ("```console\necho one\n```", "begins with"),
        ("```python\n>>> 1 + 1\n3\n```", "Expected"),
        ("```javascript\nlet x\n```", "nobody knows how to check a block of 'javascript'"),
    ],
)
def test_what_is_wrong_is_found(page: Path, block: str, message: str) -> None:
    with pytest.raises(SybilFailure) as caught:
        run(page, block + "\n")
    assert message.replace("\n\n", "\n") in str(caught.value).replace("\n\n", "\n")


@pytest.mark.parametrize(
    "block", ["```json\n{\n```", "```toml\na =\n```", "```python\n1 / 0\n```", "```yaml\na: [\n```"]
)
def test_what_cannot_be_read_is_found(page: Path, block: str) -> None:
    with pytest.raises(Exception, match=r"Expecting|Invalid value|division by zero|while parsing"):
        run(page, block + "\n")
