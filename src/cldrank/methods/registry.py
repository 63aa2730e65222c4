"""All methods, found by their files, and how flat settings become a method with its model and run."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from cldrank.decoding import guess
from cldrank.errors import UsageError
from cldrank.methods.method import Method
from cldrank.models import Model, Run, models
from cldrank.parameters import Parameter, parameters
from cldrank.wording import listed


@cache
def methods() -> Mapping[str, type[Method]]:
    """All methods by name, in the order that their classes say.

    A method is a class with a `name` in a file of this room; nothing else has to know of it.

    >>> list(methods())[:2], methods()["ips"].label
    (['naive', 'ips'], 'IPS')
    """
    import cldrank.methods as room

    known = {}
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        for kind in vars(import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, Method) and "name" in vars(kind):
                known[kind.name] = kind
    return dict(sorted(known.items(), key=lambda item: (item[1].order, item[0])))


def method_named(name: str) -> type[Method]:
    """The method with this name; an unknown name is refused, with the nearest known name.

    >>> method_named("cld-pair")()
    CLDPair()
    """
    known = methods()
    if name not in known:
        meant = guess(name.lower().replace("_", "-"), known)
        raise UsageError(f"there is no method {name!r}.{meant} The methods are {listed(known)}.")
    return known[name]


def usable_models(kind: type[Method]) -> dict[str, type[Model]]:
    """The models by name that a method can be fitted with, its default first.

    >>> list(usable_models(method_named("cld-pair"))), list(usable_models(method_named("heckman")))
    (['mlp', 'linear', 'trees'], ['linear'])
    """
    usual = default_model(kind)
    named = {name: model for name, model in models().items() if kind.takes(model)}
    return dict(sorted(named.items(), key=lambda item: not isinstance(usual, item[1])))


def default_model(kind: type[Method]) -> Model:
    """The model that a method is fitted with by default."""
    model: Model = parameters(kind)["model"].default
    return model


def settings_of(kind: type[Method], model: type[Model]) -> dict[str, Parameter]:
    """All parameters of a method with a model, by flat names: `gamma`, `epochs`, `seed`.

    >>> names = settings_of(method_named("cld"), models()["linear"])
    >>> [name in names for name in ("gamma", "l2", "seed", "epochs")]
    [True, True, True, False]
    """
    own = {name: known for name, known in parameters(kind).items() if name not in ("model", "run")}
    return {**own, **parameters(model), **parameters(Run)}


def configured(kind: type[Method], settings: Mapping[str, Any]) -> Method:
    """A method from flat settings, as the command line and experiment files give them.

    `model` is the name of a model; every other name belongs to the method, the model or the run.

    >>> configured(method_named("ips"), {"model": "mlp", "epochs": 3, "clip": 0.1, "seed": 7})
    IPS(clip=0.1, model=MLP(epochs=3), run=Run(seed=7))
    """
    rest = dict(settings)
    model = _model(kind, rest.pop("model", None))
    owners: dict[str, dict[str, Any]] = {"method": {}, "model": {}, "run": {}}
    for name, value in rest.items():
        owners[_owner(kind, model, name)][name] = value
    made = type(model)(**{**model.get_params(), **owners["model"]})
    return kind(model=made, run=Run(**owners["run"]), **owners["method"])


def _model(kind: type[Method], name: Any) -> Model:
    """The model of a name, or the method's default."""
    if name is None or isinstance(name, Model):
        return name or default_model(kind)
    usable = usable_models(kind)
    if not isinstance(name, str) or name not in usable:
        able = [
            other.name for other in methods().values() if other.needs == kind.needs and name in usable_models(other)
        ]
        near = difflib.get_close_matches(kind.name, able, n=3, cutoff=0)
        others = f"; for {name}, choose the method {listed(near, 'or')}" if near else ""
        raise UsageError(f"{kind.label} can be fitted with {listed(usable, 'or')}, not with {name!r}{others}.")
    return usable[name]()


def _owner(kind: type[Method], model: Model, name: str) -> str:
    for owner, declared in (("method", kind), ("model", type(model)), ("run", Run)):
        if name in parameters(declared) and name not in ("model", "run"):
            return owner
    others = [other for other, usable in usable_models(kind).items() if name in parameters(usable)]
    if others:
        raise UsageError(f"`{name}` is not for {model.label}; choose `model={others[0]!r}`.")
    known = settings_of(kind, type(model))
    raise UsageError(f"{kind.label} has no parameter {name}.{guess(name, known) or f' It has {listed(known)}.'}")
