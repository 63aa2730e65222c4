"""`Model`: what is fitted, as a frozen value that owns its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cldrank import scaling as scalings
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.models.fit import Context, Fit
from cldrank.models.run import Run
from cldrank.parameters import Value, parameter, parameters, value

if TYPE_CHECKING:
    from cldrank.models.linear.stages import TwoStageProblem
    from cldrank.models.targets import PairSelection, PointSelection, Targets

Scaling = Literal["standard", "minmax", "log", "quantile"]


@value
class Model(Value):
    """What is fitted. A kind of model implements those of the four ways to fit that it can.

    name     on the command line and in experiment files
    label    in sentences
    needs    the package that it needs beyond cldrank's own, and the extra that brings it
    unused   by way to fit, the parameters of method, model and run that it has no use for; of the last two, any but the
             default is refused
    takes_missing   whether features may be missing
    remote_ways     the ways to fit that can do with features on a cluster
    why_cold        why it cannot start from an earlier ranker, as the end of a sentence

    >>> from cldrank.models import Linear, Trees
    >>> Linear.takes_missing, Trees.takes_missing, isinstance(Linear(), Model)
    (False, True, True)
    """

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[tuple[str, str] | None] = None
    unused: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    takes_missing: ClassVar[bool] = False
    remote_ways: ClassVar[tuple[str, ...]] = ()
    why_cold: ClassVar[str] = ""

    def fit_targets(self, targets: Targets, context: Context) -> Fit:
        """Fit scores to targets: each row by itself, or pairs of one query in the order of their targets."""
        del targets
        raise self._cannot(context)

    def fit_points(self, problem: PointSelection, context: Context) -> Fit:
        """Fit relevance and selection together, row by row: CLD."""
        del problem
        raise self._cannot(context)

    def fit_pairs(self, problem: PairSelection, context: Context) -> Fit:
        """Fit relevance and selection together, by pairs: CLD-pair."""
        del problem
        raise self._cannot(context)

    def fit_stages(self, problem: TwoStageProblem, context: Context) -> Fit:
        """Fit selection first, then relevance corrected for it: Heckman's two stages."""
        del problem
        raise self._cannot(context)

    def package(self, way: str) -> tuple[str, str] | None:
        """The package that a way to fit needs beyond cldrank's own, and the extra that brings it."""
        del way
        return self.needs

    def progress(self, way: str) -> tuple[str, int] | None:
        """What the steps that `Run.on_epoch` hears of are called, and how many there are at most; None for no steps."""
        del way
        return None

    def check_installed(self, way: str = "fit_targets", others: Iterable[type[Model]] = ()) -> None:
        """Refuse a model whose package is not installed; say what to install, or which of the others would do."""
        needed = self.package(way)
        if needed is None or find_spec(needed[0]) is not None:
            return
        hint = ""
        for kind in others:
            package = kind().package(way)
            if can(kind, way) and (package is None or find_spec(package[0]) is not None):
                hint = f", or choose {kind.label}: `model={kind.name!r}`"
        raise MissingDependencyError(f"{self.label} needs {needed[0]}: pip install 'cldrank[{needed[1]}]'{hint}.")

    def _cannot(self, context: Context) -> UsageError:
        return UsageError(f"{context.user} cannot be fitted with {self!r}; choose another `model`.")

    def refuse_unused(self, run: Run, user: str, names: Iterable[str]) -> None:
        """Refuse parameters of model and run that a fit has no use for, unless they have their defaults."""
        own = parameters(type(self))
        for name in names:
            owner, declared = (self, own) if name in own else (run, parameters(Run))
            if name in declared and getattr(owner, name) != declared[name].default:
                why = self.why_cold if name == "warm_start" else ""
                raise UsageError(f"{user} has no use for `{name}`, as it fits {self.label}{why}.")


@value
class ScaledModel(Model):
    """A model that scales features, and is kept small by a penalty."""

    l2: float = parameter(default=1e-3, about="ridge penalty or weight decay", least=0, tried="1e-3:1e-2:log")
    scaling: Scaling | scalings.ScalingRule | None = parameter(
        default="standard", about="how features are scaled; options follow a colon, as in standard:clip=none"
    )


def can(kind: type[Model], way: str) -> bool:
    """Whether a kind of model implements a way to fit.

    >>> from cldrank.models.linear.model import Linear
    >>> can(Linear, "fit_targets"), can(Model, "fit_targets")
    (True, False)
    """
    return getattr(kind, way) is not getattr(Model, way)


def models() -> dict[str, type[Model]]:
    """All kinds of model by name.

    >>> list(models())
    ['linear', 'mlp', 'trees']
    """
    from cldrank.models import linear, network, trees  # noqa: F401 - a kind of model is known once its room is imported

    found: dict[str, type[Model]] = {}
    waiting: list[Any] = [Model]
    while waiting:
        kind = waiting.pop(0)
        waiting = kind.__subclasses__() + waiting
        if "name" in vars(kind):
            found[kind.name] = kind
    return found
