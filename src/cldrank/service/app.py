"""The app: its paths, and the description of the API."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from threadpoolctl import threadpool_limits

from cldrank._version import __version__
from cldrank.arguments import shortened, shortened_text
from cldrank.documents import Block, Code, Document, Heading, Mono, Table, render_html
from cldrank.errors import CldrankError
from cldrank.host import keep_memory
from cldrank.online.interleaving import DEEPEST_PAGE
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.pages import Renewed, ServedInterleaving, ServedSwaps
from cldrank.service.requests import RequestError
from cldrank.service.served import RankerInUse, logger, watch
from cldrank.service.serving import ServiceSettings
from cldrank.wording import listed

_KEPT = 32 << 20  # bytes of freed memory
LARGE = 2 << 20  # bytes of a body that is ranked in a thread
_CLIENT_GONE = 499  # nobody reads the answer; the metrics do
_EXAMPLES: dict[str, dict[str, Any]] = {  # what a request says besides its candidates
    "/rank": {"top": 10},
    "/swap": {"depth": 10, "key": "person 1, query 1", "share": 0.5},
    "/interleave": {"depth": 10, "key": "person 1, query 1"},
}
_PATHS = (*_EXAMPLES, "/ranker", "/health", "/metrics", "/reload", "/docs", "/openapi.json")
_Top = Annotated[int | None, Query(ge=1)]
_Share = Annotated[float | None, Query(ge=0, le=1)]
_Depth = Annotated[int | None, Query(ge=1, le=DEEPEST_PAGE)]
Message = MutableMapping[str, Any]
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"


def make_app(
    folder: Path, settings: ServiceSettings, parent: int | None = None, against: Path | None = None
) -> FastAPI:
    """The app that ranks with the ranker in a folder, which it watches; a worker of `parent` ends with it.

    against   the folder of another ranker, to interleave with
    """
    service = _Service(folder, settings, parent, against)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        keep_memory(_KEPT)
        watching = asyncio.create_task(watch(service.in_use, lambda: parent is not None and os.getppid() != parent))
        with threadpool_limits(1):  # a list is too short to share out
            yield
        watching.cancel()

    app = FastAPI(
        title="cldrank", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    _add_answers(app, service)
    _add_facts(app, service)
    app.openapi = lambda: api_description(app, service)  # type: ignore[method-assign]
    for error, handler in _HANDLERS.items():
        app.add_exception_handler(error, handler)
    app.add_middleware(RequestGuard, metrics=service.metrics)
    app.state.metrics = service.metrics
    return app


class _Service:
    """The rankers in use, and what answers at each path."""

    def __init__(self, folder: Path, settings: ServiceSettings, parent: int | None, against: Path | None) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        folders = [folder] if against is None else [folder, against]
        self.in_use = [_ranker_in_use(path, settings, self.metrics, parent) for path in folders]
        self.answering: dict[str, Any] = {"/rank": self.in_use[0], "/swap": Renewed(ServedSwaps, self.in_use[0])}
        if against is not None:
            self.answering["/interleave"] = Renewed(ServedInterleaving, *self.in_use)
        self._large = asyncio.Semaphore(2)  # large bodies at a time

    def by_role(self, values: Iterable[Any]) -> dict[str, Any]:
        """Something of each ranker, such as its identity."""
        return dict(zip(("ranker", "against"), values, strict=False))

    async def answer(self, path: str, request: Request, **in_address: Any) -> Response:
        """The answer of a path to the candidates in a body, with settings from the body or the address."""
        if unknown := request.query_params.keys() - in_address.keys():
            known = listed(f"`{name}`" for name in in_address)
            raise RequestError(f"the parameter {shortened(min(unknown))} is not known; {known} are.")
        kind, given = body_type(request), {name: value for name, value in in_address.items() if value is not None}
        body = await body_of(request, self.settings)
        start, arguments = time.perf_counter(), (self.answering[path].served, body, kind, given)
        if len(body) <= LARGE:
            content, candidates = _ranked(*arguments)
        else:
            async with self._large:  # in a thread, so that others need not wait for it
                content, candidates = await asyncio.to_thread(_ranked, *arguments)
        self.metrics.seconds.observe(time.perf_counter() - start)
        self.metrics.candidates.observe(candidates)
        for ranker in self.in_use:
            ranker.judge_features()
        return Response(content, media_type=JSON)


def _add_answers(app: FastAPI, service: _Service) -> None:
    """The paths that answer with candidates in order."""

    @app.post("/rank", summary="Rank candidates", response_class=Response)
    async def rank(request: Request, query_id: str | None = None, top: _Top = None) -> Response:
        """Candidates in order, best first, each with its score and rank. `query_id` and `top` are in a JSON body.

        Requests that cannot be ranked get a status from 400 to 422, and {"error": why}.
        """
        return await service.answer("/rank", request, query_id=query_id, top=top)

    @app.post("/swap", summary="A page on which two neighbours may be swapped", response_class=Response)
    async def swap(
        request: Request,
        query_id: str | None = None,
        key: str | None = None,
        depth: _Depth = None,
        share: _Share = None,
    ) -> Response:
        """The first `depth` results, each with its probability; a `share` of keys has two neighbours swapped."""
        return await service.answer("/swap", request, query_id=query_id, key=key, depth=depth, share=share)

    if "/interleave" not in service.answering:
        return

    @app.post("/interleave", summary="A page that both rankers make together", response_class=Response)
    async def interleave(
        request: Request, query_id: str | None = None, key: str | None = None, depth: _Depth = None
    ) -> Response:
        """The first `depth` results of a team draft, each with its team and ranks; a `key` has always the same page."""
        return await service.answer("/interleave", request, query_id=query_id, key=key, depth=depth)


def _add_facts(app: FastAPI, service: _Service) -> None:
    """The paths that say what is served, and exchange it."""

    @app.get("/ranker", summary="The ranker in use", response_class=Response)
    async def ranker() -> Response:
        """Its kind, fingerprint, features and provenance; `against` describes the other ranker, if there is one."""
        described = service.by_role(ranker.served.description for ranker in service.in_use)
        return _in_json({**described.pop("ranker"), **described})

    @app.head("/health", include_in_schema=False)
    @app.get("/health", summary="Whether the service answers, and with which ranker", response_class=Response)
    async def health() -> Response:
        """Which rankers are loaded."""
        return _in_json({"status": "ready", **service.by_role(ranker.served.identity for ranker in service.in_use)})

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=Response)
    async def numbers() -> Response:
        """The metrics of all workers together."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.post("/reload", summary="Swap in the ranker that now lies in the folder", response_class=Response)
    async def reload(request: Request) -> Response:
        """Needs the header `Authorization: Bearer TOKEN`. A broken ranker is refused, and the ranker in use stays."""
        check_token(request.headers.get("authorization", ""), service.settings.token)
        return _in_json({"status": "swapped", **service.by_role([await ranker.reload() for ranker in service.in_use])})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(api_page(app.openapi()), media_type="text/html")


