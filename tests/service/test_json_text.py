from __future__ import annotations

import json
import time

import pytest

from cldrank.service.json_text import JsonText
from cldrank.service.request_error import RequestError


@pytest.mark.parametrize("space", ["", " ", "\n", "   "])
@pytest.mark.parametrize("word", ["true", "false"])
def test_no_boolean_is_missed(space: str, word: str) -> None:
    assert JsonText(f'{{"features":{space}[{space}[1,{space}{word}]]}}'.encode()).may_list_booleans()
    assert JsonText(f'{{"a":{space}1,"b":{space}{word}}}'.encode()).may_name_booleans()


def test_numbers_as_programs_write_them_raise_no_alarm() -> None:
    assert not JsonText(b'{"ids":["us","true"],"features":[[1,-2.5e-07],[1E5,0]],"top":10}').may_list_booleans()
    for space in (b"", b" "):
        assert not JsonText(
            b'{"a":S-1,"b":S[{"c":S0.5,"d":Snull}],"e":S"true"}'.replace(b"S", space)
        ).may_name_booleans()


def test_a_body_may_end_with_a_colon() -> None:
    assert JsonText(b'{"a":').may_name_booleans()
    assert JsonText(b"").n_colons == 0


def test_a_repeated_key_among_very_many_is_found_at_once() -> None:
    keys = [json.dumps(f"key{place}") for place in range(50_000)]
    body = "{" + ",".join(f"{key}:1" for key in [*keys, keys[-1]]) + "}"
    start = time.perf_counter()
    with pytest.raises(RequestError, match="the key 'key49999' appears twice"):
        JsonText(body.encode()).refuse_repeated_key()
    assert time.perf_counter() - start < 2
