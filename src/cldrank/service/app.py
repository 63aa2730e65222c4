"""The app: what each path does. A body is read by hand: the parser of the framework would cost as much as ranking."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from cldrank._version import __version__
from cldrank.arguments import shortened, shortened_text
from cldrank.service.answers import ARROW, JSON, answer_in_arrow, answer_in_json
from cldrank.service.api_page import api_page
from cldrank.service.arrow_requests import request_of_arrow
from cldrank.service.bodies import answer_type, body_of, ranking_parameters
from cldrank.service.guard import RequestGuard
from cldrank.service.json_requests import request_of_json
from cldrank.service.openapi import ERRORS, api_description
from cldrank.service.request_error import RequestError
from cldrank.service.served import ServedRanker
from cldrank.service.settings import ServiceSettings
from cldrank.service.swapping import RankerInUse, Reloader

_IN_LOOP = 2 << 20  # bytes; a larger body is ranked in a thread, so that others need not wait for it


def make_app(in_use: RankerInUse, settings: ServiceSettings, reloader: Reloader) -> FastAPI:
    """The app that ranks with the ranker in use."""
    app = FastAPI(title="cldrank", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    threads = ThreadPoolExecutor(2, thread_name_prefix="rank")
    metrics = in_use.metrics

    @app.post("/rank", summary="Rank candidates", response_class=Response, responses=ERRORS)
    async def rank(request: Request) -> Response:
        """Candidates in order, best first, each with its score and rank."""
        try:
            answer, content_type, given = answer_type(request), request.headers.get("content-type", ""), request.scope
            body = await body_of(request, settings)
            start = time.perf_counter()
            work = (body, content_type, given, in_use.served, settings, answer)
            if len(body) <= _IN_LOOP:
                content, candidates = _ranked(*work)
            else:
                content, candidates = await asyncio.get_running_loop().run_in_executor(threads, _ranked, *work)
        except RequestError as error:
            return _refusal(error)
        metrics.ranked(time.perf_counter() - start, candidates)
        return Response(content, media_type=answer)

    @app.get("/ranker", summary="The ranker in use", response_class=Response)
    async def ranker() -> Response:
        """Its kind, fingerprint, features and provenance."""
        return _in_json(in_use.served.description)

    @app.head("/health", include_in_schema=False)
    @app.get("/health", summary="Whether the service is alive", response_class=Response)
    async def health() -> Response:
        """Answers as long as the process does."""
        return _in_json({"status": "alive"})

    @app.head("/ready", include_in_schema=False)
    @app.get("/ready", summary="Whether the service can rank", response_class=Response)
    async def ready() -> Response:
        """Which ranker is loaded."""
        return _in_json({"status": "ready", "ranker": in_use.served.identity})

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=Response)
    async def numbers() -> Response:
        """Those of all workers together."""
        try:
            return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)
        except RequestError as error:
            return _refusal(error)

    @app.post("/reload", summary="Swap in the ranker that now lies in the folder", response_class=Response)
    async def reload(request: Request) -> Response:
        """Needs the header `Authorization: Bearer TOKEN`. A broken ranker is refused, and the one in use stays."""
        try:
            _check_token(request.headers.get("authorization", ""), settings.token)
            identity = await reloader.reload(new_features=_new_features(request))
        except RequestError as error:
            return _refusal(error)
        return _in_json({"status": "swapped", "ranker": identity})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(api_page(app.openapi(), in_use.served.identity["fingerprint"]), media_type="text/html")

    app.openapi = lambda: api_description(app, in_use.served)  # type: ignore[method-assign]
    app.add_exception_handler(HTTPException, _explained_status)
    app.add_exception_handler(Exception, _explained_fault)
    app.add_middleware(RequestGuard, metrics=metrics)
    return app


def _ranked(
    body: bytes,
    content_type: str,
    scope: MutableMapping[str, Any],
    served: ServedRanker,
    settings: ServiceSettings,
    answer: str,
) -> tuple[bytes, int]:
    """The answer to a body, and how many candidates it has."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON:
        if scope["query_string"]:
            raise RequestError("write 'top' and 'query_id' into the JSON body, not into the address.")
        request = request_of_json(body, served.layout, settings.max_candidates)
    else:
        query_id, top = ranking_parameters(scope["query_string"])
        request = request_of_arrow(body, served.layout, settings.max_candidates, query_id=query_id, top=top)
    ranked = served.rank(request)
    return (answer_in_arrow if answer == ARROW else answer_in_json)(ranked), len(request.table)


def _check_token(given: str, token: str | None) -> None:
    if token is None:
        raise RequestError(
            "this service was started without a token, so it does not reload by request; start it with --token-file, "
            "or send SIGHUP.",
            status=403,
        )
    scheme, _, shown = given.partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), token.encode()):
        raise RequestError("the token is missing or wrong; send the header 'Authorization: Bearer TOKEN'.", status=401)


def _new_features(request: Request) -> bool:
    if unknown := [name for name in request.query_params if name != "new_features"]:
        raise RequestError(f"the parameter {shortened(unknown[0])} is not known; 'new_features' is.")
    value = request.query_params.get("new_features", "false")
    if value not in ("true", "false"):
        raise RequestError(f"'new_features' must be true or false, not {shortened(value)}.")
    return value == "true"


# -- answers other than rankings -----------------------------------------------------------------------------------


def _in_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, media_type=JSON)


def _refusal(error: RequestError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return _in_json({"error": str(error)}, error.status, headers)


async def _explained_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    path = shortened_text(request.url.path)
    told = {404: f"there is no {path}; /docs lists what there is.", 405: f"{path} does not take {request.method}."}
    return _in_json({"error": told.get(error.status_code, error.detail)}, error.status_code, dict(error.headers or {}))


async def _explained_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has the traceback, the answer does not."""
    del request, error
    return _in_json({"error": "a fault in cldrank itself; the log of the service says more."}, 500)
