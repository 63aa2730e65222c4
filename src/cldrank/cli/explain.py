"""`cldrank explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.output import (
    add_row,
    check_parquet_name,
    console,
    new_table,
    print_json,
    print_title,
    save_table,
    say,
    working,
)
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.rankers import Contributions

_SHOWN = 20  # features of the table


@with_options
def explain(
    ranker: Annotated[Path, typer.Argument(help="The folder of a saved ranker.", show_default=False)],
    features: options.Features,
    out: Annotated[
        Path | None, options.spelled("--out -o FILE", "Write the contributions to every score to this Parquet file.")
    ] = None,
    top: Annotated[
        int | None,
        options.spelled(
            "--top COUNT", "How many features to show. [default: 20; all with --json]", min=1, show_default=False
        ),
    ] = None,
    *,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Show how much each feature contributes to the scores of a ranker: linear, or boosted trees (SHAP values).

    Example: `cldrank explain ranker/ --features test.parquet --out contributions.parquet`
    """
    from cldrank.rankers import TreeRanker, load_ranker

    if out is not None:
        check_parquet_name(out)
    options.check_outside(out, ranker)
    options.check_outputs([out], [*features, ranker])
    loaded = load_ranker(ranker)
    dataset = options.load_for_ranker(loaded, ranker, reading, features)
    with working("explaining …"):
        found = loaded.explain(dataset)
    importance = loaded.importance().ordered() if isinstance(loaded, TreeRanker) else []
    if out is not None:
        _write(found, dataset, out)
    if as_json:
        shares = {one["feature"]: {"share_of_gain": one["share"], "splits": one["splits"]} for one in importance}
        rows = [{**one, **shares.get(one["feature"], {})} for one in found.ordered()[:top]]
        print_json({"ranker": str(ranker), "data": dataset.name, "rows": len(found), "features": rows})
        return
    _print(found, {one["feature"]: one["share"] for one in importance}, top or _SHOWN, f"{ranker} on {dataset.name}")
    if out is not None:
        say(f"contributions to every score: {out}")


def _print(found: Contributions, shares: dict[str, float], top: int, title: str) -> None:
    print_title(f"{title}, {len(found):,} rows")
    table = new_table("feature", "mean |contribution|", "lowest", "highest", *(["share of gain"] if shares else []))
    rows = found.ordered()
    for one in rows[:top]:
        numbers = [f"{one[name]:.4g}" for name in ("mean", "lowest", "highest")]
        add_row(table, one["feature"], *numbers, *([f"{shares[one['feature']]:.1%}"] if shares else []))
    console.print(table)
    if len(rows) > top:
        say(f"{_rest([one['mean'] for one in rows[top:]])}; --top shows them.")


def _rest(means: list[float]) -> str:
    """What features contribute that are not shown.

    >>> _rest([0.5, 0.0]), _rest([0.0])
    ('2 more features contribute less, 1 of them nothing', '1 more feature contributes nothing')
    """
    none, verb = means.count(0.0), "contributes" if len(means) == 1 else "contribute"
    rest = f"{count(len(means), 'more feature')} {verb}"
    if none == len(means):
        return f"{rest} nothing"
    return f"{rest} less, {none:,} of them nothing" if none else f"{rest} less"


def _write(found: Contributions, dataset: RankingDataset, path: Path) -> None:
    """A row per candidate: its query, its document where there is one, base, score, and a column per feature."""
    import pyarrow as pa

    columns = {"query_id": pa.array(dataset.query_ids).take(pa.array(dataset.row_queries))}
    if dataset.doc_ids is not None:
        columns["doc_id"] = pa.array(dataset.doc_ids)
    columns |= {"base": pa.array(found.base), "score": pa.array(found.scores)}
    columns |= {
        f"feature {name}": pa.array(values) for name, values in zip(found.feature_names, found.values.T, strict=True)
    }
    save_table(pa.table(columns), path)
