"""Messages in the words of a pipeline file: a parameter in backticks becomes the key that decides it.

The library names parameters as Python spells them, "`missing=keep`"; the file has `features.missing = "keep"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from cldrank.decoding import keys_of
from cldrank.errors import CldrankError
from cldrank.pipeline.pipeline_file import SECTIONS, PipelineDefinition, other_keys

_NAMED = re.compile(r"`([A-Za-z]\w*)(?:=([^`]+))?`")
_ENTRY = re.compile(r"""['"]?(\w+)['"]?: *(\[[^]]*\]|[^,}]+)""")  # of `columns={"doc_id": "sku"}`
_OTHERWISE = {"train": {"margin": "safe_margin", "production": "production_feature"}}  # keys with a name of their own


def as_keys(text: str, pipeline: PipelineDefinition, section: str) -> str:
    r"""A message with keys in place of the parameters that it names: of the section, or of the first that has it.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from cldrank.pipeline import read_pipeline
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pipeline.toml"
    ...     _ = file.write_text('log.files = "log.csv"\nfeatures.files = "train.csv"')
    ...     pipeline = read_pipeline(file)
    >>> as_keys("map it with `columns={'doc_id': 'sku'}`, or say `missing=keep`.", pipeline, "features")
    'map it with `features.columns.doc_id = "sku"`, or say `features.missing = "keep"`.'
    """
    own = {place: getattr(pipeline, place).get_params() for place in (section, *SECTIONS)}
    keys = {place: {*keys_of(SECTIONS[place]), *other_keys(place, given)} for place, given in own.items()}

    def key(match: re.Match[str]) -> str:
        name = _OTHERWISE.get(section, {}).get(match[1], match[1])
        place = next((place for place, own in keys.items() if name in own), None)
        return match[0] if place is None else f"`{_assigned(f'{place}.{name}', match[2])}`"

    return _NAMED.sub(key, text)


@contextmanager
def in_keys(pipeline: PipelineDefinition, section: str) -> Iterator[None]:
    """Within the block, errors name keys of the file; the section is where the block takes its options from."""
    try:
        yield
    except CldrankError as error:
        error.args = (as_keys(str(error.args[0]), pipeline, section), *error.args[1:])
        raise


def _assigned(key: str, value: str | None) -> str:
    """A key with its value, if any; a table is written entry by entry.

    >>> _assigned("train.hidden", "(64, 32)"), _assigned("log.one_query", "True"), _assigned("train.seed", None)
    ('train.hidden = [64, 32]', 'log.one_query = true', 'train.seed')
    """
    if value is None:
        return key
    if value.startswith("{"):
        return "; ".join(_assigned(f"{key}.{name}", entry) for name, entry in _ENTRY.findall(value)) or key
    if value[0] in "([":
        return f"{key} = [{', '.join(_typed(part) for part in value.strip('()[]').split(',') if part.strip())}]"
    return f"{key} = {_typed(value)}"


def _typed(value: str) -> str:
    """A value as TOML has it.

    >>> [_typed(value) for value in ("'keep'", "keep", "0.5", "True", "...")]
    ['"keep"', '"keep"', '0.5', 'true', '"…"']
    """
    word = value.strip(" '\"")
    if word in ("True", "False"):
        return word.lower()
    try:
        float(word)
    except ValueError:
        return json.dumps("…" if word == "..." else word, ensure_ascii=False)
    return word
