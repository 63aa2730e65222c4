"""`Method`: what is learned from. Each method is a class that says what it needs and how clicks become targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, ConvergenceWarning, NotFittedError, UsageError, hearing_warnings, warn
from cldrank.feature_blocks import RemoteFeatures
from cldrank.methods.evidence import Evidence, collect
from cldrank.methods.needs import Needs
from cldrank.methods.rating_quality import RATED_TARGETS
from cldrank.methods.recording import clicks_record, curve_records, method_record
from cldrank.models import Epoch, Linear, Model, Run, models
from cldrank.models.fit import Context, Fit
from cldrank.models.targets import Targets
from cldrank.parameters import Learner, Value, check_all, described, learned, parameter, parameters
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.curve_checks import EnvelopeUse
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers import Provenance, Ranker
from cldrank.spark import SparkDataset
from cldrank.wording import listed

Bias = Literal["position", "trust", "selection"]


@described
class Method(Learner, ABC):
    """A way to learn a ranker. What help texts, reports and experiment files say about it is declared on its class:

    name        on the command line and in experiment files
    label       in reports
    sentence    what it does, as the end of a sentence that starts with its label
    order       where it stands in lists: as in the paper, from the least corrected to the labels themselves
    needs       "labels"; "clicks"; clicks and "propensities"; or clicks and "trust": slopes and bases, or propensities
    corrects    the biases of clicks that it corrects
    learns      what it learns, in words
    way         the way to fit that a model must know, such as `fit_targets`; see `Model.heeds`
    blends      whether its ranker can be part of a weighted sum of rankers

    Methods keep scikit-learn's conventions: `clone`, `get_params` and `set_params` work, and results of a fit end in an
    underscore.

    >>> from cldrank.methods import IPS
    >>> method = IPS(clip=0.1).set_params(model__l2=0.01)
    >>> method, method.get_params()["model__l2"]
    (IPS(clip=0.1, model=Linear(l2=0.01)), 0.01)
    """

    name: ClassVar[str]
    label: ClassVar[str]
    sentence: ClassVar[str]
    order: ClassVar[int] = 60
    needs: ClassVar[Needs] = "propensities"
    corrects: ClassVar[tuple[Bias, ...]] = ()
    learns: ClassVar[str] = "clicks over propensity"
    way: ClassVar[str] = "fit_targets"
    blends: ClassVar[bool] = True

    model: Model = parameter(default=Linear(), about="what is fitted", option=False)
    run: Run = parameter(default=Run(), about="where and how it is fitted", option=False)

    ranker_: Ranker = learned(about="the `Ranker`, which scores, explains, and can be saved")
    fit_: Fit = learned(about="all that is known about the fit")
    feature_names_in_: NDArray[np.object_] = learned(about="the features, by name")
    n_features_in_: int = learned(about="how many there are")
    status_: str = learned(
        about="how it ended: 'converged' (linear) or 'completed' (networks, trees); else what went wrong"
    )
    n_iter_: int = learned(about="how many steps, epochs or rounds it took")
    coef_: NDArray[np.float64] = learned(about="linear: one coefficient per feature, as it was scaled")
    intercept_: float = learned(about="linear: the intercept of the score")
    log_likelihood_: float = learned(about="the log-likelihood that was maximised, without the penalty")
    n_rows_: int = learned(about="linear: how many rows were learned from")
    weight_: float = learned(about="linear: the sum of their weights")
    constant_features_: tuple[str, ...] = learned(
        about="linear: features without any variation, whose coefficient is 0"
    )
    propensities_: Propensities = learned(about="the propensities used, clipped and raised as the method says")
    segment_propensities_: SegmentPropensities = learned(about="the same by segment, where the clicks have segments")
    affine_: AffineClicks = learned(about="the slopes and bases used, where the method takes them")
    history_: tuple[Epoch, ...] = learned(about="networks and trees: an `Epoch` per epoch or round")
    best_epoch_: int = learned(about="networks and trees: the epoch whose weights were kept")
    n_queries_: int = learned(about="networks and trees: how many queries were learned from")
    n_held_: int = learned(about="networks and trees: how many more were held out to stop in time")

    def __new__(cls, **given: Any) -> Self:
        """Refuse what is not a parameter, and say whose it is."""
        for name in given:
            if name not in parameters(cls):
                homes = {"model": type(parameters(cls)["model"].default), "run": Run}
                own = [f"{home}={kind.__name__}({name}=…)" for home, kind in homes.items() if name in parameters(kind)]
                hint = f"; write {cls.__name__}({own[0]})" if own else f"; it has {listed(parameters(cls))}"
                raise UsageError(f"{cls.__name__} has no parameter {name}{hint}.")
        made: Self = super().__new__(cls)
        return made

    def fit(
        self,
        dataset: RankingDataset | SparkDataset,
        clicks: ClickTable | None = None,
        propensities: Curve | None = None,
    ) -> Self:
        """Learn from a dataset, the clicks on it, and the propensities of the positions, as far as `needs` says.

        Clicks of several segments, such as devices, are learned from together, each by the curve of its own. Ratings of
        clicks that are `rated` are priors of the targets "posterior" and "mixed", and never features. A method
        that learns from labels refuses clicks; a method that does not use propensities warns, and ignores them.
        """
        self.check()
        with hearing_warnings() as heard:
            self.fit_evidence(self._collected(dataset, clicks, propensities))
            known = self.fit_.diagnostics
            if known.is_chance and not any(isinstance(warning, ConvergenceWarning) for warning in heard):
                warn(
                    CldrankWarning(
                        f"{self.label} with {self.model.label} ranks the {known.held_queries:,} queries held out no "
                        f"better than chance: its concordance with {known.held_target} there is "
                        f"{known.concordance:.4f}, and 0.5 is chance. Measure it on labels (evaluate) before you use "
                        "it; more data, or other settings, may help."
                    )
                )
        self._describe(diagnostics=known.replaced(warnings=tuple(dict.fromkeys(map(str, heard)))))
        return self

    def _collected(self, dataset: Any, clicks: Any, propensities: Any) -> Evidence:
        """What `fit` was given, checked."""
        return collect(self.label, self.needs, dataset, clicks, propensities)

    def check(self) -> None:
        """Refuse parameters that are wrong or have no effect here, and a model that is not installed."""
        self._check_model()
        check_all(self)
        if not self.takes(type(self.model)):
            raise UsageError(f"{self.label} cannot be fitted with {self.model!r}; choose another model.")
        for name in self.unheeded(type(self.model)):
            owner: Any = next(part for part in (self, self.model, self.run) if name in parameters(type(part)))
            if getattr(owner, name) != parameters(type(owner))[name].default:
                raise UsageError(f"{self.label} has no use for `{name}`, as it fits {self.model.label}.")
        self.model.check_installed(filter(self.takes, models().values()))

    @classmethod
    def takes(cls, model: type[Model]) -> bool:
        """Whether the method can be fitted with a kind of model."""
        return cls.way in model.heeds

    @classmethod
    def unheeded(cls, model: type[Model]) -> tuple[str, ...]:
        """The parameters of method, model and run that have no effect with a kind of model, and so are not offered.

        >>> from cldrank.methods import CLD
        >>> CLD.unheeded(Linear)
        ('unshown_ratio', 'resident', 'checkpoint', 'resume', 'on_epoch')
        """
        own = [name for name, known in parameters(cls).items() if known.models and model.family not in known.models]
        roles = model.heeds[cls.way]
        declared = {**parameters(model), **parameters(Run)}
        return (*own, *(name for name, known in declared.items() if known.role and known.role not in roles))

    def _check_model(self) -> None:
        """Refuse what is not a model, and say how to write a model."""
        given: Any = self.model
        if not isinstance(given, Model):
            kind = models().get(given) if isinstance(given, str) else given
            hint = f"; write model={kind.__name__}()" if isinstance(kind, type) and issubclass(kind, Model) else ""
            raise UsageError(
                f"`model` must be a model such as Linear(), MLP() or Trees(), not {shortened(given)}{hint}."
            )

    def fit_evidence(self, evidence: Evidence) -> Self:
        """Learn from evidence that has been checked already."""
        features: Any = evidence.data.features
        if isinstance(features, RemoteFeatures) and self.way not in self.model.remote_ways:
            raise UsageError(
                f"{self.label} with {self.model.label} cannot learn from features on Spark; linear models can, "
                "but for CLD-pair."
            )
        if not self.model.takes_missing:
            others = any(kind.takes_missing for kind in filter(self.takes, models().values()))
            evidence.data.check_complete(f"{self.label} with {self.model.label}", trees=others)
        has_ratings = evidence.clicks is not None and evidence.clicks.ratings is not None
        if has_ratings and getattr(self, "target", None) not in RATED_TARGETS:
            targets = listed(RATED_TARGETS, "and")
            warn(CldrankWarning(f"{self.label}, as it is set, has no use for ratings; the targets {targets} have."))
        self._keep(self._learn(evidence), evidence.propensities)
        self.ranker_ = self.ranker_.with_queries(evidence.learned_queries).with_ranges(features)
        used = evidence.propensities
        self._describe(
            clicks=None if evidence.clicks is None else clicks_record(evidence.clicks),
            propensities={} if used is None else curve_records(used),
            diagnostics=self.fit_.diagnostics,
        )
        return self

    @abstractmethod
    def _learn(self, evidence: Evidence) -> Fit:
        """Fit the model to what the method makes of the evidence."""

    @property
    def required(self) -> Needs:
        """What it needs with its current parameters; a subclass may let it depend on them."""
        return self.needs

    @property
    def uses_device(self) -> bool:
        """Whether `run.device` has any effect."""
        return "device" not in self.unheeded(type(self.model))

    def predict(self, X: Any) -> Any:
        """The score of each row by the learned ranker: an array or, for a frame, a column of its library."""
        self._check_fitted()
        return self.ranker_.predict(X)

    def summary(self) -> str:
        """The fit to read: the method, what it was given, and the facts of its fit."""
        self._check_fitted()
        return self.fit_.summary(self._about())

    @property
    def package(self) -> str | None:
        """The package that a fit imports beyond cldrank's own."""
        return None if self.model.needs is None else self.model.needs[0]

    def set_params(self, **given: Any) -> Self:
        """Set parameters, also those of the model and the run: `set_params(model__epochs=20, run__seed=1)`."""
        inner: dict[str, dict[str, Any]] = {"model": {}, "run": {}}
        for name in sorted(given, key=lambda name: "__" in name):  # the model first, then its parameters
            owner, _, own = name.rpartition("__")
            if name in self.get_params(deep=False):
                setattr(self, name, given[name])
            elif (
                owner in inner
                and isinstance(getattr(self, owner), Value)
                and own in parameters(type(getattr(self, owner)))
            ):
                inner[owner][own] = given[name]
            else:
                self._check_model()
                homes = [home for home in inner if name in parameters(type(getattr(self, home)))]
                where = f"; it belongs to the {homes[0]}: {homes[0]}__{name}" if homes else ""
                raise UsageError(f"{type(self).__name__} has no parameter {name}{where}.")
        for owner, values in inner.items():  # all at once: a value is checked as a whole
            setattr(self, owner, replace(getattr(self, owner), **values))
        return self

    def _about(self) -> dict[str, str]:
        """What the summary says about the method, beside its fit."""
        names = ("affine_", "propensities_", "segment_propensities_")
        used = [repr(getattr(self, name)) for name in names if hasattr(self, name)]
        return {"method": repr(self), **({"propensities": used[0]} if used else {})}

    def _context(self, data: RankingDataset) -> Context:
        return Context(data, self.run, self.label, self.learns, self._provenance(data))

    def _provenance(self, data: RankingDataset) -> Provenance:
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in ("model", "run")}
        values = {f"model__{name}": value for name, value in self.model.get_params().items()}
        decides = {entry.name for entry in fields(Run) if entry.compare and entry.name != "device"}
        values |= {f"run__{name}": value for name, value in self.run.get_params().items() if name in decides}
        given = {**own, "model": type(self.model).__name__, **values}
        provenance = Provenance.of(type(self).__name__, given, data, method=method_record(self))
        provenance.as_dict()  # refuses what could not be saved, before the fit rather than after it
        return provenance

    def _describe(self, **known: Any) -> None:
        """Let the ranker remember more of where it comes from."""
        ranker = self.ranker_.with_provenance(self.ranker_.provenance.replaced(**known))
        self.ranker_, self.fit_ = ranker, replace(self.fit_, ranker=ranker)

    def _check_fitted(self) -> None:
        if not hasattr(self, "ranker_"):
            raise NotFittedError(f"this {type(self).__name__} has not learned anything yet; call fit first.")

    def _keep(self, fit: Fit, used: Curve | None) -> None:
        """Take over what was learned, and forget what an earlier fit left."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.fit_, self.ranker_ = fit, fit.ranker
        self.status_, self.n_iter_ = fit.diagnostics.status, fit.diagnostics.steps
        for name, value in fit.learned.items():
            setattr(self, f"{name}_", value)
        if used is not None:
            names = {Propensities: "propensities_", AffineClicks: "affine_"}
            setattr(self, names.get(type(used), "segment_propensities_"), used)
        self.feature_names_in_ = np.array(self.ranker_.feature_names, dtype=object)
        self.n_features_in_ = len(self.ranker_.feature_names)


class TargetMethod(Method):
    """A method that only makes targets, to which any model can be fitted."""

    def _learn(self, evidence: Evidence) -> Fit:
        return self.model.fit_targets(self.targets(evidence), self._context(evidence.data))

    @abstractmethod
    def targets(self, evidence: Evidence) -> Targets:
        """The rows to learn from."""


@described
class CorrectedMethod(Method):
    """A method that divides clicks by propensities, which it clips and holds to the clicks."""

    clip: float | None = parameter(
        default=None, about="the least propensity; smaller ones are raised to it", above=0, most=1
    )
    envelope: EnvelopeUse = parameter(
        default="raise", about="an assumed curve below the bound that the clicks prove: raise it, warn only, or off"
    )

    def _collected(self, dataset: Any, clicks: Any, propensities: Any) -> Evidence:
        return collect(self.label, self.needs, dataset, clicks, propensities, clip=self.clip, envelope=self.envelope)
