"""The methods that can take part: cldrank's own, trees of other packages, any class with `fit` and `predict`."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cldrank.arguments import as_json, shortened
from cldrank.errors import CldrankError, UsageError
from cldrank.estimators import Method, methods
from cldrank.estimators.registry import configured
from cldrank.experiment.peers import PEERS
from cldrank.reading import reason

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
    needs: str
    seeded: bool
    source: str
    pace: float = _PACE

    def describe(self, seed: int) -> dict[str, Any]:
        """All that says what would be made, ready for JSON: also the parameters that nobody chose.

        Not the device: as with the number of threads, results differ by rounding alone.
        """
        chosen = {key: value for key, value in self.chosen(seed).items() if key != "device"}
        model = _made(self.home, chosen)
        known = model.get_params() if hasattr(model, "get_params") else {}
        hidden = {*chosen, "run", "device", "checkpoint", "resume", "tensorboard", "on_epoch"}
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
    kind = find(use)
    home = use if kind is None else kind.name
    kind = _class(use) if kind is None else kind
    source = "" if kind.__module__.startswith("cldrank.") else _source(kind)
    if issubclass(kind, Method):
        try:
            method = configured(kind, parameters)
            method.check()
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
        given = dict(parameters)
        if device is not None and method.uses_device:
            given.setdefault("device", device)
        return Maker(home, given, _seen(method.required), "seed" not in given, source, method.model.pace)
    if kind in PEERS.values():
        kind.check_installed()
    taken = _parameters_of(kind, home)
    unknown = [name for name in parameters if taken is not None and name not in taken]
    if unknown:
        known = ", ".join(taken or ())
        raise UsageError(f"{place}.{unknown[0]}: {kind.__name__} has no such parameter; it has {known}.")
    own = taken or {}
    given = dict(parameters)
    if device is not None and "device" in own:
        given.setdefault("device", device)
    needs = kind(**given).required if kind in PEERS.values() else "propensities"
    return Maker(home, given, needs, "seed" in own and "seed" not in given, source)


def make_method(home: str, parameters: Mapping[str, Any]) -> Any:
    """The method, not yet fitted."""
    kind = find(home) or _class(home)
    return configured(kind, parameters) if issubclass(kind, Method) else kind(**parameters)


def describe(home: str) -> tuple[str, str] | None:
    """Label and sentence of a method by its name or class; None for a class that says nothing about itself."""
    try:
        kind = find(home) or _class(home)
    except CldrankError:
        return None
    return (kind.label, kind.sentence) if hasattr(kind, "sentence") else None


def import_what_is_needed(home: str, parameters: Mapping[str, Any]) -> None:
    """Import the package that a method with these parameters would import in its first fit."""
    method = make_method(home, parameters)
    needed = method.model.package(method.way) if isinstance(method, Method) else None
    if needed is not None:
        package = import_module(needed[0])
        if needed[0] == "torch":
            package.optim.Adam([package.zeros(1, requires_grad=True)])  # the first optimiser imports much more
    elif type(method) in PEERS.values():
        import_module(method.package)


def _seen(needs: str) -> str:
    return "propensities" if needs == "trust" else needs


def _made(home: str, parameters: Mapping[str, Any]) -> Any:
    try:
        return make_method(home, parameters)
    except CldrankError:
        raise
    except Exception as error:  # whatever a class of the user's own does
        why = f"{type(error).__name__}: {reason(error)}"
        raise UsageError(f"{home} cannot be made with {shortened(parameters)} ({why}).") from error


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
