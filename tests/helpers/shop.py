"""A small shop, which the pages about engines search: `python -m shop` writes what they take as given.

log.parquet       pages of a production ranker that goes by popularity, with neighbours swapped on half of them
queries.csv       the text of each query
train.parquet     the features of its candidates, of which a page shows five; only with `python -m shop features`

`query_score` is the score of a product by a query of OpenSearch or Elasticsearch, for as much of that language as the
pages need; what it does not know it refuses, as an engine does. Documents that are indexed become products, too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from cldrank.export.replay import NamedTable

Product = Mapping[str, Any]

COLOURS = ("red", "blue", "green", "black", "white", "brown", "grey", "pink", "orange")
KINDS = ("shoes", "hat", "shirt", "coat", "bag", "belt", "scarf")
PAGE, SESSIONS = 5, 200  # results on a page, pages of a query
VALUE = re.compile(r"doc\['(\w+)'\].size\(\) == 0 \? 0 : doc\['(\w+)'\].value")


class RefusedError(Exception):
    """What an engine answers to a request that it does not take."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


def products() -> dict[str, Product]:
    """Two products of each colour and kind, by id; some have no popularity."""
    random = np.random.default_rng(0)
    found: dict[str, Product] = {}
    for colour in COLOURS:
        for kind in KINDS:
            for _ in range(2):
                body = " ".join(random.choice([*COLOURS, *KINDS], 4))
                popular = round(float(random.lognormal()), 2) if random.random() < 0.9 else None
                found[f"p{len(found) + 1}"] = {"title": f"{colour} {kind}", "body": body, "popularity": popular}
    return found


PRODUCTS = products()


def word_score(text: str, words: str) -> float | None:
    """The more words match, the higher; None if none does."""
    counts = [text.split().count(word) for word in words.lower().split()]
    return float(np.float32(sum(2.2 * count / (count + 1.2) for count in counts))) if any(counts) else None


def query_score(query: Mapping[str, Any], product: Product, identity: str) -> float | None:
    """The score of a product, None if the query does not match it."""
    if not isinstance(query, Mapping) or len(query) != 1:
        raise RefusedError(f"[_na] query malformed: one query by its name is wanted, not {json.dumps(query)}")
    ((kind, content),) = query.items()
    if kind == "match":
        ((field, words),) = content.items()
        return word_score(text_field(product, field), words)
    if kind == "multi_match":
        scores = [word_score(text_field(product, field), content["query"]) for field in content["fields"]]
        return max((one for one in scores if one is not None), default=None)
    if kind == "match_all":
        return 1.0
    if kind in ("terms", "ids"):
        return 1.0 if identity in (content["_id"] if kind == "terms" else content["values"]) else None
    if kind == "function_score":
        factor = content["field_value_factor"]
        need(content["boost_mode"] == "replace", "function_score: this shop knows a field in place of the score")
        return number_field(product, factor["field"], factor["missing"])
    if kind == "script_score":
        found = VALUE.fullmatch(content["script"]["source"])
        if found is None or found[1] != found[2]:
            raise RefusedError(f"script_exception: compile error in {content['script']['source']!r}")
        return number_field(product, found[1])
    if kind == "term":
        ((field, word),) = content.items()
        return 1.0 if product.get(field) == word else None
    if kind == "bool":
        return bool_score(content, product, identity)
    raise RefusedError(f"unknown query [{kind}]")


def text_field(product: Product, name: str) -> str:
    """A field of text; there are two."""
    if name not in ("title", "body"):
        raise RefusedError(f"No field mapping can be found for the field with name [{name}]")
    return str(product[name])


def number_field(product: Product, name: str, missing: float = 0.0) -> float:
    """A field of numbers, in float32."""
    need(any(name in one for one in PRODUCTS.values()), f"No field found for [{name}] in mapping")
    value = product.get(name)
    return float(np.float32(missing if value is None else value))


