"""What the library says of parameters, in the keys of a pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cldrank.pipeline import read_pipeline
from cldrank.pipeline.toml_keys import as_keys


@pytest.mark.parametrize(
    ("section", "said", "expected"),
    [
        ("features", "keep them with `missing=keep`.", 'keep them with `features.missing = "keep"`.'),
        ("log", "or `missing=0.0`", "or `features.missing = 0.0`"),
        ("log", 'name it with `columns={"query_id": ...}`', 'name it with `log.columns.query_id = "…"`'),
        ("ratings", "see `columns`", "see `ratings.columns`"),
        ("log", "`columns={'doc_id': 'sku', 'clicked': c}`", '`log.columns.doc_id = "sku"; log.columns.clicked = "c"`'),
        ("train", "or a larger `margin`", "or a larger `train.safe_margin`"),
        ("verdict", "or a larger `margin`", "or a larger `verdict.margin`"),
        ("log", "leave it out with `exclude_bots=True`", "leave it out with `log.exclude_bots = true`"),
        ("train", "`nothing` of `cldrank show RANKER` is a key", "`nothing` of `cldrank show RANKER` is a key"),
        ("features", "`features.missing = 0`", "`features.missing = 0`"),
    ],
)
def test_parameters_become_keys_of_the_section_or_of_another(
    section: str, said: str, expected: str, world: Path
) -> None:
    assert as_keys(said, read_pipeline(world / "pipeline.toml"), section) == expected
