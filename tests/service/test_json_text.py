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
    assert not JsonText(b'{"ids":["us","tru"],"features":[[1,-2.5e-07],[1E5,0]],"top":10}').may_list_booleans()
    for space in (b"", b" "):
        assert not JsonText(
            b'{"a":S-1,"b":S[{"c":S0.5,"d":Snull}],"e":S"true"}'.replace(b"S", space)
        ).may_name_booleans()


def test_a_boolean_behind_brackets_in_a_text_is_seen() -> None:
    assert JsonText(b'{"features":[\n[1,true]\n],"ids":["[[Page]]"]}').may_list_booleans()
    assert JsonText(b'{"ids":["a]]"],"features":[[1,false] ]}').may_list_booleans()


@pytest.mark.parametrize("sign", ["[]", "{}", '""', "0", '"":0', "[[[["])
def test_what_no_request_can_hold_is_refused_before_it_is_parsed(sign: str) -> None:
    body = f'{{"ids":[{",".join([sign] * 400_000)}]}}'.encode()
    with pytest.raises(RequestError, match="more than 1,000 candidates of 3 features"):
        JsonText(body + b" " * (1 << 20)).refuse_excess(1_000, 3)


def test_the_longest_request_in_either_form_is_let_pass() -> None:
    names, values, blank = ["a", "b", "c"], [1, 2, 3], " " * (1 << 20)
    arrays = {"ids": list(range(1000)), "features": [values] * 1000, "feature_names": names, "top": 1, "query_id": "q"}
    named = [{"id": f'[{{,"{one}', "features": dict(zip(names, values, strict=True))} for one in range(1000)]
    for body in (arrays, {"candidates": named, "top": 1, "query_id": ",[\\" * 9999}):
        JsonText((json.dumps(body) + blank).encode()).refuse_excess(1_000, 3)
        JsonText((json.dumps(body, indent=3) + blank).encode()).refuse_excess(1_000, 3)
        with pytest.raises(RequestError, match="more than 100 candidates of 3 features"):
            JsonText((json.dumps(body) + blank).encode()).refuse_excess(100, 3)


def test_very_many_colons_in_a_text_are_an_alarm() -> None:
    assert JsonText(b'{"id":"' + b":" * 1000 + b'"}').may_name_booleans()


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
