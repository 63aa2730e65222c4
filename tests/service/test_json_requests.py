from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.service import json_requests
from cldrank.service.json_requests import request_of_json
from cldrank.service.layout import FeatureLayout, RankRequest
from cldrank.service.request_error import RequestError

NAMES = ("bm25", "age", "url:length")
LAYOUT = FeatureLayout(NAMES)
GAPS = FeatureLayout(NAMES, takes_missing=True)


def read(body: Any, layout: FeatureLayout = LAYOUT, most: int = 5) -> RankRequest:
    return request_of_json(body if isinstance(body, bytes) else json.dumps(body).encode(), layout, most)


def named(*values: Any, **more: Any) -> dict[str, Any]:
    return {"id": "d1", "features": dict(zip(NAMES, values, strict=False)), **more}


def test_features_by_name_in_any_order() -> None:
    second = {"features": {"url:length": 3, "bm25": 1.5, "age": -2}, "id": "d:2"}
    found = read({"query_id": "q:1", "candidates": [named(1, 2, 3), second], "top": 1})
    assert (found.ids, found.query_id, found.top) == (["d1", "d:2"], "q:1", 1)
    assert found.table.tolist() == [[1, 2, 3], [1.5, -2, 3]]


def test_features_as_arrays() -> None:
    found = read({"ids": [7, 8], "features": [[1, 2, 3], [4, 5, 6]], "query_id": 9})
    assert (found.ids, found.query_id, found.top) == ([7, 8], 9, None)
    assert found.table.tolist() == [[1, 2, 3], [4, 5, 6]]
    turned = read({"feature_names": list(reversed(NAMES)), "features": [[3, 2, 1]]})
    assert turned.ids == [0]
    assert turned.table.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("body", [{"candidates": []}, {"features": []}, {"ids": [], "features": []}])
def test_no_candidates_are_a_list_too(body: dict[str, Any]) -> None:
    assert read(body).table.shape == (0, 3)


def test_what_is_missing_is_nan_where_the_ranker_takes_it() -> None:
    bodies = [
        {"candidates": [named(1, None, 3)]},
        {"candidates": [{"id": "d1", "features": {"bm25": 1, "url:length": 3}}]},
        {"features": [[1, None, 3]]},
        {"feature_names": ["url:length", "bm25"], "features": [[3, 1]]},
    ]
    for body in bodies:
        np.testing.assert_array_equal(read(body, GAPS).table, np.array([[1, np.nan, 3]], dtype=np.float32))
        with pytest.raises(RequestError, match="'age'"):
            read(body)


