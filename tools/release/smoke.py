"""Run by the Python of a fresh environment, in an empty folder: does the installed package work? Needs nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

COMMAND = str(Path(sys.executable).with_name("cldrank"))
ADDRESS = re.compile(r"http://[\d.]+:\d+")
TRAIN = "--features train.parquet --clicks cells.parquet --propensity rho.json"
MAKE_DATA = (
    "data make web10k-like --n-queries 120 --out train.parquet",
    "data make web10k-like --n-queries 40 --seed 1 --out test.parquet",
    "simulate train.parquet --sessions 2e4 --eta 1 --depth 10 --policy neighbour-swaps --log log.parquet",
    "clicks aggregate log.parquet --features train.parquet --out cells.parquet",
    "propensity estimate log.parquet --out rho.json",
    f"train cld {TRAIN} --out linear/",
)
WITHOUT_EXTRAS = (
    "demo --n-queries 100 --out demo",
    "clicks audit log.parquet --features train.parquet --html audit.html",
    "evaluate linear/ --features test.parquet",
    "score linear/ --features test.parquet --out scores.parquet",
    "export linear/ --to opensearch --check test.parquet --out opensearch/",
    "judgements cells.parquet --features train.parquet --propensity rho.json --to quepid --out ratings.csv",
)
NEEDING_EXTRAS = {  # what each refusal must name
    f"train cld-pair {TRAIN} --model mlp --out refused/": "neural",
    f"train cld-pair {TRAIN} --model trees --out refused/": "trees",
    f"tune ips {TRAIN} --out refused/": "tune",
    "export linear/ --to onnx --out ranker.onnx": "onnx",
    "serve linear/ --port 0": "serve",
    "clicks aggregate log.parquet --engine spark --out refused.parquet": "spark",
}
FOR_README = (  # the two tables that the README takes as given, and its steps as commands
    "data make web10k-like --n-queries 100 --out features.parquet",
    "simulate features.parquet --sessions 2e4 --depth 5 --policy neighbour-swaps --log log.parquet",
    "clicks audit log.parquet --features features.parquet --html audit.html",
    "propensity estimate log.parquet --features features.parquet --out rho.json",
    "train cld-pair --model trees --features features.parquet --clicks log.parquet --propensity rho.json "
    "--hold-out 0.2 --out ranker/",
    "export ranker/ --to opensearch --check features.parquet --out opensearch/",
    "compare ranker/ production --features features.parquet --clicks log.parquet --propensity rho.json",
)
WITH_EXTRAS = (
    "demo --n-queries 100 --out demo",
    f"train cld-pair {TRAIN} --model trees --rounds 20 --out trees/",
    f"train cld-pair {TRAIN} --model mlp --epochs 2 --out network/",
    "export trees/ --to onnx --check test.parquet --out trees-onnx/",
    "export network/ --to onnx --check test.parquet --out network-onnx/",
    "export trees/ --to elasticsearch --check test.parquet --out trees-elasticsearch/",
    f"tune ips {TRAIN} --trials 2 --out tuned/",
)


def main(kind: str, version: str) -> None:
    """Everything that an environment of this kind, `bare`, `trees` or `extras`, must be able to do."""
    begun = time.monotonic()
    names = check_package(version)
    helps = check_help()
    lines = {"bare": (*MAKE_DATA, *WITHOUT_EXTRAS), "trees": FOR_README, "extras": (*MAKE_DATA, *WITH_EXTRAS)}[kind]
    for line in lines:
        call(line, allowed=(0, 5) if line.startswith("compare") else (0,))  # 5: cannot tell, with so small a log
    if kind == "bare":
        for line, extra in NEEDING_EXTRAS.items():
            check_refusal(line, extra)
        more = f"{len(NEEDING_EXTRAS)} refusals that name the extra"
    elif kind == "trees":
        check_readme(metadata.metadata("cldrank")["Description"])
        more = "the Python of the README"
    else:
        check_service("trees/")
        more = "a request to the service"
    print(f"{names} names, {helps} pages of help, {len(lines)} commands, {more}, in {time.monotonic() - begun:.0f} s")


def check_package(version: str) -> int:
    """The installed package, not a checkout, in this version, with all its public names; how many there are."""
    import cldrank

    home = Path(str(cldrank.__file__)).resolve()
    assert home.is_relative_to(Path(sys.prefix).resolve()), f"cldrank comes from {home}"
    assert cldrank.__version__ == version, f"the package says {cldrank.__version__}"
    assert version in call("--version"), "`cldrank --version` says something else"
    names = dir(cldrank)
    for name in names:
        getattr(cldrank, name)
    return len(names)


def check_help() -> int:
    """Every command explains itself; how many there are."""
    from click.testing import CliRunner

    from cldrank.cli import app

    paths = list(_paths(app))
    for path in paths:
        shown = CliRunner().invoke(app, [*path, "--help"])
        assert shown.exit_code == 0, f"`cldrank {' '.join(path)} --help` failed: {shown.exception!r}"
        assert "Usage" in shown.output, f"`cldrank {' '.join(path)} --help` says {shown.output!r}"
    return len(paths)


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that lead to a command and to each below it."""
    yield path
    if hasattr(command, "list_commands"):
        context = command.make_context(command.name, [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _paths(command.get_command(context, name), (*path, name))


def check_readme(readme: str) -> None:
    """The Python that the README shows must work."""
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert blocks, "the README shows no Python"
    Path("readme.py").write_text("".join(blocks), encoding="utf-8")
    subprocess.run([sys.executable, "-I", "readme.py"], check=True)


def call(line: str, allowed: tuple[int, ...] = (0,)) -> str:
    """What a command prints; it must succeed, or end with an exit code that is allowed."""
    done = subprocess.run([COMMAND, *line.split()], capture_output=True, text=True, check=False)
    print(f"$ cldrank {line}: {done.returncode}", flush=True)
    if done.returncode not in allowed:
        sys.exit(f"{done.stdout}{done.stderr}\n`cldrank {line}` failed with exit code {done.returncode}.")
    return done.stdout


def check_refusal(line: str, extra: str) -> None:
    """A command that needs an extra must name it, and leave no traceback and no files."""
    done = subprocess.run([COMMAND, *line.split()], capture_output=True, text=True, check=False, timeout=300)
    said = " ".join((done.stdout + done.stderr).split())
    right = done.returncode in (1, 2) and f"cldrank[{extra}]" in said and "Traceback" not in said
    if not right or list(Path.cwd().glob("refused*")):
        sys.exit(f"{said}\n`cldrank {line}` must say that it needs cldrank[{extra}]; exit code {done.returncode}.")


def check_service(ranker: str) -> None:
    """A request to a service: two candidates come back in the order of their scores."""
    service = subprocess.Popen(
        [COMMAND, "serve", ranker, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        address = next((found[0] for line in service.stdout or () if (found := ADDRESS.search(line))), "")
        assert address, "the service did not start"
        with urlopen(f"{address}/ranker", timeout=30) as answer:
            width = len(json.load(answer)["features"])
        body = {"ids": ["low", "high"], "features": [[0.0] * width, [1.0] * width]}
        request = Request(f"{address}/rank", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            ranked = json.load(answer)["ranked"]
        assert {one["id"] for one in ranked} == {"low", "high"}, ranked
        assert ranked[0]["score"] >= ranked[1]["score"], ranked
    finally:
        service.terminate()
    assert service.wait(60) == 0, f"the service ended with exit code {service.returncode}"


if __name__ == "__main__":
    main(*sys.argv[1:])
