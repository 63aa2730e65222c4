"""What pages take as given: `given train.parquet log.parquet` puts these into the current folder.

A page that begins in the middle of the road names what earlier pages have made. Everything is made once, by the
commands that those pages show, and copied from there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {  # name: what it is made from, and the command
    "train.parquet": ((), "cldrank data make web10k-like --n-queries 100 --out train.parquet"),
    "test.parquet": ((), "cldrank data make web10k-like --n-queries 50 --seed 1 --out test.parquet"),
    "log.parquet": (
        ("train.parquet",),
        "cldrank simulate train.parquet --sessions 2e4 --depth 5 --policy neighbour-swaps --log log.parquet",
    ),
    "cells.parquet": (
        ("train.parquet", "log.parquet"),
        "cldrank clicks aggregate log.parquet --features train.parquet --out cells.parquet",
    ),
    "rho.json": (("cells.parquet",), "cldrank propensity estimate cells.parquet --out rho.json"),
    "ranker": (
        ("train.parquet", "cells.parquet", "rho.json"),
        "cldrank train cld --features train.parquet --clicks cells.parquet --propensity rho.json --hold-out 0.3 "
        "--out ranker",
    ),
    "trees": (
        ("train.parquet", "cells.parquet", "rho.json"),
        "cldrank train cld-pair --model trees --rounds 20 --features train.parquet --clicks cells.parquet "
        "--propensity rho.json --hold-out 0.3 --out trees",
    ),
}


def make(name: str, folder: Path) -> Path:
    """The file or folder of this name, made if it is not there."""
    if (EXAMPLES / name).is_file():
        return EXAMPLES / name
    path = folder / name
    if not path.exists():
        sources, command = FILES[name]
        for source in sources:
            make(source, folder)
        subprocess.run(command.split(), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return path


def main() -> None:
    """Copy what is named."""
    folder = Path(os.environ["GIVEN"])
    for name in sys.argv[1:]:
        path = make(name.rstrip("/"), folder)
        if path.is_dir():
            shutil.copytree(path, path.name)
        else:
            shutil.copy(path, path.name)


if __name__ == "__main__":
    main()
