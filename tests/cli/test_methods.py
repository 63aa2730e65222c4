"""The commands that are derived from the methods: what each offers, and how it reads and refuses values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.methods import Method, methods
from cldrank.methods.registry import configured, settings_of, usable_models
from cldrank.models import Run as RunSettings
from cldrank.parameters import parameters

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
COMBINATIONS = [(name, model) for name, kind in methods().items() for model in usable_models(kind)]
SMALL: dict[str, Any] = {"hidden": (8, 4), "epochs": 2, "batch_queries": 16}


def given(method: type[Method]) -> tuple[str, ...]:
    """What a method learns from."""
    return FROM[: {"labels": 2, "clicks": 4}.get(method.needs, 6)]


def spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def offered(text: str) -> set[str]:
    """The options that a help names at the start of a line."""
    rows = (re.match(r"  (?:-\w, )?(--[\w-]+)(?: / (--[\w-]+))?", line) for line in text.splitlines())
    return {option for row in rows if row for option in row.groups() if option}


def one_line(ran: Any) -> str:
    """The message of a refused call: one line, without a traceback."""
    assert ran.code == 2, ran
    message, *more = [line for line in ran.err.splitlines() if "-:--:--" not in line]  # a bar that had not begun
    assert not more, ran.err
    return str(message)


class TestHelp:
    @pytest.mark.parametrize(("name", "model"), COMBINATIONS)
    def test_it_names_what_has_an_effect_and_nothing_of_others(self, run: Run, name: str, model: str) -> None:
        kind, fitted = methods()[name], usable_models(methods()[name])[model]
        shown = run("train", name, "--model", model, "--help")
        assert shown.code == 0, shown.err
        assert kind.label in shown.out
        assert " ".join(kind.sentence.split()[:6]) in " ".join(shown.out.split())
        every = {*parameters(RunSettings), *(own for one in methods().values() for own in parameters(one))}
        every |= {own for _, one in models_of_all().items() for own in parameters(one)}
        own = settings_of(kind, fitted)
        unused = kind.unheeded(fitted)
        expected = {setting for setting, one in own.items() if one.option and setting not in unused}
        found = {setting for setting in every if spelled(setting) in offered(shown.out)} - {"model", "run"}
        assert found == expected

    def test_it_fits_on_two_screens(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        lines = run("train", "cld", "--help").out.splitlines()
        assert len(lines) <= 90
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize(
        ("name", "model", "useless"),
        [
            (
                "oracle",
                "linear",
                {"--safe", "--safe-margin", "--production-feature", "--engine", "--master", "--depth"},
            ),
            ("cld", "mlp", {"--engine"}),
            ("ips", "trees", {"--engine", "--master"}),
        ],
    )
    def test_what_is_always_refused_is_not_offered(self, run: Run, name: str, model: str, useless: set[str]) -> None:
        call = ("train", name, *given(methods()[name]), "--model", model, "-o", "x")
        assert not useless & offered(run(*call, "--help").out)
        for option in useless:
            assert option in one_line(run(*call, option, "1"))

    def test_one_sentence_for_each_method(self, run: Run) -> None:
        shown = " ".join(run("train", "--help").out.replace("│", " ").split())
        for kind in methods().values():
            assert f"{kind.name} {kind.label}: {kind.sentence}." in shown


def models_of_all() -> dict[str, Any]:
    return {model: one for kind in methods().values() for model, one in usable_models(kind).items()}


@pytest.mark.parametrize(
    ("name", "model"),
    [("cld", "linear"), ("ips", "mlp"), ("cld-pair", "trees"), ("svm-rank", "linear"), ("oracle", "linear")],
)
def test_the_same_ranker_as_from_python(run: Run, folder: Path, name: str, model: str) -> None:
    kind = methods()[name]
    own = {"mlp": SMALL, "trees": {"rounds": 3, "min_weight": 0.1}}.get(model, {})
    settings = {**own, "seed": 5, **({} if model == "trees" else {"scaling": "minmax"})}
    settings |= {"fraction": 0.5} if name == "svm-rank" else {}
    settings |= {"clip": 0.3} if "clip" in parameters(kind) and kind.needs != "clicks" else {}
    typed = [
        part
        for setting, value in settings.items()
        for part in (spelled(setting), ",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    ]
    trained = run("train", name, *given(kind), "--model", model, *typed, "-o", "ranker", "--json")
    assert trained.code == 0, trained.err
    data = cr.load(folder / "train.parquet")
    clicks = None if kind.needs == "labels" else cr.ClickTable.read(folder / "cells.parquet", data)
    rho = cr.Propensities.power(1.0, 5) if kind.needs in ("propensities", "trust") else None
    expected = configured(kind, {"model": model, **settings}).fit(data, clicks, rho)
    np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), expected.predict(data))


class TestValues:
    """Every kind of value: how it is typed, and what it becomes."""

    @pytest.mark.parametrize(
        ("method", "typed", "message"),
        [
            ("cld", ("--gamma", "2"), "--gamma must be a number above -1 and below 1, not 2."),
            ("cld", ("--gamma", "nan"), "--gamma must be a number above -1 and below 1, not nan."),
            ("cld", ("--seed", "none"), "--seed must be a whole number of at least 0, not none."),
            ("cld", ("--clip", "0"), "--clip must be a number above 0 and up to 1, or None, not 0."),
            ("cld", ("--scaling", "minmax:clip=2"), "--scaling minmax:clip=2: clip must be True or False, not 2."),
            ("rankagg", ("--hidden", "8;4"), "--hidden must be a list of whole numbers of at least 1, not 8;4."),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_line(
        self, run: Run, method: str, typed: tuple[str, ...], message: str
    ) -> None:
        assert one_line(run("train", method, *given(methods()[method]), *typed, "-o", "x")) == f"error: {message}"
        assert not Path("x").exists()

    @pytest.mark.parametrize(
        "name", [name if name == "cld-pair" else pytest.param(name, marks=pytest.mark.slow) for name in methods()]
    )
    def test_words_for_every_parameter(self, run: Run, name: str) -> None:
        """A value that none takes is refused by the name of the option, never by that of Python."""
        kind = methods()[name]
        for model, fitted in usable_models(kind).items():
            unused = kind.unheeded(fitted)
            for setting, one in settings_of(kind, fitted).items():
                if not one.option or setting in unused or {bool, str, Sequence[str]} & set(one.kinds):
                    continue
                call = ("train", name, *given(kind), "--model", model, spelled(setting), "~", "-o", "x")
                message = one_line(run(*call))
                assert message.startswith(f"error: {spelled(setting)} must be "), message
                assert message.endswith(", not ~.")


class TestCalls:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (["cdl"], "there is no method 'cdl'. Did you mean cld? The methods are naive, "),
            (["boosting"], "there is no method 'boosting'. The methods are naive, "),
            (["--features", "train.parquet", "cld"], "name the method first: `cldrank train METHOD --features …`."),
            (["cld", *FROM, "--epochs", "3"], "--epochs is not for a linear model; choose --model mlp."),
            (["cld", *FROM, "--model", "trees"], "CLD can be fitted with linear or mlp, not with 'trees'; for trees, "),
            (["naive", *FROM[:4], "--clip", "0.1"], "naive has no use for --clip; leave it out."),
            (["oracle", *FROM[:4]], "oracle learns from labels, not from clicks; leave -c out."),
        ],
    )
    def test_what_does_not_exist_is_explained(self, run: Run, call: list[str], message: str) -> None:
        assert one_line(run("train", *call, "-o", "x")).startswith(f"error: {message}")

    def test_an_option_that_nothing_has(self, run: Run) -> None:
        ran = run("train", "cld", *FROM, "--gama", "0.1", "-o", "x")
        assert ran.code == 2
        assert "No such option" in ran.err
        assert "--gamma" in ran.err.splitlines()[0]
        assert ran.err.splitlines()[1] == "Try `cldrank train cld --help`."
