"""Stand-ins for engines, so that pages can show the calls to them: `ENGINE=$(python -m engine_stand_in opensearch)`.

Each has the products of `shop.py`, takes only what the engine's documentation takes, answers in its form, and ranks by
the replay of what was uploaded. Anything else is refused, so that a wrong call on a page fails its test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from elastic_engines import Elasticsearch, OpenSearch
from other_engines import Solr, Vespa
from shop import RefusedError, need

ENGINES = {"opensearch": OpenSearch, "elasticsearch": Elasticsearch, "solr": Solr, "vespa": Vespa}


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the engine of the server."""

    server: StandIn

    def handle_any(self) -> None:
        address = urlsplit(self.path)
        query = {name: value for name, (value,) in parse_qs(address.query, keep_blank_values=True).items()}
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, answer = 200, self.server.engine.call(self.command, address.path, query, self.body(content))
        except RefusedError as error:
            status, answer = error.status, {"error": str(error), "status": error.status}
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            status, answer = 400, {"error": f"{type(error).__name__}: {error}", "status": 400}
        text = json.dumps(answer, separators=(",", ":")).replace("NaN", "null").encode()
        self.send_response(status)
        for name, value in {"X-Elastic-Product": "Elasticsearch", "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def body(self, content: bytes) -> Any:
        kind = self.headers.get("Content-Type", "").split(";")[0]
        if kind == "application/x-ndjson":
            return [json.loads(line) for line in content.splitlines()]
        if kind == "application/zip":
            return content
        if kind == "application/x-www-form-urlencoded":
            return {name: value for name, (value,) in parse_qs(content.decode(), keep_blank_values=True).items()}
        known = kind == "application/json" or "compatible-with" in self.headers.get("Content-Type", "")
        need(not content or known, f"Content-Type header [{kind}] is not supported", 406)
        return json.loads(content) if content else None

    def log_message(self, *_: object) -> None:
        """Nothing, instead of a line per request."""


class StandIn(ThreadingHTTPServer):
    """A server with an engine, at a free port."""

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.engine: Any = ENGINES[name]()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


def main() -> None:
    """Print the address of a stand-in that goes on in a process of its own; it ends with the shell of its page."""
    if "--serve" in sys.argv:
        server = StandIn(sys.argv[1])
        sys.stdout.write(server.address + "\n")
        sys.stdout.flush()
        server.serve_forever()
    own = subprocess.Popen(
        [sys.executable, "-m", "engine_stand_in", sys.argv[1], "--serve"], stdout=subprocess.PIPE, text=True
    )
    assert own.stdout is not None
    sys.stdout.write(own.stdout.readline())


if __name__ == "__main__":
    main()
