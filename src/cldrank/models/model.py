"""`Model`: what is fitted, as a frozen value that owns its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from cldrank import scaling as scalings
from cldrank.errors import MissingDependencyError
from cldrank.models.fit import Context, Fit
from cldrank.parameters import Value, parameter, value

if TYPE_CHECKING:
    from cldrank.models.targets import Observations, Targets, Unshown

Scaling = Literal["standard", "minmax", "log"]
Heeded = Mapping[str, tuple[str, ...]]
LossForm = Literal["pairs", "top", "softmax"]


class _Late:
    """A method that is the function of its name in a module, which is imported when it is called."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type) -> Any:
        return self if model is None else partial(getattr(import_module(self._module), self._name), model)


def fitted_in(module: str) -> Callable[..., Fit]:
    """Declare a way to fit: the function of this name in a module of `cldrank.models`."""
    return cast("Callable[..., Fit]", _Late(f"cldrank.models.{module}"))


@value
class Model(Value):
    """What is fitted. A kind of model implements the ways to fit that it supports: to targets, or relevance and
    selection together, by points or by pairs.

    name     on the command line and in experiment files
    label    in sentences
    family   what kinds of model share, for parameters of methods that only some of them heed
    needs    the package that it needs beyond cldrank's own, and the extra that brings it
    heeds    the ways to fit that it knows, each with the roles of the parameters of model and run that have an effect;
             any other parameter with a role is refused unless it has its default
    takes_missing   whether features may be missing
    remote_ways     the ways to fit that work with features on Spark

    >>> from cldrank.models import Linear, Trees
    >>> Linear.takes_missing, Trees.takes_missing, isinstance(Linear(), Model)
    (False, True, True)
    """

    name: ClassVar[str]
    label: ClassVar[str]
    family: ClassVar[str] = ""
    needs: ClassVar[tuple[str, str] | None] = None
    heeds: ClassVar[Heeded] = {}
    takes_missing: ClassVar[bool] = False
    remote_ways: ClassVar[tuple[str, ...]] = ()

    def fit_targets(self, targets: Targets, context: Context) -> Fit:
        """Fit scores to targets: each row by itself, or pairs within a query in the order of their targets.

        rows:    minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
        pairs:   minimise  -Σ_{t_i > t_j} (t_i - t_j) min(w_i, w_j) log σ(f(x_i) - f(x_j))
        """
        raise NotImplementedError

    def fit_points(self, observed: Observations, context: Context, *, gamma: float, unshown_ratio: float = 1.0) -> Fit:
        """Fit relevance and selection together, row by row, with noises that correlate by γ: CLD.

        A network draws `unshown_ratio` unshown candidates for each pair of shown candidates.
        """
        raise NotImplementedError

    def fit_pairs(self, observed: Observations, context: Context, *, unshown: Unshown) -> Fit:
        """Fit by pairs of shown candidates, and of those with candidates that were not shown: CLD-pair."""
        raise NotImplementedError

    def fit_scores(self, targets: Targets, context: Context) -> Fit:
        """Fit scores to targets, row by row, by squared error."""
        raise NotImplementedError

    def progress(self) -> tuple[str, int] | None:
        """What `Run.on_epoch` is called after (epochs or rounds), and how often at most; None if never."""
        return None

    def check_installed(self, others: Iterable[type[Model]] = ()) -> None:
        """Refuse a model whose package is not installed; say what to install, or which other model to use."""
        if self.needs is None or find_spec(self.needs[0]) is not None:
            return
        able = [kind for kind in others if kind.needs is None or find_spec(kind.needs[0]) is not None]
        hint = f", or choose {able[-1].label}: `model={able[-1].name!r}`" if able else ""
        raise MissingDependencyError(
            f"{self.label} needs {self.needs[0]}: pip install 'cldrank[{self.needs[1]}]'{hint}."
        )


@value
class ScaledModel(Model):
    """A model that scales features, and is kept small by a penalty."""

    l2: float = parameter(
        default=1e-3, about="ridge penalty or weight decay", least=0, tried="1e-3:1e-2:log", role="penalty"
    )
    scaling: Scaling | scalings.ScalingRule | None = parameter(
        default="standard", about="how features are scaled; options follow a colon, as in standard:clip=none"
    )


def loss_choice() -> Any:
    """Declare the parameter `loss`."""
    return parameter(
        default="pairs",
        about="what is minimised: pairs alike, pairs by what an exchange does to DCG (top), or a softmax over lists",
        role="loss",
    )


def models() -> dict[str, type[Model]]:
    """All kinds of model by name.

    >>> list(models())
    ['linear', 'mlp', 'trees']
    """
    from cldrank.models import linear, network, trees  # noqa: F401 - a kind of model is known once its room is imported

    named: dict[str, type[Model]] = {}
    waiting: list[Any] = [Model]
    while waiting:
        kind = waiting.pop(0)
        waiting = kind.__subclasses__() + waiting
        if "name" in vars(kind):
            named[kind.name] = kind
    return named
