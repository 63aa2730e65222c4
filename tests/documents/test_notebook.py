"""What notebooks show: complete, escaped, and in need of nothing else."""

from __future__ import annotations

import re
import warnings
from base64 import b64decode
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import Checked

import cldrank as cr
from cldrank.auditing import audit_table
from cldrank.propensity import AffineClicks, AllPairs, BySegment, TrustBias

SCRIPT = "<script>alert('x')</script>"
QUERIES, SIZE, DEPTH = 60, 8, 5


@cache
def shown() -> dict[str, Any]:
    """One value of each kind that notebooks show."""
    random = np.random.default_rng(0)
    features = random.normal(size=(QUERIES * SIZE, 9)).astype(np.float32)
    labels = np.clip(features[:, 0] + 1, 0, 4).round()
    names = np.array([SCRIPT, *(f"q{number}" for number in range(1, QUERIES))])
    data = cr.RankingDataset.from_arrays(
        features, names.repeat(SIZE), labels, feature_names=["<b>", *"abcdefgh"], name=SCRIPT, synthetic=True
    )
    orders = [
        first + np.argsort(random.normal(size=SIZE) - features[first : first + SIZE, 0])[:DEPTH]
        for first in range(0, QUERIES * SIZE, SIZE)
        for _ in range(3)
    ]
    row, position = np.concatenate(orders), np.tile(np.arange(1, DEPTH + 1), len(orders))
    clicked = random.binomial(50, np.clip(labels[row] / 5 + 0.05, 0, 1) / position)
    clicks = cr.ClickTable.from_arrays(
        data, row=row, position=position, impressions=np.full(len(row), 50), clicks=clicked
    )
    rho = AllPairs(replicates=20).fit(clicks)
    half = np.arange(QUERIES) < QUERIES // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of queries that are left out
        method = cr.IPS().fit(data[half], clicks[half], rho)
        judging: dict[str, Any] = {"clicks": clicks, "propensities": rho}
        return {
            "curve": rho,
            "assumed": cr.Propensities.power(1, 60),
            "segments": BySegment(AllPairs(replicates=20)).fit({SCRIPT: clicks[half], "phone": clicks[~half]}),
            "affine": AffineClicks.of([1, 0.5], [0.9, 0.9], [0.5, 0.2]),
            "trust": TrustBias().fit(clicks),
            "evaluation": cr.evaluate(method, data[~half]),
            "comparison": cr.compare(method, features[:, 1][np.repeat(~half, SIZE)], data[~half]),
            "by clicks": cr.evaluate(method, data, name=SCRIPT, **judging),
            "verdict": cr.compare(method, "production", data, names=(SCRIPT, "old"), **judging),
            "audit": audit_table(clicks, source=SCRIPT),
        }


KINDS = (
    *("curve", "assumed", "segments", "affine", "trust"),
    *("evaluation", "comparison", "by clicks", "verdict", "audit"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_well_formed_and_escaped_and_needs_nothing_else(kind: str) -> None:
    html = shown()[kind]._repr_html_()
    page = Checked(html)
    assert "script" not in page.seen
    assert not page.addresses
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html)
    assert len(html) < 60_000
    assert page.rows
    assert len({len(row) for row in page.rows}) <= 1  # one table, every row complete
    for address in re.findall(r'src="([^"]*)"', html):
        assert address.startswith("data:image/svg+xml;base64,")
        picture = b64decode(address.partition(",")[2]).decode()
        assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314  of our own making
        assert "prefers-color-scheme: dark" in picture
        assert SCRIPT not in picture
