"""The methods that can take part: cldrank's own, and any class with `fit` and `predict`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cldrank.arguments import shortened
from cldrank.decoding import guess
from cldrank.errors import CldrankError, UsageError
from cldrank.fingerprints import file_fingerprint
from cldrank.methods import Method, methods
from cldrank.methods.needs import Needs
from cldrank.methods.registry import configured
from cldrank.reading import reason


def find(use: str) -> type[Method] | None:
    """The method of a name or a label, whatever its case; None where there is none.

    >>> find("Heckman^rank"), find("cld-pair")
    (<class 'cldrank.methods.heckman.HeckmanRank'>, <class 'cldrank.methods.cld_pair.CLDPair'>)
    """
    named = {spelled.casefold(): kind for kind in methods().values() for spelled in (kind.label, kind.name)}
    return named.get(use.casefold())


def check_use(use: str, place: str) -> None:
    """Refuse a name that is neither a method's nor `module:Class`; nothing of the user's is imported."""
    module, _, name = use.partition(":")
    is_class = name.isidentifier() and all(re.fullmatch(r"[^\s\0/\\]+", part) for part in module.split("."))
    if find(use) is None and not is_class:
        names = list(methods())
        raise UsageError(
            f"{place}: there is no method {shortened(use)}.{guess(use, names)} The methods are {', '.join(names)}; a "
            'class of your own is named use = "module:Class".'
        )


@dataclass(frozen=True)
class Maker:
    """How to make a method: its name (or `module:Class`) and flat settings, as plain as JSON.

    needs      what its fit reads; changes of anything else do not make a new unit
    seeded     whether it takes a seed, and the file does not set it
    source     a fingerprint of the file that defines a class from outside this package
    """

    home: str
    parameters: Mapping[str, Any]
    needs: Needs
    seeded: bool
    source: str

    def chosen(self, seed: int) -> dict[str, Any]:
        """The parameters, with the seed where the file does not set it."""
        return {**self.parameters, **({"seed": seed} if self.seeded else {})}

    def describe(self, seed: int) -> dict[str, Any]:
        """All that says what would be made, ready for JSON.

        Not the device: as with the number of threads, results differ by rounding alone.
        """
        chosen = {key: value for key, value in self.chosen(seed).items() if key != "device"}
        return {"class": self.home, "parameters": chosen, "source": self.source}


def maker(use: str, parameters: Mapping[str, Any], place: str, device: str | None = None) -> Maker:
    """How to make the method of a name or of `module:Class`; parameters that it does not have are refused.

    A class of the user's may say in `required` what its fit needs, as methods do.

    >>> maker("cld", {"gamma": 0.2}, "methods.CLD").chosen(seed=3)
    {'gamma': 0.2, 'seed': 3}
    """
    try:
        method = make_method(use, parameters)
        if isinstance(method, Method):
            method.check()
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    takes = set(inspect.signature(type(method)).parameters)
    if isinstance(method, Method):
        takes = {"seed", *(["device"] if method.uses_device else [])}
    own = find(use)
    home, source = (use, _source(type(method))) if own is None else (own.name, "")
    settings = {**({"device": device} if device is not None and "device" in takes else {}), **parameters}
    seeded = "seed" in takes and "seed" not in settings
    return Maker(home, settings, getattr(method, "required", "propensities"), seeded, source)


def make_method(home: str, parameters: Mapping[str, Any]) -> Any:
    """The method of a name or of `module:Class`, not yet fitted."""
    kind = find(home) or _class(home)
    if issubclass(kind, Method):
        return configured(kind, dict(parameters))
    try:
        return kind(**parameters)
    except CldrankError:
        raise
    except Exception as error:  # whatever a class of the user's own does
        why = f"{type(error).__name__}: {reason(error)}"
        raise UsageError(f"{home} cannot be made with {shortened(parameters)} ({why}).") from error


def import_what_is_needed(method: Any) -> None:
    """Import the package that a method would import in its first fit."""
    if not isinstance(method, Method) or method.package is None:
        return
    package = import_module(method.package)
    if method.package == "torch":
        package.optim.Adam([package.zeros(1, requires_grad=True)])  # the first optimiser imports much more


def _class(home: str) -> Any:
    """The class that `module:Class` names; modules are looked up in this folder and where Python finds packages."""
    module, _, name = home.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # an installed command does not look in the folder it is called from
    try:
        kind = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise UsageError(f"{home}: there is no module {error.name!r} here or where Python finds packages.") from None
    except (Exception, SystemExit) as error:  # whatever a module of the user's own does
        raise CldrankError(f"{home} cannot be imported ({type(error).__name__}: {reason(error)}).") from error
    if not isinstance(kind, type) or not all(callable(getattr(kind, method, None)) for method in ("fit", "predict")):
        raise UsageError(f"{home} cannot take part: it is not a class with fit and predict.")
    return kind


def _source(kind: Any) -> str:
    """A fingerprint of the file that a class comes from, so that a changed method is run again."""
    try:
        return file_fingerprint(inspect.getfile(kind))[:20]
    except (TypeError, CldrankError):
        return ""


# -- the order of labels ----------------------------------------------------------------------------------------------


def sees_labels(configuration: Mapping[str, Any]) -> bool:
    """Whether the method of a unit learns from labels; then it does not compete with those that learn from clicks."""
    kind = find(str(configuration.get("method", {}).get("class", "")))
    return kind is not None and kind.needs == "labels"


def method_order(label: str, configuration: Mapping[str, Any]) -> tuple[bool, bool, int, str]:
    """Where a label stands in lists: trees after other models, what sees labels at the end.

    >>> order = {label: method_order(label, {"method": {"class": label}}) for label in ("oracle", "cld", "naive")}
    >>> sorted(order, key=order.get)
    ['naive', 'cld', 'oracle']
    """
    described = configuration.get("method", {})
    kind = find(str(described.get("class", ""))) or Method
    is_tree = described.get("parameters", {}).get("model") == "trees"
    return sees_labels(configuration), is_tree, kind.order, label.casefold()
