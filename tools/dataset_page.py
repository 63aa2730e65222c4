"""The page about known data sets, `docs/datasets.md`, from the catalogue."""

from __future__ import annotations

from cldrank.data import catalogue
from cldrank.data.catalogue import DataSource

_INTRODUCTION = [
    "# Data sets",
    "",
    "The data sets that cldrank knows by name. `cldrank data list` lists them, `cldrank data info NAME` describes one,",
    "and `cldrank data fetch NAME` downloads those that a program may download; the others are placed by hand, as",
    "described below.",
    "",
    "| name | what | queries | rows | features | grades | licence | how to get it |",
    "|---|---|---:|---:|---:|---|---|---|",
]

_REFERENCES = [
    "",
    "Each set has a folder of its name, first in the folder that the environment variable `CLDRANK_DATA` names, then",
    "in the folder `data` of the cache (`CLDRANK_CACHE`, or the user's cache folder). Text files may be compressed",
    "(`.gz`, `.xz`, `.zst`).",
    "",
    "A split is named `NAME:SPLIT`, or `NAME:FOLD/SPLIT` if the set comes in folds or in several sets; without a fold,",
    "the first one is used:",
    "",
    "```python",
    ">>> from cldrank.data import catalogue",
    '>>> catalogue.parse_reference("mq2008:fold2/train").fold',
    "'fold2'",
    '>>> catalogue.get("msrd").references',
    "['msrd:train', 'msrd:vali', 'msrd:test']",
    "",
    "```",
]


def _row(source: DataSource) -> str:
    shape, grades = source.shape, source.grades
    way = "fetch" if not source.gated else "by hand, then prepare" if source.prepared else "by hand"
    if source.acceptance:
        way += ", after accepting the licence"
    cells = [
        f"[{source.key}](#{source.key})",
        source.title + (" (click log)" if source.kind == "clicks" else ""),
        *("–" if count is None else f"{count:,}" for count in (shape.queries, shape.rows, shape.features)),
        f"{grades[0]}–{grades[1]}" if grades else "–",
        source.licence,
        way,
    ]
    return f"| {' | '.join(cells)} |"


def _section(source: DataSource) -> str:
    forms = ["; ".join(f"{split}: {', '.join(files)}" for split, files in form.items()) for form in source.layouts]
    for generic, spoken in [("{n}", "N"), ("{fold}", "setN"), *((f"{{p{n}}}", f"‹{n}›") for n in range(1, 6))]:
        forms = [form.replace(generic, spoken) for form in forms]
    lines = [
        f"\n## {source.key}\n",
        f"{source.title}. {source.summary}\n",
        *(f"- {part}: {shape}" for part, shape in source.shapes.items()),
        *([""] if source.shapes else []),
        f"Official address: <{source.homepage}>  \nCite: {source.citation}\n",
        *(f"{number}. {step}" for number, step in enumerate(source.instructions, start=1)),
        f"\nThe folder is `{source.key}/`; files in it: {', or '.join(f'`{form}`' for form in forms)}.",
    ]
    if any("‹" in form for form in forms):
        lines[-1] += " ‹1› … ‹5› are the parts 1 … 5 in fold 1, 2 … 5, 1 in fold 2, and so on."
    return "\n".join(lines)


def dataset_page() -> str:
    """The catalogue as a page of Markdown."""
    sources = [catalogue.get(name) for name in catalogue.names()]
    return "\n".join([*_INTRODUCTION, *map(_row, sources), *_REFERENCES, *map(_section, sources), ""])
