"""The methods that can take part: cldrank's own, trees of other packages, any class with `fit` and `predict`."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cldrank.arguments import as_json, check_flag, shortened
from cldrank.errors import CldrankError, UsageError
from cldrank.estimators import Method, methods
from cldrank.estimators.needs import Needs
from cldrank.estimators.registry import configured, default_model
from cldrank.experiment.peers import PEERS, Peer
from cldrank.reading import reason
from cldrank.safety import Safe

_PACE = 0.1


def named() -> dict[str, type[Any]]:
    """The methods that a file may name: cldrank's own, and the peers."""
    return {**methods(), **PEERS}


def find(use: str) -> type[Any] | None:
    """The class of a name or a label, whatever its case; None where there is none.

    >>> find("Heckman^rank"), find("cld-pair")
    (<class 'cldrank.estimators.heckman.HeckmanRank'>, <class 'cldrank.estimators.cld_pair.CLDPair'>)
    """
    known = {spelled.casefold(): kind for kind in named().values() for spelled in (kind.label, kind.name)}
    return known.get(use.casefold())


def check_use(use: str, place: str) -> None:
    """Refuse a name that is neither a method's nor `module:Class`; nothing of the user's is imported."""
    if find(use) is not None or _names_a_class(use):
        return
    near = difflib.get_close_matches(use, named(), n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"{place}: there is no method {shortened(use)}.{guess} The methods are {', '.join(named())}; a class of your "
        'own is named use = "module:Class".'
    )


def _names_a_class(use: str) -> bool:
    """Whether it is of the form `package.module:Class`."""
    module, _, name = use.partition(":")
    return name.isidentifier() and all(re.fullmatch(r"[^\s\0/\\]+", part) for part in module.split("."))


@runtime_checkable
class Participant(Protocol):
    """What cldrank's own methods and the peers tell about themselves; a class of the user's need not."""

    @property
    def required(self) -> Needs:
        """What its fit looks at."""

    @property
    def uses_device(self) -> bool:
        """Whether it has a use for a device."""

    @property
    def package(self) -> str | None:
        """What its fit imports beyond cldrank's own packages."""

    @property
    def pace(self) -> float:
        """Seconds per million feature values of the training data, on one core."""

    def check(self) -> None:
        """Refuse wrong parameters, and a package that is not installed."""


@dataclass(frozen=True)
class Maker:
    """How to make a method: its name (or `module:Class`) and flat settings, as plain as JSON.

    needs    what its fit looks at; what it does not see does not make a new unit
    seeded   whether it takes a seed that the file leaves open
    source   a fingerprint of the file that defines a class from outside this package
    pace     seconds per million feature values of the training data, on one core, for a first guess at the time
    """

    home: str
    parameters: Mapping[str, Any]
    needs: Needs
    seeded: bool
    source: str
    pace: float

    def describe(self, seed: int) -> dict[str, Any]:
        """All that says what would be made, ready for JSON: also the parameters that nobody chose.

        Not the device: as with the number of threads, results differ by rounding alone.
        """
        chosen = {key: value for key, value in self.chosen(seed).items() if key != "device"}
        model = make_method(self.home, chosen)
        known = model.get_params() if hasattr(model, "get_params") else {}
        hidden = {*chosen, "run", "device", "checkpoint", "resume", "tensorboard", "warm_start", "on_epoch"}
        defaults = {key: as_json(value) for key, value in known.items() if key.rpartition("__")[2] not in hidden}
        found = {"class": self.home, "parameters": chosen, "defaults": defaults}
        return {**found, "source": self.source} if self.source else found

    def chosen(self, seed: int) -> dict[str, Any]:
        """The parameters, with the seed where it is open."""
        return {**self.parameters, **({"seed": seed} if self.seeded else {})}


def maker(use: str, parameters: Mapping[str, Any], place: str, device: str | None = None) -> Maker:
    """How to make the method of a name or of `module:Class`; parameters that it does not have are refused.

    >>> maker("cld", {"gamma": 0.2}, "methods.CLD").chosen(seed=3)
    {'gamma': 0.2, 'seed': 3}
    """
    named = find(use)
    home = use if named is None else named.name
    kind = named or _class(use)
    try:
        method = make_method(home, parameters)
        if isinstance(method, Participant):
            method.check()
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    source = "" if kind.__module__.startswith("cldrank.") else _source(kind)
    if isinstance(method, Participant):
        takes, needs, pace = {"seed", *(["device"] if method.uses_device else [])}, method.required, method.pace
    else:
        takes, needs, pace = set(_parameters_of(kind, home) or ()), "propensities", _PACE
    given = {**({"device": device} if device is not None and "device" in takes else {}), **parameters}
    return Maker(home, given, needs, "seed" in takes and "seed" not in given, source, pace)