def _ranker_in_use(folder: Path, settings: ServiceSettings, metrics: ServiceMetrics, parent: int | None) -> RankerInUse:
    """The ranker of the folder; a worker ends where it is broken, and the supervisor starts another."""
    try:
        return RankerInUse(folder, settings.max_candidates, metrics)
    except CldrankError as error:
        if parent is None:
            raise
        logger.error("a worker cannot start, and is tried again: %s", error)
        time.sleep(1)
        sys.exit(1)


def _ranked(served: Any, body: bytes, kind: str, in_address: dict[str, Any]) -> tuple[bytes, int]:
    """The answer to a body, and how many candidates it has."""
    if kind == ARROW:
        request = served.reader.read_arrow(body, **in_address)
    elif not in_address:
        request = served.reader.read_json(body)
    else:
        names = listed(f"`{name}`" for name in in_address)
        raise RequestError(f"write {names} into the JSON body, not into the address.")
    return served.answer(request), len(request.table)


# -- headers and bodies --------------------------------------------------------------------------------------------


def body_type(request: Request) -> str:
    """JSON or Arrow; refused if it is anything else, or compressed."""
    header = request.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
    if kind not in (JSON, ARROW):
        raise RequestError(
            f"the Content-Type must be {JSON} or {ARROW}, not {shortened_text(header) or 'missing'}.", 415
        )
    if encoding := request.headers.get("content-encoding"):
        raise RequestError(f"the body is compressed ({shortened(encoding)}); send it uncompressed.", 415)
    return kind


