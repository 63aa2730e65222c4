from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_rankers as made
import numpy as np
import pytest
from numpy.typing import NDArray
from tricky import at_thresholds, compared, tricky, with_gaps

import cldrank as cr
from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.export import Exported, ExportRequest, Parity, export_formats, export_ranker
from cldrank.export.replay import NamedTable, vespa_replay
from cldrank.rankers import LinearRanker, Ranker, TreeRanker

FORMAT = export_formats()["vespa"]
SCALINGS = ["standard", scaling.Standard(clip=1e30), "minmax", "log", None]


def written(ranker: Ranker, **request: Any) -> Exported:
    return FORMAT.export(ranker, ExportRequest(**request))


def profile_of(ranker: Ranker, **request: Any) -> str:
    files = written(ranker, **request).files
    return "\n".join(files[name].decode() for name in sorted(files, reverse=True) if name.endswith(".profile"))


def parity(ranker: Ranker, rows: NDArray[np.float32], **request: Any) -> Parity:
    return compared(FORMAT, ranker, rows, **request)


def named(*names: str) -> LinearRanker:
    """A ranker with features of these names."""
    learned = scaling.fit(None, np.ones((1, len(names))))
    return LinearRanker(feature_names=names, scaling=learned, coefficients=np.arange(1.0, len(names) + 1))


def replay_of(expression: str, table: NamedTable, functions: str = "") -> NDArray[np.float64]:
    """The replay of a first phase written by hand."""
    text = f"rank-profile p {{\n{functions}\n first-phase {{\n expression: {expression}\n }}\n}}\n"
    return vespa_replay.scores({"p.profile": text.encode()}, table, version=None)


# -- linear rankers ----------------------------------------------------------------------------------------------------


def test_a_linear_ranker_is_an_expression() -> None:
    learned = scaling.fit(scaling.Standard(clip=2.5), np.array([[0.0, 1.0, 3.0], [4.0, 9.0, 3.0]]))
    names, weights = ("bm25", "page rank", "constant"), np.array([0.5, -1.5, 7.0])
    ranker = LinearRanker(feature_names=names, scaling=learned, coefficients=weights, intercept=-0.25)
    assert (
        profile_of(ranker)
        == f"""\
rank-profile cldrank_features {{

    # TODO: how Vespa computes "bm25"
    function bm25() {{
        expression: TODO
    }}

    # TODO: how Vespa computes "page rank"
    function page_rank() {{
        expression: TODO
    }}

}}

rank-profile cldrank inherits cldrank_features {{

    # a ranker of 3 features, of unknown origin (cldrank {cr.__version__})

    first-phase {{
        expression {{
            0.5 * max((-2.5), min(2.5, ((bm25 - 2.0) * 0.5))) +
            (-1.5) * max((-2.5), min(2.5, ((page_rank - 5.0) * 0.25))) +
            (-0.25)
        }}
    }}

}}
"""
    )


@pytest.mark.parametrize("rule", SCALINGS, ids=str)
@pytest.mark.parametrize("renamed", [{}, {"bm25": "bm25(title)", "länge": "fieldMatch(title, 2).length.x"}])
def test_linear_rankers_with_each_scaling(rule: Any, renamed: dict[str, str]) -> None:
    ranker = made.linear(rule, coefficients=np.array([0.1, -2 / 3, 1e-17, 3.0]))
    found = parity(ranker, tricky(made.FEATURES), renamed=renamed)
    assert found.largest <= 1.2e-7 * max(1, found.scale)
    assert found.swapped == 0


# -- trees -------------------------------------------------------------------------------------------------------------


def test_trees_at_their_thresholds() -> None:
    ranker = made.trees(rounds=60)
    rows = with_gaps(at_thresholds(ranker, made.FEATURES))
    found = parity(ranker, rows)
    assert found.largest <= 1e-6 * found.scale  # XGBoost adds up in float32, Vespa in double
    assert found.swapped == 0


