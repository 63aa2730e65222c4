"""The methods that can take part: those registered here by name, and any class with `fit` and `predict`."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.parameters import shortened
from cldrank.reading import reason


@dataclass(frozen=True)
class Registered:
    """A method by name.

    home         `module:Class`
    parameters   what is given to the class, unless a file says otherwise
    sees         what its fit looks at; what it does not see does not make a new unit
    needs        the package beyond cldrank's own that it needs, and the extra that brings it
    pace         seconds a million feature values of the training data, on one core, for a first guess at the time
    """

    label: str
    home: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sees: Literal["labels", "clicks", "propensities"] = "propensities"
    needs: tuple[str, str] | None = None
    pace: float = 0.1


_NEURAL = ("torch", "neural")
_MLP = {"model": "mlp"}

REGISTERED: dict[str, Registered] = {
    "naive": Registered("Naive", "cldrank.estimators:Naive", _MLP, "clicks", _NEURAL, 0.5),
    "ips": Registered("IPS", "cldrank.estimators:IPS", _MLP, needs=_NEURAL, pace=0.5),
    "heckman": Registered("Heckman^rank", "cldrank.estimators:HeckmanRank", pace=0.25),
    "rankagg": Registered("RankAgg", "cldrank.estimators:RankAgg", needs=_NEURAL, pace=0.6),
    "cld": Registered("CLD", "cldrank.estimators:CLD"),
    "cld-pair": Registered("CLD-pair", "cldrank.estimators:CLDPair", needs=_NEURAL, pace=0.5),
    "oracle": Registered("Oracle", "cldrank.estimators:Oracle", _MLP, "labels", _NEURAL, 1.5),
    "cld-n": Registered("CLD-N", "cldrank.estimators:CLD", _MLP, needs=_NEURAL, pace=1.0),
    "cld-pair-l": Registered("CLD-pair-L", "cldrank.estimators:CLDPair", {"model": "linear"}, needs=_NEURAL, pace=0.5),
    "pijd": Registered("PIJD", "cldrank.estimators:PIJD", sees="clicks", pace=0.25),
    "affine-ips": Registered("Affine-IPS", "cldrank.estimators:AffineIPS", _MLP, needs=_NEURAL, pace=0.5),
    "policy-aware-ips": Registered(
        "Policy-aware-IPS", "cldrank.estimators:PolicyAwareIPS", _MLP, needs=_NEURAL, pace=0.5
    ),
    "xgboost": Registered("XGBoost", "cldrank.experiment.peers:XGBoostRanker", {}, "clicks", ("xgboost", "peers")),
    "xgboost-unbiased": Registered(
        "XGBoost-unbiased",
        "cldrank.experiment.peers:XGBoostRanker",
        {"debias": "position"},
        "clicks",
        ("xgboost", "peers"),
    ),
    "lightgbm": Registered("LightGBM", "cldrank.experiment.peers:LightGBMRanker", {}, "clicks", ("lightgbm", "peers")),
    "lightgbm-position": Registered(
        "LightGBM-position",
        "cldrank.experiment.peers:LightGBMRanker",
        {"debias": "position"},
        "clicks",
        ("lightgbm", "peers"),
    ),
    "lightgbm-ips": Registered(
        "LightGBM-IPS", "cldrank.experiment.peers:LightGBMRanker", {"debias": "ips"}, needs=("lightgbm", "peers")
    ),
}


def check_use(use: str, place: str) -> None:
    """Refuse a name that is neither registered nor `module:Class`; nothing is imported."""
    if use in REGISTERED or _names_a_class(use):
        return
    near = difflib.get_close_matches(use, REGISTERED, n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"{place}: there is no method {shortened(use)}.{guess} Registered are {', '.join(REGISTERED)}; a class of your "
        'own is named use = "module:Class".'
    )


def _names_a_class(use: str) -> bool:
    """Whether it is of the form `package.module:Class`."""
    module, _, name = use.partition(":")
    return name.isidentifier() and all(re.fullmatch(r"[^\s\0/\\]+", part) for part in module.split("."))


@dataclass(frozen=True)
class Maker:
    """How to make an estimator: its class and parameters, as plain as JSON.

    sees     what its fit looks at
    seeded   whether it takes a seed that the file leaves open
    source   a fingerprint of the file that defines a class from outside this package
    """

    home: str
    parameters: Mapping[str, Any]
    sees: str
    seeded: bool
    source: str

    def describe(self, seed: int) -> dict[str, Any]:
        """All that says what would be made, ready for JSON: also the parameters that nobody chose.

        Not the device: as with the number of threads, results differ by rounding alone.
        """
        chosen = {key: value for key, value in self.chosen(seed).items() if key != "device"}
        try:
            model = make(self.home, chosen)
            known = model.get_params(deep=False) if hasattr(model, "get_params") else {}
            defaults = {key: _plain(known[key]) for key in known if key not in chosen and key != "device"}
        except CldrankError:
            raise
        except Exception as error:  # whatever a class of the user's own does
            told = f"{type(error).__name__}: {reason(error)}"
            raise UsageError(f"{self.home} cannot be made with {shortened(chosen)} ({told}).") from error
        described = {"class": self.home, "parameters": chosen, "defaults": defaults}
        return {**described, "source": self.source} if self.source else described

    def chosen(self, seed: int) -> dict[str, Any]:
        """The parameters, with the seed where it is open."""
        return {**self.parameters, **({"seed": seed} if self.seeded else {})}


def maker(use: str, parameters: Mapping[str, Any], place: str, device: str | None = None) -> Maker:
    """How to make the method of a registered name or of `module:Class`; parameters that it has not are refused.

    >>> maker("cldrank.estimators:CLD", {"gamma": 0.2}, "methods.CLD").chosen(seed=3)
    {'gamma': 0.2, 'seed': 3}
    """
    known = REGISTERED.get(use)
    if known is not None and known.needs is not None:
        _check_installed(*known.needs, use)
    home = known.home if known else re.sub(r"^cldrank:", "cldrank.estimators:", use)
    given = {**(known.parameters if known else {}), **parameters}
    kind = _class(home)
    try:
        taken = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        raise UsageError(f"{home} cannot take part: Python cannot tell its parameters.") from None
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
        for name in given:
            if name not in taken:
                raise UsageError(f"{place}.{name}: {kind.__name__} has no such parameter; it has {', '.join(taken)}.")
    if device is not None and "device" in taken and "device" not in given:
        given = {**given, "device": device}
    seeded = "seed" in taken and "seed" not in given
    source = "" if home.startswith("cldrank.") else _source(kind)
    return Maker(home, given, known.sees if known else _seen_by(home), seeded, source)


def _seen_by(home: str) -> str:
    """What a class looks at that is named by its module: an estimator of ours as it is registered, others all."""
    ours = {one.home: one.sees for one in REGISTERED.values() if one.home.startswith("cldrank.estimators:")}
    return ours.get(home, "propensities")


def make(home: str, parameters: Mapping[str, Any]) -> Any:
    """The estimator, not yet fitted."""
    return _class(home)(**parameters)


def import_what_is_needed(home: str, parameters: Mapping[str, Any]) -> None:
    """Import the package that a registered method with these parameters would import in its first fit."""
    for one in REGISTERED.values():
        if one.home == home and one.needs is not None and one.parameters.items() <= parameters.items():
            package = import_module(one.needs[0])
            if one.needs[0] == "torch":
                package.optim.Adam([package.zeros(1, requires_grad=True)])  # the first optimiser imports much more


def _class(home: str) -> Any:
    module, _, name = home.partition(":")
    kind = getattr(_module(module, home), name, None)
    if kind is None:
        raise UsageError(f"{home}: the module {module} has no {name}.")
    if not isinstance(kind, type):
        raise UsageError(f"{home} cannot take part: it is not a class.")
    for method in ("fit", "predict"):
        if not callable(getattr(kind, method, None)):
            raise UsageError(f"{home} cannot take part: it has no {method}. A ranker has fit and predict.")
    return kind


def _module(name: str, home: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path and not name.startswith("cldrank."):
        sys.path.append(here)  # an installed command does not look in the folder it is called from
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{home}: there is no module {error.name!r} here; a module is found in this folder or where Python finds "
            "packages."
        ) from None
    except (Exception, SystemExit) as error:  # whatever a module of the user's own does
        raise CldrankError(
            f"{home}: the module cannot be imported ({type(error).__name__}: {reason(error)})."
        ) from error


def _plain(value: Any) -> Any:
    """A default as JSON has it; what JSON has no word for, such as infinity, as Python writes it."""
    try:
        return json.loads(json.dumps(value, default=repr, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def _source(kind: Any) -> str:
    """A fingerprint of the file that a class comes from, so that a changed method is run again."""
    try:
        file = inspect.getfile(kind)
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:20]
    except (TypeError, OSError):
        return ""


def _check_installed(package: str, extra: str, use: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingDependencyError(f"{use} needs {package}, which is not installed: pip install 'cldrank[{extra}]'.")
