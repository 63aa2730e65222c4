"""Stand-ins for OpenSearch with its Learning to Rank plugin, and for Elasticsearch: see `engine_stand_in.py`."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from shop import PRODUCTS, RefusedError, filled, matching, need, query_score, table_of

from cldrank.export.replay import elasticsearch_replay, opensearch_replay

Answer = dict[str, Any]


def indexed(method: str, path: str, body: Any) -> Answer | None:
    """What both answer when documents are indexed; None to other calls."""
    if (method, path) == ("POST", "/candidates/_bulk"):
        PRODUCTS.update({action["index"]["_id"]: one for action, one in zip(body[::2], body[1::2], strict=True)})
        return {"errors": False}
    return {"acknowledged": True} if path == "/candidates" and method in ("PUT", "DELETE") else None


class OpenSearch:
    """The Learning to Rank plugin: feature sets, models, logging, rescoring."""

    def __init__(self) -> None:
        self.store = False
        self.sets: dict[str, list[dict[str, Any]]] = {}
        self.models: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {}

    def call(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if (answer := indexed(method, path, body)) is not None or (method, path) == ("GET", "/"):
            return answer or {}
        path = path.replace("/candidates/", "/products/")
        if (method, path) == ("DELETE", "/_ltr"):
            self.__init__()  # type: ignore[misc]
            return {"acknowledged": True}
        if (method, path) == ("PUT", "/_ltr"):
            need(body is None, "the store takes no body")
            self.store = True
            return {"acknowledged": True, "shards_acknowledged": True, "index": ".ltrstore"}
        need(self.store or path.endswith("/_search"), "index_not_found_exception: no such index [.ltrstore]", 404)
        if method == "POST" and (found := re.fullmatch(r"/_ltr/_featureset/(\w+)", path)):
            content = body["featureset"]
            need(set(body) == {"featureset"} and set(content) <= {"name", "features"}, "[featureset] unknown field")
            need(content.get("name", found[1]) == found[1], "the name in the body is not that of the address")
            return self.define(found[1], [], content["features"])
        if method == "POST" and (found := re.fullmatch(r"/_ltr/_featureset/(\w+)/_addfeatures", path)):
            need(found[1] in self.sets, f"Unable to find feature set [{found[1]}]", 404)
            need(query == {"merge": "true"} and set(body) == {"features"}, "features to merge are wanted")
            return self.define(found[1], self.sets[found[1]], body["features"])
        if method == "POST" and (found := re.fullmatch(r"/_ltr/_featureset/(\w+)/_createmodel", path)):
            need(found[1] in self.sets, f"Unable to find feature set [{found[1]}]", 404)
            model = body["model"]
            need(set(model) == {"name", "model"}, "[model] unknown field")
            need(model["name"] not in self.models, f"a model named [{model['name']}] exists", 409)
            self.models[model["name"]] = (self.sets[found[1]], body)
            self.scores(
                model["name"], {one: self.features(self.sets[found[1]], one, {"keywords": "red"}) for one in ("p1",)}
            )
            return {"_index": ".ltrstore", "_id": f"model-{model['name']}", "_version": 1, "result": "created"}
        if method == "GET" and (found := re.fullmatch(r"/_ltr/_model/(\w+)", path)):
            known = found[1] in self.models
            need(known, json.dumps({"_index": ".ltrstore", "_id": f"model-{found[1]}", "found": False}), 404)
            return {"_index": ".ltrstore", "_id": f"model-{found[1]}", "_version": 1, "found": True}
        if method == "POST" and path == "/products/_search":
            return self.search(body)
        raise RefusedError(f"no handler found for uri [{path}] and method [{method}]")

    def define(self, name: str, before: list[dict[str, Any]], features: list[dict[str, Any]]) -> Answer:
        for one in features:
            need(set(one) == {"name", "params", "template_language", "template"}, f"[feature] unknown field in {one}")
            need(one["template_language"] in ("mustache", "derived_expression"), "unknown template_language")
            need("TODO" not in json.dumps(one), f"No field mapping can be found for [TODO] of {one['name']}")
        names = [one["name"] for one in before + features]
        need(len(set(names)) == len(names), "Feature defined twice in this set")
        result = "updated" if name in self.sets else "created"
        self.sets[name] = before + features
        self.features(self.sets[name], "p1", {"keywords": "red shoes"})
        return {"_index": ".ltrstore", "_id": f"featureset-{name}", "_version": 1, "result": result}

    def features(self, defined: list[dict[str, Any]], product: str, parameters: Mapping[str, Any]) -> dict[str, float]:
        found = {}
        for one in defined:
            if one["template_language"] == "mustache":
                known = {name: value for name, value in parameters.items() if name in one["params"]}
                score = query_score(filled(one["template"], known), PRODUCTS[product], product)
                found[one["name"]] = np.nan if score is None else score
        return found

    def scores(self, name: str, features: Mapping[str, Mapping[str, float]]) -> list[float]:
        defined, model = self.models[name]
        parts = {
            kind: [one for one in defined if one["template_language"] == kind]
            for kind in ("mustache", "derived_expression")
        }
        files = {
            "featureset.json": {"featureset": {"features": parts["mustache"]}},
            "scaling.json": {"features": parts["derived_expression"]},
            "model.json": model,
        }
        try:
            written = {file: json.dumps(content).encode() for file, content in files.items()}
            return [float(one) for one in opensearch_replay.scores(written, table_of(features), "3.8")]
        except (ValueError, KeyError) as error:
            raise RefusedError(f"parsing_exception: {error}") from error

    def search(self, body: dict[str, Any]) -> Answer:
        if "ext" in body:
            return self.logged(body)
        need(set(body) <= {"query", "rescore", "size", "_source"}, "unknown key in the search")
        hits = matching(body["query"])
        if "rescore" not in body:
            return hits_of(hits, body.get("size", 10))
        part = body["rescore"]
        need(set(part) == {"window_size", "query"}, "[rescore] unknown field")
        need(set(part["query"]) == {"rescore_query", "query_weight", "rescore_query_weight"}, "[query] unknown field")
        sltr = part["query"]["rescore_query"]["sltr"]
        need(sltr["model"] in self.models, f"Unknown model [{sltr['model']}]")
        window = list(hits)[: part["window_size"]]
        features = {one: self.features(self.models[sltr["model"]][0], one, sltr["params"]) for one in window}
        scores = dict(zip(window, self.scores(sltr["model"], features), strict=True))
        return hits_of(scores, body.get("size", 10))

    def logged(self, body: dict[str, Any]) -> Answer:
        *found, logging = body["query"]["bool"]["filter"]
        found += body["query"]["bool"].get("must", [])
        need(len(found) == 1, "candidates and sltr are wanted")
        specs, sltr = body["ext"]["ltr_log"]["log_specs"], logging["sltr"]
        need(specs["named_query"] == sltr["_name"], f"No query named [{specs['named_query']}] found")
        need(sltr["featureset"] in self.sets, f"Unknown featureset [{sltr['featureset']}]")
        hits = []
        for product in list(matching(found[0]))[: body.get("size", 10)]:
            values = self.features(self.sets[sltr["featureset"]], product, sltr["params"])
            entries = [
                {"name": name, **({} if np.isnan(value) else {"value": value})} for name, value in values.items()
            ]
            hits.append({"_id": product, "fields": {"_ltrlog": [{specs["name"]: entries}]}})
        return {"hits": {"hits": hits}}


def hits_of(scores: Mapping[str, float], size: int) -> Answer:
    """The hits of a search, best first."""
    order = sorted(scores, key=lambda one: -scores[one])[:size]
    return {"hits": {"hits": [{"_index": "products", "_id": one, "_score": scores[one]} for one in order]}}


class Elasticsearch:
    """Learning to rank of Elasticsearch itself: what eland calls, trained models, rescoring."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Any]] = {}

    def call(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if (answer := indexed(method, path, body)) is not None:
            return answer
        path = path.replace("/candidates/", "/products/")
        if (method, path) == ("GET", "/"):
            return {"version": {"number": "9.2.0", "build_flavor": "default"}, "tagline": "You Know, for Search"}
        if path == "/products/_search/template":
            need(query.get("include_named_queries_score") == "true", "scores of named queries are wanted")
            return self.logged(body)
        if (method, path) == ("POST", "/products/_search"):
            return self.named(body) if query.get("include_named_queries_score") == "true" else self.search(body)
        found = re.fullmatch(r"/_ml/trained_models/([a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?)", path)
        need(found, f"no handler found for uri [{path}] and method [{method}]")
        assert found is not None
        if method == "DELETE":
            need(self.models.pop(found[1], None), f"No known trained model with model_id [{found[1]}]", 404)
            return {"acknowledged": True}
        need(method == "PUT", f"Incorrect HTTP method for uri [{path}]", 405)
        need(("definition" in body) != ("compressed_definition" in body), "one of the two definitions is wanted")
        need(found[1] not in self.models, f"Trained machine learning model [{found[1]}] already exists", 400)
        self.models[found[1]] = body
        self.scores(found[1], ["p1"], {"query": "red shoes"})
        return {"model_id": found[1]}

    def logged(self, body: dict[str, Any]) -> Answer:
        parameters = body["params"]
        source = body["source"].replace("{{#toJson}}__doc_ids{{/toJson}}", json.dumps(parameters["__doc_ids"]))
        return self.named(json.loads(filled(source, parameters)))

    def named(self, body: dict[str, Any]) -> Answer:
        content = body["query"]["bool"]
        hits = []
        for product in matching({"bool": {"filter": content["filter"]}}):
            scores = {one["bool"]["_name"]: query_score(one, PRODUCTS[product], product) for one in content["should"]}
            found = {name: score for name, score in scores.items() if score is not None}
            hits.append({"_id": product, "matched_queries": found})
        return {"hits": {"hits": hits}}

    def scores(self, name: str, window: list[str], parameters: Mapping[str, Any]) -> dict[str, float]:
        body = self.models[name]
        extractors = body["inference_config"]["learning_to_rank"]["feature_extractors"]
        features: dict[str, dict[str, float]] = {product: {} for product in window}
        for one in (entry["query_extractor"] for entry in extractors):
            need(set(one) <= {"feature_name", "query", "default_score"}, "[query_extractor] unknown field")
            for product in window:
                score = query_score(filled(one["query"], parameters), PRODUCTS[product], product)
                features[product][one["feature_name"]] = np.nan if score is None else score
        packed = body.get("compressed_definition")
        definition = json.loads(gzip.decompress(base64.b64decode(packed))) if packed else body["definition"]
        found = elasticsearch_replay.ensemble_scores(definition, table_of(features))
        return dict(zip(window, (float(one) for one in found), strict=True))

    def search(self, body: dict[str, Any]) -> Answer:
        if "rescore" not in body:
            return hits_of(matching(body["query"]), body.get("size", 10))
        part = body["rescore"]
        need(set(part) == {"window_size", "learning_to_rank"}, "[rescore] unknown field")
        need(set(part["learning_to_rank"]) == {"model_id", "params"}, "[learning_to_rank] unknown field")
        size = body.get("size", 10)
        need(part["window_size"] >= size, "rescorer [window_size] must be at least size")
        name = part["learning_to_rank"]["model_id"]
        need(name in self.models, f"Could not find trained model [{name}]", 404)
        window = list(matching(body["query"]))[: part["window_size"]]
        return hits_of(self.scores(name, window, part["learning_to_rank"]["params"]), size)