def test_each_row_ends_in_the_leaf_that_xgboost_finds() -> None:
    """With leaves that are powers of 2 the sum says which leaf of which tree it was, and is exact in float32."""
    ranker = made.trees(rounds=2)
    content = json.loads(ranker.content)
    power = 0
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        for node, left in enumerate(tree["left_children"]):
            if left < 0:
                tree["split_conditions"][node] = tree["base_weights"][node] = float(2**power)
                power += 1
    marked = TreeRanker(content=json.dumps(content).encode(), feature_names=made.NAMES)
    rows = with_gaps(at_thresholds(marked, made.FEATURES), share=0.2)
    assert parity(marked, rows).largest == 0


# -- networks ----------------------------------------------------------------------------------------------------------


def test_networks_are_onnx_models() -> None:
    ranker, renamed = made.network(), {"bm25": "bm25(title)", "länge": "fieldMatch(title, 2).length"}
    files = written(ranker, renamed=renamed, name="shop").files
    assert set(files) == {"shop_features.profile", "shop.profile", "README.md", "models/shop.onnx"}
    assert "file: models/shop.onnx" in files["shop.profile"].decode()
    found = parity(ranker, tricky(made.FEATURES), renamed=renamed, name="shop")
    assert (found.largest, found.same_order) == (0, True)


# -- names and the files -----------------------------------------------------------------------------------------------


def test_names_that_vespa_cannot_take() -> None:
    ranker = named("title.covered", "1", "sum", "größe (px)", "ok")
    profile, notes = profile_of(ranker), written(ranker).notes
    for own in ("title_covered", "feature_1", "feature_sum", "gr__e__px_", "ok"):
        assert f"function {own}() {{" in profile
    assert "title_covered (title.covered)" in notes[0]
    assert parity(ranker, np.arange(10, dtype=np.float32).reshape(2, 5)).largest == 0
    assert "| `feature_sum` | sum |" in written(ranker).files["README.md"].decode()


def test_versions_and_names_of_models() -> None:
    with pytest.raises(UsageError, match=r"`version='7.5'` is too old"):
        written(made.linear(), version="7.5")
    for name in ("two words", "1st", "a-b", "../x"):
        with pytest.raises(UsageError, match=rf"`name` must .*not '{name}'"):
            written(made.linear(), name=name)
    for name in ("max", "sum"):
        with pytest.raises(UsageError, match=f"`name` cannot be '{name}'"):
            written(made.linear(), name=name)
    assert "_x.profile" in written(made.linear(), name="_x").files


def test_the_folder(tmp_path: Path) -> None:
    shipped = export_ranker(made.trees(), "vespa", tmp_path / "out", check=made.dataset())
    assert shipped.parity is not None
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"cldrank_features.profile", "cldrank.profile", "README.md", "models/cldrank.json", "export.json"}
    assert shipped.to_do == {"cldrank_features.profile": 3}
    filled = (tmp_path / "out" / "cldrank_features.profile").read_text().replace("TODO\n", "bm25(title)\n")
    (tmp_path / "out" / "cldrank_features.profile").write_text(filled)
    assert export_ranker(made.trees(rounds=5), "vespa", tmp_path / "out").to_do == {"cldrank_features.profile": 0}


# -- the replay --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(1.0 + 2.0) * a", 9.0),
        ("7.0 - a - b", 0.0),
        ("8.0 / 2.0 / 2.0", 2.0),
        ("max((-1.5e+1), min(1e1, a))", 3.0),
        ("min(2.0, a) - max(5.0, a)", -3.0),
        ("bm25(title, 2).x + a(b)", 16.0),
    ],
)
def test_expressions(expression: str, expected: float) -> None:
    row = np.array([[3, 4, 7, 9]], dtype=np.float32)
    table = NamedTable(("a", "b", "bm25(title, 2).x", "a(b)"), row)
    assert replay_of(expression, table).tolist() == [expected]


@pytest.mark.parametrize("expression", ["a +", "unknown", "a ^ 2.0"])
def test_expressions_that_it_does_not_know(expression: str) -> None:
    with pytest.raises(ValueError, match="cannot read|is missing at|unknown feature"):
        replay_of(expression, NamedTable(("a",), np.ones((1, 1), dtype=np.float32)))