def bool_score(content: Mapping[str, Any], product: Product, identity: str) -> float | None:
    """Clauses added up; one of `should` has to match if there is nothing else."""
    if unknown := set(content) - {"must", "should", "filter", "_name"}:
        raise RefusedError(f"[bool] query does not support {sorted(unknown)}")
    parts: dict[str, list[float | None]] = {}
    for name in ("must", "should", "filter"):
        clauses = content.get(name, [])
        parts[name] = [
            query_score(one, product, identity) for one in (clauses if isinstance(clauses, list) else [clauses])
        ]
    needed = parts["must"] + parts["filter"]
    if None in needed or (not needed and all(one is None for one in parts["should"])):
        return None
    return float(sum(one for one in parts["must"] + parts["should"] if one is not None))


def filled(template: Any, parameters: Mapping[str, Any]) -> Any:
    """A template of mustache with its parameters."""
    if isinstance(template, str):
        unknown = [name for name in re.findall(r"{{(\w+)}}", template) if name not in parameters]
        if unknown:
            raise RefusedError(f"Missing required param(s): [{', '.join(unknown)}]")
        return re.sub(r"{{(\w+)}}", lambda found: str(parameters[found[1]]), template)
    if isinstance(template, Mapping):
        return {filled(key, parameters): filled(value, parameters) for key, value in template.items()}
    return [filled(one, parameters) for one in template] if isinstance(template, list) else template


def need(condition: object, reason: str, status: int = 400) -> None:
    """Refuse a request unless it is right."""
    if not condition:
        raise RefusedError(reason, status)


def table_of(features: Mapping[str, Mapping[str, float]]) -> NamedTable:
    """Features of some products as a replay takes them."""
    names = list(next(iter(features.values())))
    rows = [[row.get(name, np.nan) for name in names] for row in features.values()]
    return NamedTable(names, np.array(rows, dtype=np.float32))


def matching(query: Mapping[str, Any]) -> dict[str, float]:
    """The products that a query matches, with their scores, the best first."""
    scores = {one: query_score(query, product, one) for one, product in PRODUCTS.items()}
    return dict(sorted(((one, s) for one, s in scores.items() if s is not None), key=lambda entry: -entry[1]))


def searches() -> dict[str, dict[str, Any]]:
    """The text of each query and its candidates: the eight that match best."""
    found = {}
    for number, (colour, kind) in enumerate(((c, k) for c in COLOURS for k in KINDS), start=1):
        words = f"{colour} {kind}"
        scores = {
            one: (word_score(product["title"], words) or 0) + (word_score(product["body"], words) or 0)
            for one, product in PRODUCTS.items()
        }
        found[f"q{number}"] = {"keywords": words, "documents": sorted(scores, key=lambda one: -scores[one])[:8]}
    return found


def log(seed: int = 0) -> pyarrow.Table:
    """One row per displayed result: clicked if it is examined, with 1/position, and liked."""
    random = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("session_id", "query_id", "doc_id", "position", "clicked")}
    for query, search in searches().items():
        popular = {one: PRODUCTS[one]["popularity"] or 0 for one in search["documents"]}
        usual = sorted(popular, key=lambda one: -popular[one])[:PAGE]
        liked = {
            one: 0.1 + 0.5 * (PRODUCTS[one]["title"] == search["keywords"]) + 0.05 * min(popular[one], 4)
            for one in usual
        }
        for session in range(SESSIONS):
            page = list(usual)
            if random.random() < 0.5:
                upper = random.integers(PAGE - 1)
                page[upper : upper + 2] = page[upper : upper + 2][::-1]
            for position, product in enumerate(page, start=1):
                values = (
                    f"{query}-{session}",
                    query,
                    product,
                    position,
                    bool(random.random() < liked[product] / position),
                )
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
    return pyarrow.table(rows)


def features() -> pyarrow.Table:
    """The features of all candidates."""
    rows = []
    for query, search in searches().items():
        for one in search["documents"]:
            product = PRODUCTS[one]
            scores = {
                f"{name}_bm25": word_score(product[name], search["keywords"]) or 0.0 for name in ("title", "body")
            }
            rows.append({"query_id": query, "doc_id": one, **scores, "popularity": product["popularity"] or 0.0})
    return pyarrow.Table.from_pylist(rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["features"]:
        pyarrow.parquet.write_table(features(), "train.parquet")
    lines = [f"{query},{search['keywords']}\n" for query, search in searches().items()]
    Path("queries.csv").write_text("".join(["query_id,query\n", *lines]), encoding="utf-8")
    pyarrow.parquet.write_table(log(), "log.parquet")
