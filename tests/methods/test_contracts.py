"""What every method promises: its structure with every model, its fits with a few that stand for the rest."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import cldrank
from cldrank import segments
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import hashes_of
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.methods import Method, NotFittedError, methods
from cldrank.methods.evidence import needed
from cldrank.methods.method import Bias
from cldrank.methods.needs import Needs
from cldrank.methods.registry import configured, default_model, settings_of, usable_models
from cldrank.models import MLP, Linear, Model, Run, Trees, models
from cldrank.parameters import Parameter, parameters
from cldrank.propensity import Propensities
from cldrank.rankers import BordaRanker, load_ranker

Kind = type[Method]
METHODS = [pytest.param(kind, id=kind.__name__) for kind in methods().values()]
CASES = [
    pytest.param(kind, model, id=f"{kind.__name__}-{model.__name__}")
    for kind in methods().values()
    for model in usable_models(kind).values()
]
SMALL: dict[str, Any] = {  # for those who have such a parameter
    "epochs": 2, "hidden": (8,), "fraction": 1.0, "rounds": 3, "min_weight": 0.1,
}  # fmt: skip
FITTED: dict[tuple[Kind, type[Model]], Method] = {}
RHO = Propensities.power(0.5, k=3)

every_method = pytest.mark.parametrize("kind", METHODS)
every_case = pytest.mark.parametrize(("kind", "model"), CASES)
fitted_case = pytest.mark.parametrize(  # each way to fit, each kind of model, each kind of evidence
    ("kind", "model"),
    [case for case in CASES if case.id in {
        "Naive-Trees", "IPS-MLP", "AffineIPS-Linear", "RankAgg-Linear", "CLD-Linear", "CLDPair-MLP",
        "HeckmanRank-Linear", "SVMRank-Linear", "Oracle-Trees",
    }],
)  # fmt: skip
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* candidates were never shown, and are left out"),
    pytest.mark.filterwarnings("ignore:the clicks refute"),
]


def made(kind: Kind, model: type[Model], **settings: Any) -> Method:
    """A method that is quick to fit, from flat settings."""
    small = {name: value for name, value in SMALL.items() if name in settings_of(kind, model)}
    return configured(kind, {"model": model(), **small, **settings})


def example(rows: int = 120, **changes: Any) -> RankingDataset:
    random = np.random.default_rng(0)
    features = random.lognormal(0, 1, (rows, 3))
    parts: dict[str, Any] = {
        "features": features,
        "qid": np.arange(rows) // 10,
        "labels": (features[:, 0] > 1) + (features[:, 1] > 2),
        "feature_names": ("bm25", "pagerank", "length"),
        "name": "example",
        "synthetic": True,
    }
    return RankingDataset.from_arrays(**parts | changes)


def clicked(data: RankingDataset, times: int = 1) -> ClickTable:
    """Clicks on the three longest documents of each query, the more the better their labels."""
    rank = segments.descending_ranks(data.features[:, 2], data.offsets)
    shown = rank <= 3
    labels = np.zeros(data.n_rows) if data.labels is None else data.labels
    return ClickTable.from_arrays(
        data,
        position=np.where(shown, rank, 0),
        impressions=np.where(shown, 12 * times, 0),
        clicks=np.where(shown, times * (1 + 2 * labels).astype(int), 0),
    )


def learn(method: Method, data: RankingDataset) -> Method:
    return method.fit(data, *needed(method.required, clicked(data), RHO))


def fitted(kind: Kind, model: type[Model]) -> Method:
    """Fitted once, for the tests that only look."""
    if (kind, model) not in FITTED:
        FITTED[kind, model] = learn(made(kind, model), example())
    return FITTED[kind, model]


# -- one description -----------------------------------------------------------------------------------------------


def test_methods_are_found_by_their_files() -> None:
    folder = Path(inspect.getfile(Method)).parent
    named = {path.stem for path in folder.glob("*.py") if re.search('^    name = "', path.read_text("utf-8"), re.M)}
    assert {kind.__module__.rpartition(".")[2] for kind in methods().values()} == named
    assert len(methods()) >= 11
    assert all(getattr(cldrank, kind.__name__) is kind for kind in methods().values())


@every_method
def test_a_method_says_what_it_is(kind: Kind) -> None:
    assert methods()[kind.name] is kind
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert kind.label
    assert [other.label for other in methods().values()].count(kind.label) == 1
    assert kind.sentence[:1].islower()
    assert not kind.sentence.endswith(".")
    assert kind.learns
    assert kind.__doc__
    assert kind.needs in get_args(Needs)
    assert set(kind.corrects) <= set(get_args(Bias))
    assert kind.needs != "labels" or not kind.corrects
    assert usable_models(kind)
    assert type(default_model(kind)) in usable_models(kind).values()


@pytest.mark.parametrize("owner", [*methods().values(), *models().values(), Run])
def test_a_parameter_says_what_it_is(owner: type) -> None:
    for one in parameters(owner).values():
        assert one.about, one.name
        assert not one.about.endswith("."), one.name
        assert one.default is None or one.accepts(one.default), one.name


@every_case
def test_no_two_parameters_share_a_name(kind: Kind, model: type[Model]) -> None:
    """So that settings can be flat on the command line and in experiment files."""
    owners = [set(parameters(kind)) - {"model", "run"}, set(parameters(model)), set(parameters(Run))]
    assert len(set().union(*owners)) == sum(map(len, owners))
    assert list(settings_of(kind, model)) == [name for owner in (kind, model, Run) for name in plain(owner)]


def plain(owner: type) -> list[str]:
    return [name for name in parameters(owner) if name not in ("model", "run")]


# -- the habits of scikit-learn ------------------------------------------------------------------------------------


@every_method
def test_parameters_are_keyword_only(kind: Kind) -> None:
    found = inspect.signature(kind).parameters
    assert set(found) == set(parameters(kind))
    assert {one.kind for one in found.values()} == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError):
        kind(Linear())  # type: ignore[call-arg]


@every_case
def test_parameters_can_be_read_and_set_also_those_within(kind: Kind, model: Any) -> None:
    method = made(kind, model)
    assert set(method.get_params(deep=False)) == set(parameters(kind))
    nested = {f"model__{name}" for name in parameters(model)} | {f"run__{name}" for name in parameters(Run)}
    assert set(method.get_params()) == set(parameters(kind)) | nested
    before: Any = method.model
    other = made(kind, model)
    assert method.set_params(model__l2=0.25, run__seed=7) is method
    assert (method.get_params()["model__l2"], method.run.seed) == (0.25, 7)
    assert method.model == replace(before, l2=0.25)
    assert (other.model, other.run) == (before, Run())  # nobody else's has changed
    assert method.set_params(model=model(), model__l2=0.5).model == model(l2=0.5)
    for name in ("model__nonsense", "run__epochs", "nonsense", "nonsense__l2", "model__"):
        with pytest.raises(UsageError, match=f" {name}."):
            method.set_params(**{name: 1})
    for name, home in {"l2": "model", "seed": "run"}.items():
        with pytest.raises(UsageError, match=f"{home}__{name}."):
            method.set_params(**{name: 1})
    with pytest.raises(UsageError, match="`l2` .* -1"):
        method.set_params(model__l2=-1)
    assert method.get_params()["model__l2"] == 0.5
    method.set_params(run__resume=True, run__checkpoint="state")  # in any order: a value is checked as a whole
    assert (method.run.resume, method.run.checkpoint) == (True, "state")


@fitted_case
def test_a_clone_has_all_parameters_and_has_learned_nothing(kind: Kind, model: type[Model]) -> None:
    for method in (made(kind, model), made(kind, model, l2=0.5, seed=3), fitted(kind, model)):
        copied = clone(method)
        assert type(copied) is kind
        assert copied is not method
        assert copied.get_params() == method.get_params()
        with pytest.raises(NotFittedError):
            copied.predict(example())


@every_method
def test_scikit_learn_takes_it_as_one_of_its_own(kind: Kind) -> None:
    """It does not inherit from `BaseEstimator`, which is slow to import, and answers as if it did."""
    method: Any = kind()
    assert get_tags(method) == get_tags(BaseEstimator())
    assert list(method.get_params(deep=False)) == BaseEstimator._get_param_names.__func__(kind)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(method)
    method.ranker_ = None
    check_is_fitted(method)


def test_a_long_repr_stays_whole_and_on_one_line() -> None:
    hidden = tuple(range(100, 200))
    assert repr(cldrank.CLD(clip=0.1, model=MLP(hidden=hidden))) == f"CLD(clip=0.1, model=MLP(hidden={hidden}))"


@every_case
def test_the_repr_can_be_run(kind: Kind, model: type[Model]) -> None:
    known = vars(cldrank.models) | {one.__name__: one for one in methods().values()}
    for settings in ({}, {"l2": 0.5, "scaling": None, "seed": 3}):
        method = made(kind, model, **{name: settings[name] for name in settings if name in settings_of(kind, model)})
        again = eval(repr(method), dict(known))  # noqa: S307
        assert type(again) is kind
        assert again.get_params() == method.get_params()
    assert repr(kind()) == f"{kind.__name__}()"


@fitted_case
def test_fit_returns_self_and_leaves_what_it_learned(kind: Kind, model: type[Model]) -> None:
    data, method = example(), made(kind, model)
    before = method.get_params()
    assert learn(method, data) is method
    assert method.get_params() == before
    assert set(vars(method)) - set(parameters(kind)) == {name for name in vars(method) if name.endswith("_")}
    assert method.n_features_in_ == 3
    assert list(method.feature_names_in_) == ["bm25", "pagerank", "length"]
    assert all(hasattr(method, f"{name}_") for name in ("ranker", "status", "n_iter", *method.fit_.learned))
    np.testing.assert_array_equal(method.predict(data), method.ranker_.predict(data))
    if isinstance(method.ranker_, BordaRanker):  # it ranks within a query, and a plain table is one query
        data = RankingDataset.from_arrays(data.features, np.zeros(120), feature_names=data.feature_names)
    np.testing.assert_array_equal(method.predict(data.features), method.ranker_.predict(data))


@fitted_case
def test_the_summary_begins_with_the_method(kind: Kind, model: type[Model]) -> None:
    lines = fitted(kind, model).summary().splitlines()
    assert re.match(r"method +[A-Z]\w+\(", lines[0])
    assert any(line.startswith("status ") for line in lines)
    for use in (lambda: made(kind, model).predict([[1, 2, 3]]), lambda: made(kind, model).summary()):
        with pytest.raises(NotFittedError):
            use()


@fitted_case
def test_fitting_again_forgets(kind: Kind, model: type[Model]) -> None:
    first = learn(made(kind, model), example(60))
    again = learn(learn(made(kind, model), example(120)), example(60))
    np.testing.assert_array_equal(again.predict(example()), first.predict(example()))  # the same seed, the same scores
    assert vars(again).keys() == vars(first).keys()


@fitted_case
def test_a_fitted_method_can_be_pickled(kind: Kind, model: type[Model]) -> None:
    method = fitted(kind, model)
    again = pickle.loads(pickle.dumps(method))  # noqa: S301
    assert again.get_params() == method.get_params()
    np.testing.assert_array_equal(again.predict(example()), method.predict(example()))
    assert again.summary() == method.summary()


@fitted_case
def test_the_ranker_survives_being_saved_and_knows_its_origin(kind: Kind, model: type[Model], tmp_path: Path) -> None:
    method = fitted(kind, model)
    method.ranker_.save(tmp_path)
    ranker = load_ranker(tmp_path)
    np.testing.assert_array_equal(ranker.predict(example()), method.predict(example()))
    np.testing.assert_array_equal(ranker.trained_on, np.unique(hashes_of(range(12))))
    origin = ranker.provenance
    assert (origin.data, origin.synthetic, origin.rows, origin.queries) == ("example", True, 120, 12)
    assert origin.estimator == kind.__name__
    decisive = {entry.name for entry in fields(Run) if entry.compare and entry.name != "device"}
    names = {*plain(kind), "model", *(f"model__{name}" for name in parameters(model))}
    assert origin.parameters.keys() == names | {f"run__{name}" for name in decisive}
    assert origin.parameters["model"] == model.__name__


# -- what they learn from ------------------------------------------------------------------------------------------


@every_case
def test_what_is_needed_must_be_given(kind: Kind, model: type[Model]) -> None:
    method, data = made(kind, model), example()
    if method.required == "labels":
        with pytest.raises(DataError, match=f"no labels.* {re.escape(kind.label)} "):
            method.fit(example(labels=None))
        return
    for wrong in (None, "clicks.parquet"):
        with pytest.raises(UsageError, match=f"^{re.escape(kind.label)} .*`clicks`, .*not (None|a str)"):
            method.fit(data, wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        method.fit(data[1:], clicked(data), RHO if method.required in ("propensities", "trust") else None)
    if method.required in ("propensities", "trust"):
        for curve in (None, [1, 0.5, 0.3]):
            with pytest.raises(UsageError, match=f"^{re.escape(kind.label)} "):
                method.fit(data, clicked(data), curve)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="for position 3"):
            method.fit(data, clicked(data), Propensities.power(1, 2))


@fitted_case
def test_what_is_not_needed_is_refused_by_name_or_left_out_with_a_warning(kind: Kind, model: type[Model]) -> None:
    method, data = made(kind, model), example()
    if method.required == "labels":
        for name, given in (("clicks", clicked(data)), ("propensities", RHO)):
            with pytest.raises(UsageError, match=f"^{re.escape(kind.label)} .*`{name}`"):
                method.fit(data, **{name: given})  # type: ignore[arg-type]
        assert not hasattr(method, "ranker_")
    if method.required == "clicks":
        with pytest.warns(CldrankWarning, match=f"^{re.escape(kind.label)} .*propensities"):
            method.fit(data, clicked(data), RHO)
        np.testing.assert_array_equal(method.predict(data), made(kind, model).fit(data, clicked(data)).predict(data))


@fitted_case
def test_what_is_not_a_dataset_is_refused(kind: Kind, model: type[Model]) -> None:
    with pytest.raises(UsageError, match="ndarray"):
        made(kind, model).fit(np.eye(3))  # type: ignore[arg-type]
    with pytest.raises(DataError):
        made(kind, model).fit(example()[:0])


@fitted_case
def test_the_order_of_queries_and_rows_changes_nothing(kind: Kind, model: type[Model]) -> None:
    if issubclass(model, MLP | Trees) or (kind.way == "fit_pairs"):
        pytest.skip("chance draws queries by their place: which are held out, and which share a batch")
    data, random = example(), np.random.default_rng(5)
    assert data.labels is not None
    order = np.concatenate([query * 10 + random.permutation(10) for query in random.permutation(12)])
    turned = RankingDataset.from_arrays(
        data.features[order], data.row_queries[order], data.labels[order], feature_names=data.feature_names
    )
    scores = learn(made(kind, model), turned).predict(data)
    np.testing.assert_allclose(scores, fitted(kind, model).predict(data), atol=1e-6)


@fitted_case
def test_impressions_are_weights_so_four_times_the_log_says_the_same(kind: Kind, model: type[Model]) -> None:
    if kind.needs == "labels":
        pytest.skip("it does not learn from a log")
    data = example()
    plain = {"target": "ips"} if "target" in settings_of(kind, model) else {}  # to others, four times are more certain
    once, more = learn(made(kind, model, **plain), data), made(kind, model, **plain)
    more.fit(data, *needed(more.required, clicked(data, times=4), RHO))
    np.testing.assert_allclose(more.predict(data), once.predict(data), rtol=1e-4, atol=1e-6)


# -- what they refuse ----------------------------------------------------------------------------------------------


def wrong_values(known: Parameter) -> list[Any]:
    """Values that a parameter cannot have, by its declared type and bounds alone."""
    kinds = known.kinds
    if Any in kinds:
        return []
    wrong: list[Any] = [object(), b"bytes", *([] if known.optional else [None]), *([] if bool in kinds else [True])]
    if float in kinds or int in kinds:
        bounds = known.bounds
        wrong += [np.nan, np.inf, 10**400, "1", *([] if float in kinds else [1.5, np.float32(2)])]
        wrong += [least - 1 for least in (bounds.least,) if least is not None]
        wrong += [most + 1 for most in (bounds.most,) if most is not None]
        wrong += [end for end in (bounds.above, bounds.below) if end is not None]
    else:
        wrong += [0, "yes"] if bool in kinds else [3, np.nan]
    choices = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return wrong + ([choices[0].upper(), choices] if choices else [])


@every_method
def test_parameters_of_a_wrong_kind_are_refused_by_name(kind: Kind) -> None:
    data = example(20)
    for one in parameters(kind).values():
        for wrong in wrong_values(one):
            method = kind(**{one.name: wrong})  # scikit-learn wants checks in fit, and only there
            with pytest.raises(UsageError, match=f"^`{one.name}` must be "):
                method.fit(data, *needed(kind.needs, clicked(data), RHO))


@pytest.mark.parametrize("owner", [*models().values(), Run])
def test_parameters_of_models_and_runs_are_refused_by_name(owner: Any) -> None:
    for one in parameters(owner).values():
        for wrong in wrong_values(one):
            with pytest.raises(UsageError, match=f"^`{one.name}` must be "):
                owner(**{one.name: wrong})


@every_method
def test_a_model_that_the_method_cannot_use_is_refused(kind: Kind) -> None:
    for name, model in models().items():
        if name not in usable_models(kind):
            with pytest.raises(UsageError, match=f"`model`|{model.__name__}"):
                learn(kind(model=model()), example(20))


@pytest.mark.parametrize("kind", methods().values(), ids=lambda kind: kind.__name__)
def test_a_parameter_of_another_owner_is_refused_with_its_home(kind: Kind) -> None:
    model = type(default_model(kind)).__name__
    with pytest.raises(UsageError, match=rf"no parameter l2; write {kind.__name__}\(model={model}\(l2=…\)\)"):
        kind(l2=0.1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=rf"no parameter seed; write {kind.__name__}\(run=Run\(seed=…\)\)"):
        kind(seed=1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="nonsense"):
        kind(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"model=Linear\(\)"):
        kind(model="linear").check()  # type: ignore[arg-type]


@fitted_case
def test_missing_values_are_used_or_refused_by_name(kind: Kind, model: type[Model]) -> None:
    features = example().features.copy()
    features[[4, 70], [1, 0]] = np.nan
    data = example(features=features, labels=example().labels, missing="keep")
    if model.takes_missing and kind.name != "rankagg":  # which fits a linear model as well
        assert np.isfinite(learn(made(kind, model), data).predict(data)).all()
        return
    with pytest.raises(DataError, match=r"'pagerank' of row 4 \(query 0\)") as caught:
        learn(made(kind, model), data)
    trees_would_do = kind.name != "rankagg" and "trees" in usable_models(kind)
    assert ("or fit trees" in str(caught.value)) == trees_would_do
    with pytest.raises(DataError, match=r"'pagerank' of row 4 .*`missing=0`"):
        fitted(kind, model).predict(data)
