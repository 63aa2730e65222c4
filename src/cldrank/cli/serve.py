"""`cldrank serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cldrank.cli import options
from cldrank.cli.output import say


def serve(
    ranker: Annotated[Path, typer.Argument(help="The folder of a saved ranker.", show_default=False)],
    host: Annotated[str, options.spelled("--host ADDRESS", "The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, options.spelled("--port NUMBER", "The port; 0 takes any free one.", min=0, max=65535)] = 8000,
    workers: Annotated[int, options.spelled("--workers COUNT", "Processes that answer requests.", min=1, max=256)] = 1,
    max_body: Annotated[int, options.spelled("--max-body MIB", "Largest body of a request, in MiB.", min=1)] = 32,
    max_candidates: Annotated[
        int, options.spelled("--max-candidates COUNT", "Most candidates of a request.", min=1)
    ] = 10_000,
    body_timeout: Annotated[
        float, options.spelled("--body-timeout SECONDS", "Time within which a body must arrive.", min=0.1, max=3600)
    ] = 10.0,
    stop_timeout: Annotated[
        float, options.spelled("--stop-timeout SECONDS", "Time for requests in flight when stopped.", min=1, max=3600)
    ] = 30.0,
    token_file: Annotated[
        Path | None,
        options.spelled(
            "--token-file FILE",
            "A file with the token that `POST /reload` must show; without it, the environment variable CLDRANK_TOKEN.",
        ),
    ] = None,
) -> None:
    """Serve a ranker over HTTP: `POST /rank` puts candidates in order; `/docs` explains the rest.

    When another ranker is saved to the folder, it takes over within a second, without dropping a request; a broken one
    is refused. SIGTERM and Ctrl-C answer what is in flight, then end.

    Example: `cldrank serve ranker/ --port 8000 --workers 2`
    """
    from cldrank.service.serving import MEBIBYTE, ServiceSettings, read_token, serve_ranker
    from cldrank.wording import count

    settings = ServiceSettings(
        max_body=max_body * MEBIBYTE,
        max_candidates=max_candidates,
        body_timeout=body_timeout,
        stop_timeout=stop_timeout,
        token=read_token(token_file),
    )

    def started(address: str, loaded: str) -> None:
        say(f"serving {ranker}: {loaded}")
        say(f"at {address} ({count(workers, 'worker')}; the API is explained at {address}/docs); Ctrl-C stops it.")

    code = serve_ranker(ranker, host=host, port=port, workers=workers, settings=settings, started=started)
    if code:
        raise typer.Exit(code)
