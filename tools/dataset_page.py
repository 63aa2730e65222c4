"""The page about known data sets, `docs/reference/datasets.md`, from the catalogue."""

from __future__ import annotations

from cldrank import catalogue
from cldrank.catalogue import DataSource

_INTRODUCTION = [
    "# Data sets",
    "",
    "The data sets that cldrank knows by name. `cldrank data list` lists them, `cldrank data list NAME` describes one,",
    "and `cldrank data fetch NAME` downloads those that a program may download; the others are placed by hand, as",
    "described below. Where a set is published in another form than cldrank reads, `python tools/prepare.py NAME` in a",
    "checkout of cldrank makes the files, from a download or `--from FOLDER`. Both print licence and citation.",
    "",
    "| name | what | queries | rows | features | grades | licence | how to get it |",
    "|---|---|---:|---:|---:|---|---|---|",
]

_REFERENCES = [
    "",
    "Each set has a folder of its name, first in the folder that the environment variable `CLDRANK_DATA` names, then",
    "in the folder `data` of the cache (`CLDRANK_CACHE`, or the user's cache folder). Its files may lie at any depth;",
    "text files may be compressed (`.gz`, `.xz`, `.zst`).",
    "",
    "A split is named `NAME:SPLIT`, or `NAME:FOLD/SPLIT` if the set comes in folds or in several sets; without a fold,",
    "the first one is used:",
    "",
    "```python",
    ">>> from cldrank import catalogue",
    '>>> catalogue.get("mq2008").references[3]',
    "'mq2008:fold2/train'",
    '>>> catalogue.get("msrd").references',
    "['msrd:train', 'msrd:vali', 'msrd:test']",
    "",
    "```",
]

_NOTES = {
    "msrd": """
Making it takes 9 to 13 seconds on one core.

The set is Metarank's, under CC BY-SA 4.0. What is downloaded is the adaptation that Elastic publishes for its notebook
on learning to rank (its notice says CC BY). Of its 384,755 judgements, 374 are of movies that it does not hold; they
are left out and counted. Metarank's own files are kept in Git LFS and have another form; `prepare` does not read them.

Each of title, overview, tags, genres, director, actors, characters, and all of them together, has sixteen features: how
many of the query's terms it covers, sums, extremes and moments of their counts, TF-IDF, BM25 (k₁ = 1.2, b = 0.75), and
language models with Dirichlet (μ = 500) and Jelinek–Mercer smoothing (λ = 0.1). Twelve more are about the query, the
movie, and how alike query and title are. The formulas are in
[`text_features.py`](../../tools/public_sets/text_features.py) and [`msrd.py`](../../tools/public_sets/msrd.py).

All results in these pages were computed with Parquet files that an older script made. What `prepare` makes of the
published files is equal to them: the same queries, documents, labels, order and splits, and all 53,813,340 features
bit by bit (one machine, NumPy 2; where its logarithm rounds otherwise, the last bit of a few may differ). To check it:

<!-- skip: next "needs the published files" -->

```sh
CLDRANK_DATA=… CLDRANK_PUBLISHED=… pytest tests/tools/test_msrd.py -m data
```

`CLDRANK_DATA` names the folder with the older `msrd/train.parquet` …, `CLDRANK_PUBLISHED` one with
`msrd/movies-corpus.jsonl.gz` ….
""",
    "ranklens": """
Metarank publishes the set twice: as lists and metadata (metarank/ranklens), and as events (metarank/metarank), which
`prepare` reads: a list per `ranking`, in the order of its items; a click per `interaction`; a movie per `item`. Lists
are numbered by time, people as they appear; genres, tags and actors are joined by `|`.

The file is kept in Git LFS. Its size and SHA-256 are on record, but it could not be downloaded where cldrank was
developed, so this has **not** been compared on the published file. What was compared: the tables that the results in
these pages use, written as events in disorder, come back from `prepare` equal in every value; and the list and the
movie that Metarank's README quotes are in them. With the file,
`CLDRANK_DATA=… CLDRANK_PUBLISHED=… pytest tests/tools/test_ranklens.py -m data` compares all of it.
""",
    "baidu-ultr": """
<!-- skip: next "needs the published files" -->

```sh
python tools/prepare.py baidu-ultr --from parts --out baidu
cldrank clicks aggregate baidu/log.parquet --features baidu/features.parquet --out cells.parquet
```

- `log.parquet`: a row per document shown: `session_id` (the part and its page), `query_id`, `doc_id`, `position`,
  `clicked`, and as published `media_type`, `displayed_time`, `serp_height`, `slipoff_count_after_click`.
- `features.parquet`: each document once per query, with its embedding as the features `e1` … `e768`,
  converted from float16 to float32. Where a document was shown with several texts, the first one counts.
- `annotations.parquet`, if `validation.feather` is among the files: documents that experts judged, labels 0 … 4.

A query is known by the MD5 of its text, since the ids are not unique; a document by that of its address, in the
annotations by that of its text. Positions count from 1; documents that the publisher left out leave gaps. Rows without
query, document, position or click are left out, a row without a finite embedding stays in the log, and each is counted.
Copies with one row per page, as `datasets` loads them, will do as well (Arrow or Parquet); what pads them beyond `n` is
ignored.

Memory does not grow with the files: 1.2 GiB for one file of 100 MB and for twelve, at about 20,000 rows a second. While
it works, the disk holds a second copy of the embeddings. cldrank does not fetch the set, and we had none of it: the
reader is tested on made-up files in the form that
[the publisher's code](https://github.com/philipphager/baidu-ultr) writes.
""",
}


def _row(source: DataSource) -> str:
    grades = source.grades
    way = "`tools/prepare.py`" if source.prepared else "by hand" if source.gated else "fetch"
    if source.acceptance:
        way += ", after accepting the licence"
    cells = [
        f"[{source.key}](#{source.key})",
        source.title + (" (click log)" if source.kind == "clicks" else ""),
        *("–" if count is None else f"{count:,}" for count in (source.queries, source.rows, source.features)),
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
        f"Official address: <{source.homepage}>  \nCite: {source.citation}\n",
        *(f"{number}. {step}" for number, step in enumerate(source.instructions, start=1)),
        f"\nThe folder is `{source.key}/`; files in it: {', or '.join(f'`{form}`' for form in forms)}.",
    ]
    if any("‹" in form for form in forms):
        lines[-1] += " ‹1› … ‹5› are the parts 1 … 5 in fold 1, 2 … 5, 1 in fold 2, and so on."
    if source.prepared and source.downloads:
        lines += ["", "| published file | bytes | SHA-256 |", "|---|---:|---|"]
        lines += [f"| [{file.name}]({file.url}) | {file.size:,} | `{file.sha256}` |" for file in source.downloads]
    lines += [_NOTES[source.key].rstrip()] if source.key in _NOTES else []
    return "\n".join(lines)


def dataset_page() -> str:
    """The catalogue as a page of Markdown."""
    sources = [catalogue.get(name) for name in catalogue.names()]
    return "\n".join([*_INTRODUCTION, *map(_row, sources), *_REFERENCES, *map(_section, sources), ""])
