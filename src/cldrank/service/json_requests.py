"""Requests in JSON: candidates with features by name, or ids and features as arrays.

What is right is read at the speed of the parser. Where anything is odd, a second, careful look at each value finds out
what, and names the candidate and the feature.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson

from cldrank.arguments import shortened
from cldrank.service.json_text import JsonText
from cldrank.service.layout import FeatureLayout, FloatTable, RankRequest, check_candidate_ids, check_count, packed
from cldrank.service.request_error import RequestError
from cldrank.wording import listed

_BY_NAME = ("candidates", "query_id", "top")
_AS_ARRAYS = ("features", "feature_names", "ids", "query_id", "top")
_CANDIDATE = ("id", "features")
_both = itemgetter(*_CANDIDATE)


def request_of_json(body: bytes, layout: FeatureLayout, most: int) -> RankRequest:
    """The request that a body describes; refused, with the reason, where it describes none.

    >>> layout = FeatureLayout(("bm25", "age"))
    >>> request_of_json(b'{"ids": ["d1", "d2"], "features": [[0.5, 2], [0.25, 7]], "top": 1}', layout, most=100)
    RankRequest(ids=['d1', 'd2'], table=array([[0.5 , 2. ], [0.25, 7. ]], dtype=float32), query_id=None, top=1)
    """
    text = JsonText(body)
    text.refuse_excess(most, len(layout.names))
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}.", status=400) from None
    if not isinstance(given, dict):
        raise RequestError(
            f"the body must be an object with 'candidates', or with 'ids' and 'features', not {_kind(given)}."
        )
    known = _BY_NAME if "candidates" in given else _AS_ARRAYS
    if unknown := given.keys() - set(known):
        raise RequestError(f"the body has the key {shortened(min(unknown))}; it may have {listed(map(repr, known))}.")
    query_id, top = given.get("query_id"), given.get("top")
    if query_id is not None and type(query_id) not in (str, int):
        raise RequestError(f"'query_id' must be a text or a whole number, not {_kind(query_id)}.")
    check_top(top)
    read = _by_name if "candidates" in given else _as_arrays
    ids, table, keys = read(given, layout, most, text)
    told = "".join([*(ids if ids and type(ids[0]) is str else ()), query_id if type(query_id) is str else ""])
    if text.may_escape_colons() or text.n_colons > keys + told.count(":"):  # the parser keeps the last of two keys
        text.refuse_repeated_key()
    return RankRequest(ids, table, query_id, top)


def check_top(top: Any) -> None:
    """Refuse a number of candidates to give back that is not a whole number of at least 1."""
    if top is not None and (type(top) is not int or top < 1):
        raise RequestError(f"'top' must be a whole number of at least 1, not {shortened(top)}.")


# -- candidates with features by name ------------------------------------------------------------------------------


def _by_name(
    given: dict[str, Any], layout: FeatureLayout, most: int, text: JsonText
) -> tuple[Sequence[Any], FloatTable, int]:
    """Ids, table, and how many colons of the body are explained by keys."""
    candidates = _list(given["candidates"], "'candidates'")
    check_count(len(candidates), most)
    try:
        pairs = list(map(_both, candidates))
        rows = [features for _, features in pairs]
        table = layout.of_mappings(rows)
        plain = set(map(len, candidates)) <= {2} and set(map(len, rows)) <= {len(layout.names)}
        plain = plain and not (text.may_name_booleans() and _has_booleans(map(dict.values, rows)))
    except (KeyError, TypeError, struct.error):
        plain = False
    if not plain:
        table = _carefully_by_name(candidates, layout)
        pairs = list(map(_both, candidates))
    ids = [one for one, _ in pairs]
    check_candidate_ids(ids, len(candidates))
    if plain:
        keys = len(ids) * (len(layout.names) + "".join(layout.names).count(":"))
    else:
        there = [name for _, features in pairs for name in features]
        keys = len(there) + "".join(there).count(":")
    return ids, layout.check(table, ids), len(given) + 2 * len(ids) + keys


def _carefully_by_name(candidates: list[Any], layout: FeatureLayout) -> FloatTable:
    rows = []
    for place, candidate in enumerate(candidates, 1):
        if not isinstance(candidate, dict):
            raise RequestError(f"candidate {place} must be an object with 'id' and 'features', not {_kind(candidate)}.")
        for key in _CANDIDATE:
            if key not in candidate:
                raise RequestError(f"candidate {place} has no {key!r}.")
        if unknown := candidate.keys() - set(_CANDIDATE):
            raise RequestError(
                f"candidate {place} has the key {shortened(min(unknown))}; it may have 'id' and 'features'."
            )
        who, features = f"candidate {shortened(candidate['id'])}", candidate["features"]
        if not isinstance(features, dict):
            raise RequestError(f"'features' of {who} must be an object from names to numbers, not {_kind(features)}.")
        if unknown := features.keys() - set(layout.names):
            raise RequestError(
                f"{who} has the feature {shortened(min(unknown))}, which the ranker does not know; GET /ranker lists "
                "those it knows."
            )
        rows.append([_number(features, name, who, layout.takes_missing) for name in layout.names])
    return packed(rows, len(layout.names))


# -- ids and features as arrays ------------------------------------------------------------------------------------


def _as_arrays(
    given: dict[str, Any], layout: FeatureLayout, most: int, text: JsonText
) -> tuple[Sequence[Any], FloatTable, int]:
    """Ids, table, and how many colons of the body are explained by keys and names."""
    if "features" not in given:
        raise RequestError("the body needs 'candidates', or 'ids' and 'features'.")
    rows = _list(given["features"], "'features'")
    check_count(len(rows), most)
    ids = _list(given["ids"], "'ids'") if "ids" in given else list(range(len(rows)))
    check_candidate_ids(ids, len(rows))
    names = _names(given.get("feature_names"), layout)
    places = layout.places(names)
    try:
        table = packed(rows, len(names))
        plain = set(map(type, rows)) <= {list} and not (text.may_list_booleans() and _has_booleans(rows))
    except (TypeError, struct.error):
        plain = False
    if not plain:
        table = _carefully_as_arrays(rows, ids, names, layout.takes_missing)
    in_names = "".join(given.get("feature_names") or ()).count(":")
    return ids, layout.check(layout.spread(table, places), ids), len(given) + in_names


def _names(given: Any, layout: FeatureLayout) -> tuple[str, ...]:
    if given is None:
        return layout.names
    names = _list(given, "'feature_names'")
    if not all(isinstance(name, str) for name in names):
        raise RequestError("'feature_names' must be texts.")
    if not names:
        raise RequestError("'feature_names' is empty; name the features, or leave it out.")
    return tuple(names)


def _carefully_as_arrays(rows: list[Any], ids: Sequence[Any], names: Sequence[str], takes_missing: bool) -> FloatTable:
    found = []
    for one, row in zip(ids, rows, strict=True):
        who = f"candidate {shortened(one)}"
        if not isinstance(row, list):
            raise RequestError(f"the features of {who} must be a list of numbers, not {_kind(row)}.")
        if len(row) != len(names):
            raise RequestError(f"{who} has {len(row)} features instead of {len(names)}.")
        by_name = dict(zip(names, row, strict=True))
        found.append([_number(by_name, name, who, takes_missing) for name in names])
    return packed(found, len(names))


# -- values --------------------------------------------------------------------------------------------------------


def _number(features: dict[str, Any], name: str, who: str, takes_missing: bool) -> float:
    """A feature of a candidate; NaN where it is missing and may be."""
    value = features.get(name)
    if type(value) is float or type(value) is int:
        return value
    if value is None and takes_missing:
        return math.nan
    if name not in features:
        raise RequestError(f"{who} lacks the feature {name!r}.")
    if value is None:
        raise RequestError(f"the feature {name!r} of {who} is null; this ranker needs a number for every feature.")
    raise RequestError(f"the feature {name!r} of {who} is {_kind(value)}; it must be a number.")


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"{what} must be a list, not {_kind(value)}.")
    return value


def _has_booleans(rows: Iterable[Iterable[Any]]) -> bool:
    return bool in set(map(type, chain.from_iterable(rows)))


def _kind(value: Any) -> str:
    """What JSON calls a value.

    >>> _kind(None), _kind(True), _kind([1]), _kind("0.5")
    ('null', 'true', 'a list', "the text '0.5'")
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {shortened(value, 60)}"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"the number {value}"