def make_method(home: str, parameters: Mapping[str, Any]) -> Any:
    """The method, not yet fitted; `safe = true` keeps its ranker near production, as far as clicks demand."""
    kind = find(home) or _class(home)
    if issubclass(kind, Method):
        own = {name: value for name, value in parameters.items() if name != "safe"}
        safe = parameters.get("safe", False)
        check_flag("safe", safe)
        method = configured(kind, own)
        return Safe(method) if safe else method
    taken = _parameters_of(kind, home)
    for name in parameters:
        if taken is not None and name not in taken:
            raise UsageError(f"{kind.__name__} has no parameter {name}; it has {', '.join(taken)}.")
    try:
        return kind(**parameters)
    except CldrankError:
        raise
    except Exception as error:  # whatever a class of the user's own does
        why = f"{type(error).__name__}: {reason(error)}"
        raise UsageError(f"{home} cannot be made with {shortened(parameters)} ({why}).") from error


def import_what_is_needed(home: str, parameters: Mapping[str, Any]) -> None:
    """Import the package that a method with these parameters would import in its first fit."""
    method = make_method(home, parameters)
    if not isinstance(method, Participant) or method.package is None:
        return
    package = import_module(method.package)
    if method.package == "torch":
        package.optim.Adam([package.zeros(1, requires_grad=True)])  # the first optimiser imports much more


def _parameters_of(kind: Any, home: str) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a class by name; None where it takes any."""
    try:
        taken = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        raise UsageError(f"{home} cannot take part: Python cannot tell its parameters.") from None
    free = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    return None if free else taken


def _class(home: str) -> Any:
    module, _, name = re.sub(r"^cldrank:", "cldrank.estimators:", home).partition(":")
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


def _source(kind: Any) -> str:
    """A fingerprint of the file that a class comes from, so that a changed method is run again."""
    try:
        file = inspect.getfile(kind)
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:20]
    except (TypeError, OSError):
        return ""


# -- who a label is ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """Who a label of an experiment is.

    label   in the experiment
    kind    its class; None where it is not known
    model   the name of the model that it fits; empty where that is not known
    safe    whether its ranker is kept near production
    """

    label: str
    kind: Any = None
    model: str = ""
    safe: bool = False

    @property
    def name(self) -> str:
        """The name of the method; empty for a class that has none."""
        return getattr(self.kind, "name", "")

    @property
    def fits_trees(self) -> bool:
        """Whether it fits boosted trees, its own or those of another package."""
        return self.model == Peer.fits

    @property
    def sees_labels(self) -> bool:
        """Whether it learns from labels, so that it cannot be a rival of those that learn from clicks."""
        return bool(getattr(self.kind, "needs", "clicks") == "labels")

    @property
    def order(self) -> tuple[bool, bool, int, str]:
        """Where it stands in lists: trees after other models, what sees the labels at the end."""
        own: int = getattr(self.kind, "order", Method.order)
        return self.sees_labels, self.fits_trees, own, self.label.casefold()


def identify(label: str, configuration: Mapping[str, Any] | None = None) -> Identity:
    """Who a label is, by the configuration of one of its units; without one, the label says it.

    >>> sorted(["Oracle", "CLD-pair", "mine", "Naive"], key=lambda label: identify(label).order)
    ['Naive', 'CLD-pair', 'mine', 'Oracle']
    >>> identify("Mine", {"method": {"class": "cld-pair", "parameters": {"model": "linear"}}}).model
    'linear'
    """
    described = (configuration or {}).get("method", {})
    home = str(described.get("class", label))
    kind = find(home)
    if kind is None and ":" in home:
        with suppress(CldrankError):  # a class of somebody else's, perhaps not here
            kind = _class(home)
    kind = kind or find(label)
    if kind is None:
        return Identity(label)
    usual = default_model(kind).name if issubclass(kind, Method) else getattr(kind, "fits", "")
    parameters = described.get("parameters", {})
    return Identity(label, kind, str(parameters.get("model") or usual), parameters.get("safe") is True)
