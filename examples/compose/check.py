"""Let an engine rank by an export, and compare every score with the ranker's.

    docker compose up --detach --wait opensearch
    python check.py opensearch http://localhost:9200 ranker/ test.parquet

Each candidate becomes a document of the index `candidates` with its features as numbers, so that nothing but the
ranker's arithmetic can differ. The index, the store of features (`_ltr`) and the model `live` are replaced; run it on
an engine of its own.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import numpy as np

import cldrank as cr

INDEX, MODEL = "candidates", "live"
TOLERANCE = 1e-5  # of the largest score: engines compute in float32
PATIENCE = 180  # seconds until an engine answers
CONFIG_PORT = 19071  # of Vespa's config server
Document = Mapping[str, Any]


def call(method: str, url: str, body: Any = None, kind: str = "application/json") -> Any:
    """The answer of the engine; what a DELETE does not find is gone."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urlopen(Request(url, content, {"Content-Type": kind}, method=method), timeout=300) as answer:
            return json.loads(answer.read() or b"{}")
    except HTTPError as error:
        if method == "DELETE" and error.code in (400, 404):
            return {}
        raise SystemExit(f"{method} {url}: {error.code}: {error.read().decode('utf-8', 'replace')[:2000]}") from None


def wait_for(url: str) -> None:
    """Wait until there is an answer."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(2)


class OpenSearch:
    """OpenSearch with its Learning to Rank plugin, or Elasticsearch with that of OpenSource Connections."""

    def __init__(self, address: str) -> None:
        self.address = address

    def renamed(self, field: str) -> str:
        """What the engine calls a feature."""
        return field

    def prepare(self, fields: Sequence[str]) -> None:
        """An empty index; features in float32, as the ranker takes them."""
        wait_for(self.address)
        call("DELETE", f"{self.address}/{INDEX}")
        kinds = {"query_s": {"type": "keyword"}, **{field: {"type": "float"} for field in fields}}
        call("PUT", f"{self.address}/{INDEX}", {"mappings": {"properties": kinds}})

    def fill(self, documents: Sequence[Document]) -> None:
        """Index documents."""
        for start in range(0, len(documents), 2000):
            lines: list[Document] = []
            for document in documents[start : start + 2000]:
                content = {name: value for name, value in document.items() if name != "id"}
                lines += [{"index": {"_id": document["id"]}}, content]
            text = "".join(json.dumps(line) + "\n" for line in lines).encode()
            answer = call("POST", f"{self.address}/{INDEX}/_bulk?refresh=true", text, "application/x-ndjson")
            if answer["errors"]:
                raise SystemExit(f"documents were refused: {json.dumps(answer)[:2000]}")

    def load(self, folder: Path) -> None:
        """Upload the features, each the value of its field, and the model."""
        call("DELETE", f"{self.address}/_ltr")
        call("PUT", f"{self.address}/_ltr")
        features = json.loads((folder / "featureset.json").read_text())["featureset"]["features"]
        for one in features:
            factor = {"field": one["name"], "missing": 0}
            query = {"query": {"match_all": {}}, "boost_mode": "replace", "field_value_factor": factor}
            one |= {"params": [], "template": {"function_score": query}}
        completed = {"featureset": {"name": MODEL, "features": features}}
        (folder / "featureset.json").write_text(json.dumps(completed))
        own = f"{self.address}/_ltr/_featureset/{MODEL}"
        call("POST", own, completed)
        if (folder / "scaling.json").exists():
            call("POST", f"{own}/_addfeatures?merge=true", (folder / "scaling.json").read_bytes())
        call("POST", f"{own}/_createmodel", (folder / "model.json").read_bytes())

    def scores(self, query: str, size: int) -> dict[str, float]:
        """The scores of the candidates of a query, by document."""
        body = {"size": size, "_source": False, "query": {"term": {"query_s": query}}, "rescore": self.rescore(size)}
        hits = call("POST", f"{self.address}/{INDEX}/_search", body)["hits"]["hits"]
        return {hit["_id"]: hit["_score"] for hit in hits}

    def rescore(self, size: int) -> Document:
        """How a search asks for the model."""
        model = {"sltr": {"params": {}, "model": MODEL}}
        weights = {"query_weight": 0, "rescore_query_weight": 1}
        return {"window_size": size, "query": {"rescore_query": model, **weights}}


class Elasticsearch(OpenSearch):
    """Learning to rank of Elasticsearch itself; it takes boosted trees."""

    def load(self, folder: Path) -> None:
        """Complete the features, and upload as the export does."""
        config = json.loads((folder / "features.json").read_text())
        for one in (entry["query_extractor"] for entry in config["learning_to_rank"]["feature_extractors"]):
            name = one["feature_name"]
            source = f"doc['{name}'].size() == 0 ? 0 : doc['{name}'].value"
            one["query"] = {"script_score": {"query": {"match_all": {}}, "script": {"source": source}}}
        (folder / "features.json").write_text(json.dumps(config))
        subprocess.run([sys.executable, folder / "upload.py", self.address], check=True)

    def rescore(self, size: int) -> Document:
        """How a search asks for the model."""
        return {"window_size": size, "learning_to_rank": {"model_id": MODEL, "params": {}}}


class Solr:
    """Solr with its module `ltr`; the address is that of a collection of its default configuration."""

    def __init__(self, address: str) -> None:
        self.address = address

    def renamed(self, field: str) -> str:
        """What the engine calls a feature."""
        return field

    def prepare(self, fields: Iterable[str]) -> None:
        """The parser and the logger of the module, and no documents; fields follow from their endings."""
        wait_for(f"{self.address}/query?q=*:*&rows=0")
        del fields
        package = "org.apache.solr.ltr"
        for kind, name, own in (
            ("queryparser", "ltr", "search.LTRQParserPlugin"),
            ("transformer", "features", "response.transform.LTRFeatureLoggerTransformerFactory"),
        ):
            overlay = call("GET", f"{self.address}/config/overlay").get("overlay", {})
            verb = "update" if f'"{name}"' in json.dumps(overlay) else "add"
            call("POST", f"{self.address}/config", {f"{verb}-{kind}": {"name": name, "class": f"{package}.{own}"}})
        call("POST", f"{self.address}/update?commit=true", {"delete": {"query": "*:*"}})

    def fill(self, documents: Sequence[Document]) -> None:
        """Index documents."""
        call("POST", f"{self.address}/update?commit=true", list(documents))

    def load(self, folder: Path) -> None:
        """Upload the features, each the value of its field, and the model."""
        for store in ("model-store", "feature-store"):
            call("DELETE", f"{self.address}/schema/{store}/{MODEL}")
        features = json.loads((folder / "features.json").read_text())
        for one in features:
            kind = "org.apache.solr.ltr.feature.FieldValueFeature"
            one |= {"class": kind, "params": {"field": one["name"]}}
        (folder / "features.json").write_text(json.dumps(features))
        call("PUT", f"{self.address}/schema/feature-store", features)
        call("PUT", f"{self.address}/schema/model-store", (folder / "model.json").read_bytes())

    def scores(self, query: str, size: int) -> dict[str, float]:
        """The scores of the candidates of a query, by document."""
        search = {"q": "*:*", "fq": f"{{!term f=query_s}}{query}", "fl": "id,score", "rows": size}
        asked = urlencode({**search, "rq": f"{{!ltr model={MODEL} reRankDocs={size}}}"})
        found = call("GET", f"{self.address}/query?{asked}")["response"]["docs"]
        return {document["id"]: document["score"] for document in found}


class Vespa:
    """Vespa, with a small application of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.config = f"{urlsplit(address).scheme}://{urlsplit(address).hostname}:{CONFIG_PORT}"
        self.files: dict[str, bytes] = {}
        self.fields: Sequence[str] = ()

    def renamed(self, field: str) -> str:
        """What the engine calls a feature."""
        return f"attribute({field})"

    def prepare(self, fields: Sequence[str]) -> None:
        """Deploy a schema."""
        self.fields = fields
        kinds = {"id": "string", "query_s": "string", **dict.fromkeys(fields, "float")}
        declared = "".join(
            f"        field {name} type {kind} {{ indexing: attribute | summary }}\n" for name, kind in kinds.items()
        )
        words = "    fieldset default { fields: query_s }\n"
        schema = f"schema {INDEX} {{\n    document {INDEX} {{\n{declared}    }}\n{words}}}\n"
        services = (
            '<services version="1.0"><container id="default" version="1.0"><search/><document-api/></container>'
            '<content id="content" version="1.0"><min-redundancy>1</min-redundancy>'
            f'<documents><document type="{INDEX}" mode="index"/></documents></content></services>'
        )
        self.files = {"services.xml": services.encode(), f"schemas/{INDEX}.sd": schema.encode()}
        wait_for(f"{self.config}/state/v1/health")
        self.deploy()
        wait_for(f"{self.address}/state/v1/health")

    def deploy(self) -> None:
        """Deploy all files."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in self.files.items():
                archive.writestr(name, content)
        call(
            "POST",
            f"{self.config}/application/v2/tenant/default/prepareandactivate",
            packed.getvalue(),
            "application/zip",
        )

    def fill(self, documents: Sequence[Document]) -> None:
        """Index documents."""
        for document in documents:
            own = quote(document["id"], safe="")
            call("POST", f"{self.address}/document/v1/{INDEX}/{INDEX}/docid/{own}", {"fields": document})

    def load(self, folder: Path) -> None:
        """Deploy the export, and a profile that logs the features."""
        listed = " ".join(self.renamed(field) for field in self.fields)
        (folder / "logged.profile").write_text(f"rank-profile logged {{\n    match-features: {listed}\n}}\n")
        for path in (path for path in folder.rglob("*") if path.parent.name == "models" or path.suffix == ".profile"):
            place = "models" if path.parent.name == "models" else f"schemas/{INDEX}"
            self.files[f"{place}/{path.name}"] = path.read_bytes()
        self.deploy()

    def scores(self, query: str, size: int) -> dict[str, float]:
        """The scores of the candidates of a query, by document."""
        yql = f'select id from {INDEX} where query_s contains "{query}"'
        found = call("GET", f"{self.address}/search/?{urlencode({'yql': yql, 'ranking': MODEL, 'hits': size})}")
        return {hit["fields"]["id"]: hit["relevance"] for hit in found["root"].get("children", [])}


ENGINES = {"opensearch": OpenSearch, "elasticsearch": Elasticsearch, "solr": Solr, "vespa": Vespa}


def field_names(data: cr.RankingDataset) -> dict[str, str]:
    """The fields that hold the features; Solr takes those whose names end so for numbers."""
    return {feature: f"x{number}_f" for number, feature in enumerate(data.feature_names)}


def check(name: str, address: str, ranker: Any, data: cr.RankingDataset, folder: Path) -> float:
    """The largest difference of a score, as a share of the largest score; the export is left in a folder, completed.

    A constant, which changes no order, is left out: some engines know no intercept.
    """
    engine: Any = ENGINES[name](address.rstrip("/"))
    fields = field_names(data)
    queries = [str(query) for query in np.repeat(data.query_ids, np.diff(data.offsets))]
    rows = np.asarray(data.features, dtype=np.float64).tolist()
    documents = [
        {"id": f"{query}_{at}", "query_s": query, **dict(zip(fields.values(), row, strict=True))}
        for at, (query, row) in enumerate(zip(queries, rows, strict=True))
    ]
    engine.prepare(list(fields.values()))
    engine.fill(documents)
    renamed = {feature: engine.renamed(field) for feature, field in fields.items()}
    print(cr.export_ranker(ranker, name, folder, name=MODEL, renamed=renamed, check=data))
    engine.load(folder)
    theirs = np.full(data.n_rows, np.nan)
    for query, size in zip(data.query_ids, np.diff(data.offsets).tolist(), strict=True):
        for document, score in engine.scores(str(query), size).items():
            theirs[int(document.rpartition("_")[2])] = score
    if np.isnan(theirs).any():
        raise SystemExit(f"{name} returned no score for {np.isnan(theirs).sum()} of {data.n_rows} candidates.")
    ours = ranker.predict(data)
    return float(np.abs(theirs - ours - np.median(theirs - ours)).max() / np.abs(ours).max())


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[1] not in ENGINES:
        raise SystemExit(f"usage: python check.py {'|'.join(ENGINES)} ADDRESS RANKER FEATURES")
    with tempfile.TemporaryDirectory() as place:
        ranker, data = cr.load_ranker(sys.argv[3]), cr.load(sys.argv[4])
        difference = check(sys.argv[1], sys.argv[2], ranker, data, Path(place) / "export")
    print(f"largest difference: {difference:.2g} of the largest score")
    raise SystemExit(difference > TOLERANCE)
