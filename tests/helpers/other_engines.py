"""Stand-ins for Solr with its module `ltr`, and for Vespa: see `engine_stand_in.py`."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from shop import PRODUCTS, RefusedError, matching, need, number_field, table_of, text_field, word_score

from cldrank.export.replay import solr_replay, vespa_replay

Answer = dict[str, Any]


class Solr:
    """The module `ltr`: stores of features and models, logging, reranking."""

    def __init__(self) -> None:
        self.features: dict[str, list[dict[str, Any]]] = {}
        self.models: dict[str, dict[str, Any]] = {}

    def call(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        done: Answer = {"responseHeader": {"status": 0, "QTime": 1}}
        path = path.replace("/solr/candidates/", "/solr/products/")
        if path.startswith("/solr/products/config"):
            return done
        if (method, path) == ("POST", "/solr/products/update"):
            PRODUCTS.update({one["id"]: one for one in body if one != "delete"})
            return done
        if method == "DELETE":
            store = self.models if "model-store" in path else self.features
            need(store.pop(path.rpartition("/")[2], None), "no such entry", 404)
            return done
        if (method, path) == ("PUT", "/solr/products/schema/feature-store"):
            for one in body:
                need(set(one) == {"store", "name", "class", "params"}, f"unknown key in {one}")
                known = self.features.setdefault(one["store"], [])
                need(
                    one["name"] not in [other["name"] for other in known],
                    f"{one['name']} exists, and cannot be replaced",
                )
                known.append(one)
            return done
        if (method, path) == ("PUT", "/solr/products/schema/model-store"):
            need(body["name"] not in self.models, f"model '{body['name']}' already exists. Please use a different name")
            need(body["store"] in self.features, f"Feature store {body['store']} is missing")
            self.models[body["name"]] = body
            self.reranked(body["name"], ["p1"], {"text": "red"})
            return done
        if path == "/solr/admin/collections":
            need(query == {"action": "RELOAD", "name": "products"}, "an unknown action or collection")
            return done
        if path == "/solr/products/query":
            return {**done, "response": {"docs": self.search(body or query)}}
        raise RefusedError(f"Searching for Solr? There is no {path}", 404)

    def value(self, feature: dict[str, Any], product: str, parameters: Mapping[str, str]) -> float:
        kind = feature["class"].removeprefix("org.apache.solr.ltr.feature.")
        if kind == "FieldValueFeature":
            return number_field(PRODUCTS[product], feature["params"]["field"])
        need(kind == "SolrFeature", f"Error loading class '{feature['class']}'")
        found = re.fullmatch(r"{!(\w+)(?: qf=(\w+))?}\${(\w+)}", feature["params"]["q"])
        need(found, f"cannot parse {feature['params']['q']}")
        assert found is not None
        need(found[1] in ("dismax", "edismax"), f"Unknown query parser '{found[1]}'")
        need(
            found[3] in parameters,
            f"SolrFeatureWeight requires efi parameter that was not passed in request: {found[3]}",
        )
        return word_score(text_field(PRODUCTS[product], found[2]), parameters[found[3]]) or 0.0

    def reranked(self, name: str, window: list[str], parameters: Mapping[str, str]) -> list[float]:
        model = self.models[name]
        store = self.features[model["store"]]
        features = {one: {part["name"]: self.value(part, one, parameters) for part in store} for one in window}
        files = {"model.json": json.dumps(model).encode(), "features.json": json.dumps(store).encode()}
        try:
            return [float(one) for one in solr_replay.scores(files, table_of(features), "9.9")]
        except (ValueError, KeyError) as error:
            raise RefusedError(f"SolrException: {error}") from error

    def search(self, query: Mapping[str, str]) -> list[Answer]:
        if query.get("rows") == "0":
            return []
        if of_query := re.fullmatch(r"{!term f=query_s}(.*)", query.get("fq", "")):
            found = matching({"term": {"query_s": of_query[1]}})
            query = {**query, "fq": "{!terms f=id}" + ",".join(found)}
        given = {
            key.removeprefix("efi."): query[value[1:]] for key, value in self.local(query).items() if "efi." in key
        }
        if "fq" in query:
            separator = "§" if "separator='§' v=$ids" in query["fq"] else ","
            window = query.get("ids", query["fq"].removeprefix("{!terms f=id}")).split(separator)
            window = [one for one in window if one in PRODUCTS]
        else:
            need(query["q"] == "{!edismax qf='title body' v=$qq}", f"cannot parse {query['q']}")
            window = list(matching({"multi_match": {"query": query["qq"], "fields": ["title", "body"]}}))
        docs: list[Answer] = [{"id": one} for one in window]
        if "rq" in query:
            local = self.local(query)
            need(local["model"] in self.models, f"cannot find model {local['model']}")
            window = window[: int(local["reRankDocs"])]
            scores = self.reranked(local["model"], window, given)
            docs = [{"id": one, "score": score} for one, score in zip(window, scores, strict=True)]
            docs.sort(key=lambda doc: -doc["score"])
        elif "[features" in query["fl"]:
            store = self.features[self.local(query)["store"]]
            for doc in docs:
                doc["[features]"] = ",".join(f"{one['name']}={self.value(one, doc['id'], given)}" for one in store)
        return docs[: int(query.get("rows", 10))]

    def local(self, query: Mapping[str, str]) -> dict[str, str]:
        """The parameters of rq={!ltr …}, or of fl=[features …]."""
        text = query.get("rq") or query["fl"]
        found = re.search(r"{!ltr ([^}]*)}|\[features ([^\]]*)\]", text)
        need(found, f"cannot parse {text}")
        assert found is not None
        return dict(part.split("=", 1) for part in (found[1] or found[2]).split())


class Vespa:
    """An application package that is deployed as a zip file, and searched."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def call(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if path == "/state/v1/health":
            return {"status": {"code": "up"}}
        if path.startswith("/document/v1/candidates/candidates/docid/"):
            PRODUCTS[body["fields"]["id"]] = body["fields"]
            return {"id": path}
        if (method, path) == ("POST", "/application/v2/tenant/default/prepareandactivate"):
            return self.deploy(body)
        need(path == "/search/" and self.files, f"nothing at {path}", 404)
        return self.search(body or query)

    def deploy(self, body: bytes) -> Answer:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        need("services.xml" in files, "services.xml does not exist in the application package")
        (schema,) = (name for name in ("product", "candidates") if f"schemas/{name}.sd" in files)
        need(f"schema {schema} {{".encode() in files[f"schemas/{schema}.sd"], f"{schema}.sd holds no such schema")
        profiles = {name: text.decode() for name, text in files.items() if name.endswith(".profile")}
        need(all(name.startswith(f"schemas/{schema}/") for name in profiles), "a profile lies outside of its schema")
        for name, text in profiles.items():
            need("expression: TODO" not in text, f"{name}: could not parse the expression TODO")
            for model in re.findall(r'xgboost\("(\S+)"\)', text):
                need(f"models/{model}" in files, f"{name}: no such model: {model}")
        self.files = files
        return {"message": "Session 2 for tenant 'default' prepared and activated.", "session-id": "2"}

    def features(self, product: str, words: str) -> dict[str, float]:
        fields = PRODUCTS[product]
        if "query_s" in fields:
            return {f"attribute({name})": one for name, one in fields.items() if name not in ("id", "query_s")}
        popular = fields["popularity"]
        found = {f"bm25({name})": word_score(fields[name], words) or 0.0 for name in ("title", "body")}
        return {**found, "attribute(popularity)": np.nan if popular is None else popular}

    def search(self, query: Mapping[str, str]) -> Answer:
        named = [text for name, text in self.files.items() if name.endswith(f"/{query['ranking']}.profile")]
        profile = b"".join(named).decode()
        need(profile, f"schema[product] does not contain rank profile '{query['ranking']}'")
        if of_query := re.fullmatch(r'select id from candidates where query_s contains "(.*)"', query["yql"]):
            found = json.dumps(list(matching({"term": {"query_s": of_query[1]}})))[1:-1]
            query = {**query, "yql": f"select * from product where rank(id in ({found}), userQuery())", "query": ""}
        yql = re.fullmatch(
            r"select \* from product where (?:rank\(id in \((.*)\), userQuery\(\)\)|userQuery\(\))", query["yql"]
        )
        need(yql, f"could not parse {query['yql']}")
        assert yql is not None
        words = {"multi_match": {"query": query["query"], "fields": ["title", "body"]}}
        products = [one for one in json.loads(f"[{yql[1]}]") if one in PRODUCTS] if yql[1] else list(matching(words))
        features = {one: self.features(one, query["query"]) for one in products}
        scores = [0.0] * len(products)
        if "first-phase" in profile:
            names = {
                name.rsplit("/", 1)[-1]: text
                for name, text in self.files.items()
                if name.endswith(f"{query['ranking']}.profile")
            }
            models = {name: text for name, text in self.files.items() if name.startswith("models/")}
            scores = list(vespa_replay.scores({**names, **models}, table_of(features), version=None))
        hits = []
        for product, score in sorted(zip(products, scores, strict=True), key=lambda entry: -entry[1]):
            fields: Answer = {"id": product}
            listed = re.findall(r"match-features: (.*)", profile)
            fields |= {"matchfeatures": {name: features[product][name] for name in listed[0].split()}} if listed else {}
            hits.append({"relevance": float(score), "fields": fields})
        return {"root": {"children": hits[: int(query.get("hits", 10))]}}