MALFORMED: list[tuple[Any, str]] = [
    ([], "must be an object with 'candidates', or with 'ids' and 'features', not a list"),
    (None, "not null"),
    ({}, "needs 'candidates', or 'ids' and 'features'"),
    ({"ids": ["a"]}, "needs 'candidates'"),
    ({"candidates": {}}, "'candidates' must be a list, not an object"),
    ({"candidates": [], "features": []}, "the body has the key 'features'"),
    ({"features": [], "limit": 3}, "the body has the key 'limit'; it may have"),
    ({"features": {}}, "'features' must be a list"),
    ({"features": [[1, 2, 3]], "ids": "a"}, "'ids' must be a list, not the text 'a'"),
    ({"features": [[1, 2, 3]], "ids": ["a", "b"]}, "2 ids for 1 row"),
    ({"features": [[1, 2, 3]], "top": 0}, "'top' must be a whole number of at least 1, not 0"),
    ({"features": [[1, 2, 3]], "top": True}, "'top' must be a whole number"),
    ({"features": [[1, 2, 3]], "top": 1.0}, "'top' must be a whole number"),
    ({"features": [[1, 2, 3]], "query_id": [1]}, "'query_id' must be a text or a whole number, not a list"),
    ({"features": [[1, 2, 3]], "query_id": True}, "'query_id' must be a text or a whole number, not true"),
    ({"features": [[1, 2, 3]], "feature_names": "bm25"}, "'feature_names' must be a list"),
    ({"features": [[1, 2, 3]], "feature_names": []}, "'feature_names' is empty"),
    ({"features": [[1, 2, 3]], "feature_names": ["bm25", 1, "age"]}, "'feature_names' must be texts"),
    ({"features": [[1, 2, 3]], "feature_names": ["bm25", "age", "x"]}, "does not know the feature 'x'"),
    ({"features": [[1, 2, 3]], "feature_names": ["bm25", "age", "age"]}, "'age' is given twice"),
    ({"features": [[1, 2]], "ids": ["a"]}, "candidate 'a' has 2 features instead of 3"),
    ({"features": [[1, 2, 3, 4]]}, "candidate 0 has 4 features instead of 3"),
    ({"features": [[1, 2, 3], 5]}, "the features of candidate 1 must be a list of numbers, not the number 5"),
    ({"features": ["abc"]}, "must be a list of numbers, not the text 'abc'"),
    ({"features": [{"bm25": 1, "age": 2, "x": 3}]}, "must be a list of numbers, not an object"),
    (
        {"features": [[1, "2", 3]], "ids": ["a"]},
        "the feature 'age' of candidate 'a' is the text '2'; it must be a number",
    ),
    ({"features": [[1, True, 3]]}, "the feature 'age' of candidate 0 is true"),
    ({"features": [[1, 2, False]], "ids": ["x"]}, "the feature 'url:length' of candidate 'x' is false"),
    ({"features": [[1, None, 3]]}, "the feature 'age' of candidate 0 is null; this ranker needs a number"),
    ({"features": [[1, [2], 3]]}, "the feature 'age' of candidate 0 is a list"),
    ({"features": [[1, 2, 1e39]]}, "the feature 'url:length' of candidate 0 is infinite, or larger than float32"),
    ({"features": [[1, 2, 3]] * 6}, "there are 6 candidates; the service takes at most 5"),
    ({"candidates": [named(1, 2, 3)] * 6}, "there are 6 candidates"),
    ({"candidates": [named(1, 2, 3)] * 2}, "the id 'd1' appears twice"),
    ({"candidates": [[1, 2, 3]]}, "candidate 1 must be an object with 'id' and 'features', not a list"),
    ({"candidates": [{"features": {}}]}, "candidate 1 has no 'id'"),
    ({"candidates": [{"id": "a"}]}, "candidate 1 has no 'features'"),
    ({"candidates": [named(1, 2, 3, weight=1)]}, "candidate 1 has the key 'weight'"),
    ({"candidates": [{"id": "a", "features": [1, 2, 3]}]}, "'features' of candidate 'a' must be an object"),
    ({"candidates": [named(1, 2)]}, "candidate 'd1' lacks the feature 'url:length'"),
    ({"candidates": [named(1, None, 3)]}, "the feature 'age' of candidate 'd1' is null"),
    ({"candidates": [named(1, True, 3)]}, "the feature 'age' of candidate 'd1' is true"),
    ({"candidates": [named(False, 2, 3)]}, "the feature 'bm25' of candidate 'd1' is false"),
    ({"candidates": [named(1, "2", 3)]}, "is the text '2'; it must be a number"),
    ({"candidates": [named(1, 2, -1e39)]}, "infinite, or larger than float32"),
    ({"candidates": [{"id": True, "features": named(1, 2, 3)["features"]}]}, "candidate 1 has the id true"),
    ({"candidates": [{"id": "a", "features": {**named(1, 2, 3)["features"], "x": 1}}]}, "has the feature 'x', which"),
    (b"", "the body is not JSON"),
    (b"{", "the body is not JSON"),
    (b'{"features": [[NaN, 1, 2]]}', "the body is not JSON"),
    (b'{"features": [[Infinity, 1, 2]]}', "the body is not JSON"),
    (b'{"features": [[1e999, 1, 2]]}', "the body is not JSON"),
    (b"[" * 3000 + b"]" * 3000, "the body is not JSON"),
    (b'"\xff"', "the body is not JSON"),
    (b'{"features": [[1, 2, 3]], "top": 1, "top": 2}', "the key 'top' appears twice"),
    (b'{"candidates": [{"id": "a", "id": "b", "features": {"bm25":1,"age":2,"url:length":3}}]}', "'id' appears twice"),
    (b'{"candidates": [{"id": "a", "features": {"bm25":1,"age":2,"url:length":3,"age":4}}]}', "'age' appears twice"),
    (b'{"ids": ["\\u003a"], "features": [[1,2,3]], "top": 1, "top": 2}', "'top' appears twice"),
    (b'{"ids": ["[[a]]"], "features": [\n[1,true,3]\n]}', "the feature 'age' of candidate '[[a]]' is true"),
    (b'{"feature_names": null, "features": [[1,2,3]], "top": 1, "top": 2}', "'top' appears twice"),
    (b'{"features": [[1,2,3]], "ids": [' + b"[" * 1000 + b"]" * 1000 + b'], "ids": ["a"]}', "a key appears twice"),
]