async def body_of(request: Request, settings: ServiceSettings) -> bytes:
    """The body, counted as it arrives: a chunked body does not announce its length."""
    too_large = RequestError(f"the body is larger than {settings.max_body:,} bytes (--max-body).", 413)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.max_body:
        raise too_large
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(settings.body_timeout):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError("the client has gone.", _CLIENT_GONE)
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size > settings.max_body:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RequestError(f"the body did not arrive within {settings.body_timeout:g} seconds.", 408) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_token(given: str, token: str | None) -> None:
    """Refuse a reload by anybody without the token."""
    if token is None:
        raise RequestError("start the service with --token-file to reload by request, or send SIGHUP.", 403)
    scheme, _, shown = given.partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), token.encode()):
        raise RequestError("the token is missing or wrong; send the header 'Authorization: Bearer TOKEN'.", 401)


class RequestGuard:
    """Counts requests by path and status, and closes connections whose body was not read.

    A client that is answered before its body was read may go on sending for ever; it is not listened to.
    """

    def __init__(self, app: Any, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Pass a request on to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        status, unread = 0, b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

        async def reading() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def answering(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if unread:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, reading, answering)
        except asyncio.CancelledError:  # the service has no more time to stop
            if not status:
                await _in_json({"error": "the service is stopping."}, 503)(scope, receive, answering)
        finally:
            path = scope["path"] if scope["path"] in _PATHS else "other"
            self._metrics.requests.labels(path, status or 500).inc()


# -- answers other than rankings -----------------------------------------------------------------------------------


def _in_json(content: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)


async def _refused(_: Request, error: Any) -> Response:
    return _in_json(
        {"error": str(error)}, error.status, {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    )


async def _parameters_refused(_: Request, error: Any) -> Response:
    first = error.errors()[0]
    return _in_json({"error": f"{first['loc'][-1]}: {first['msg']}, not {shortened(first['input'])}."}, 422)


async def _status_explained(request: Request, error: Any) -> Response:
    path = shortened_text(request.url.path)
    told = {404: f"there is no {path}; /docs lists what there is.", 405: f"{path} does not take {request.method}."}
    return _in_json({"error": told.get(error.status_code, error.detail)}, error.status_code, error.headers)


async def _fault(_: Request, __: Any) -> Response:
    """A fault of ours: the log has the traceback, the answer does not."""
    return _in_json({"error": "a fault in cldrank itself; the log of the service says more."}, 500)


_HANDLERS: dict[type[Exception], Any] = {
    RequestError: _refused,
    RequestValidationError: _parameters_refused,
    HTTPException: _status_explained,
    Exception: _fault,
}


# -- the description of the API ------------------------------------------------------------------------------------


def api_description(app: FastAPI, service: _Service) -> dict[str, Any]:
    """The OpenAPI description, with requests that the rankers in use answer as they are."""
    whole = get_openapi(
        title=app.title,
        version=app.version,
        description=service.in_use[0].served.description["summary"],
        routes=app.routes,
    )
    readers = {path: answers.served.reader for path, answers in service.answering.items()}
    bodies = [reader.body for reader in readers.values()]
    described, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    for schema, (path, reader) in zip(described, readers.items(), strict=True):
        candidate = {"id": "d1", "features": dict.fromkeys(reader.names, 1.0)}
        example = {"query_id": "q1", "candidates": [candidate], **_EXAMPLES[path]}
        content = {
            JSON: {"schema": schema, "example": example},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        }
        whole["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    whole["components"] = {"schemas": schemas}
    return whole


def api_page(described: dict[str, Any]) -> str:
    """The page at `/docs`: all paths, and a request to copy. It loads nothing from elsewhere."""
    paths = [
        (Mono(f"{method.upper()} {path}"), f"{told['summary']}. {told['description']}")
        for path, methods in described["paths"].items()
        for method, told in methods.items()
    ]
    example = described["paths"]["/rank"]["post"]["requestBody"]["content"][JSON]["example"]
    request = Code(json.dumps(example, indent=1, ensure_ascii=False), "json")
    blocks: list[Block] = [
        Table(("path", "answer"), paths, text=["path", "answer"]),
        Heading("A body for /rank"),
        request,
    ]
    about = f"{described['info']['description']}; /openapi.json describes bodies for programs."
    return render_html(Document("A ranker behind HTTP", blocks, about=about))
