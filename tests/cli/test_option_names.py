"""Parameters in backticks become options of the running command, and stay as they are where it has none."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cldrank.cli.option_names import as_options, columns_by
from cldrank.errors import CldrankWarning, UsageError, warn

Run = Callable[..., Any]
VALUE, FLAG = SimpleNamespace(is_flag=False), SimpleNamespace(is_flag=True)
OPTIONS = {"--max-rejected": VALUE, "--one-query": FLAG, "--envelope": VALUE, "--hidden": VALUE, "--for": VALUE}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`max_rejected=0.2`", "--max-rejected 0.2"),
        ("`one_query=True` or `one_query`", "--one-query or --one-query"),
        ("`one_query=False`", "`one_query=False`"),
        ("`hidden=(64, 32)`", "--hidden 64,32"),
        ("`missing=0`", "`missing=0`"),
        ("`first_position=0` or `exclude_bots`", "`first_position=0` or `exclude_bots`"),
        ("`version='8.11'`", "--for 8.11"),
        ("`eta=1` of `Propensities.power`", "`eta=1` of `Propensities.power`"),
    ],
)
def test_a_parameter_becomes_an_option_where_there_is_one(text: str, expected: str) -> None:
    assert as_options(text, OPTIONS) == expected


def test_columns_of_the_log_are_told_from_those_of_features() -> None:
    with pytest.raises(UsageError, match="name it with --log-column doc_id=…"), columns_by("--log-column"):
        raise UsageError("name it with `columns={'doc_id': …}`.")


def test_layouts_of_logs_are_for_aggregating() -> None:
    known = {"--log-column": VALUE}
    assert as_options("set `first_position=0`.", known) == "set --first-position 0 of `cldrank clicks aggregate`."
    assert as_options("say `one_query=True`.", known) == "say --one-query of `cldrank clicks aggregate`."


@pytest.mark.filterwarnings("always::cldrank.errors.CldrankWarning")
def test_errors_and_warnings_of_a_command_name_its_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        warn(CldrankWarning("`top=3` is small, `folds=3` is unknown."))
        raise UsageError("leave `n_features=4` out, or `eta`.")

    monkeypatch.setattr("cldrank.rankers.load_ranker", fail)
    ran = run("score", "ranker", "--features", "train.parquet", "--out", "scores.csv")
    assert ran.code == 2
    assert "warning: --top 3 is small, `folds=3` is unknown.\n" in ran.err
    assert "error: leave --n-features 4 out, or `eta`.\n" in ran.err