@pytest.mark.parametrize(("body", "words"), MALFORMED)
@pytest.mark.parametrize("compact", [False, True])
def test_what_is_malformed_is_named(body: Any, words: str, compact: bool) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":") if compact else None).encode()
    with pytest.raises(RequestError) as caught:
        read(content)
    assert words in str(caught.value)
    assert caught.value.status == (400 if "not JSON" in words else 422)


def test_texts_that_look_suspicious_are_fine() -> None:
    """Words and colons inside texts are not values and keys."""
    ids = ["true", ":false", "null", "[[true]]", '"top":', "\\u003a", "ünïcode:true"]
    rows = [[place, 1, 0] for place in range(len(ids))]
    assert read({"ids": ids, "features": rows, "query_id": "true:x"}, most=9).ids == ids
    candidates = [
        {"id": one, "features": dict(zip(NAMES, row, strict=True))} for one, row in zip(ids, rows, strict=True)
    ]
    assert read({"candidates": candidates}, most=9).table.tolist() == rows
    assert read({"candidates": candidates}, GAPS, most=9).table.tolist() == rows


def test_a_name_with_a_colon_that_is_absent_hides_no_repeated_key() -> None:
    with pytest.raises(RequestError, match="the key 'bm25' appears twice"):
        read(b'{"candidates": [{"id": "x", "features": {"bm25": 1, "bm25": 2, "age": 3}}]}', GAPS)


def test_refusals_do_not_give_back_long_texts() -> None:
    long = "x" * 100_000
    for body in (
        {"features": [[1, 2, 3]] * 2, "ids": [long, long]},
        {"features": [[1, 2, 1e39]], "ids": [long]},
        {"features": [[1, 2, None]], "ids": [long]},
        {"features": [[1, 2, 3]], "feature_names": [long, "a", "b"]},
        {"features": [[1, 2, 3]], "query_id": [long]},
        {"features": [[1, 2, 3]], "ids": [[long]]},
        {"features": [[1, 2, long]]},
        {"features": [], long: 1},
        {"features": [], "top": long},
        {"candidates": [named(1, 2, 3, **{long: 1})]},
        {"candidates": [{"id": long, "features": {long: 1}}]},
    ):
        with pytest.raises(RequestError) as caught:
            read(body)
        assert len(str(caught.value)) < 1000


value: st.SearchStrategy[Any] = st.one_of(
    st.floats(allow_nan=False, width=32),
    st.integers(-(2**53), 2**53),
    st.sampled_from([None, True, False, "1", [], 0, 1]),
)
gap = st.sampled_from(["", " ", "  ", "\t", "\n"])


@given(st.lists(st.lists(value, min_size=2, max_size=4), max_size=4), st.booleans(), gap)
def test_the_quick_look_agrees_with_the_careful_one(rows: list[list[Any]], takes_missing: bool, space: str) -> None:
    """Whatever the body holds, and however it is spaced: both read the same table, or both refuse."""
    layout = FeatureLayout(("a", "b", "c"), takes_missing)
    ids = [f"d{place}" for place in range(len(rows))]
    named = [{"id": one, "features": dict(zip("abc", row, strict=False))} for one, row in zip(ids, rows, strict=True)]
    bodies = {"arrays": {"ids": ids, "features": rows}, "names": {"candidates": named}}
    for form, body in bodies.items():
        text = json.dumps(body, separators=(f"{space},{space}", f"{space}:{space}")).replace("[[", f"[{space}[")
        if "Infinity" in text:
            continue  # not JSON

        def careful(form: str = form) -> Any:
            if form == "arrays":
                found = json_requests._carefully_as_arrays(rows, ids, layout.names, takes_missing)
            else:
                found = json_requests._carefully_by_name(named, layout)
            return layout.check(found, ids).tolist()

        quick = outcome(lambda text=text: read(text.encode(), layout).table.tolist())  # type: ignore[misc]
        assert quick == outcome(careful)


def outcome(call: Callable[[], Any]) -> str:
    """What a call gives, or why it refuses."""
    try:
        return repr(call())
    except RequestError as error:
        return str(error)
