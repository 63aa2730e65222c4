"""Off-policy estimators: the relevance that clicks on the pages of one policy show, by which other orders are judged.

Measures are sums of relevance over ranks, so unbiased estimates for candidates give unbiased estimates for orders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.errors import UsageError
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.propensity import AffineClicks
from cldrank.wording import listed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OffPolicy(ABC):
    """An estimator of relevance from a log.

    name           as options spell it
    label          in reports
    uses_model     whether never-shown candidates count as a model predicts; otherwise as 0
    """

    name: ClassVar[str]
    label: ClassVar[str]
    uses_model: ClassVar[bool] = False

    @abstractmethod
    def relevance(self, log: LoggedClicks, model: Floats | None) -> Floats:
        """(rows,) how relevant each candidate seems; `model` predicts the same, for estimators that use it."""


@dataclass(frozen=True)
class InversePropensity(OffPolicy):
    """Every click counts 1 / the propensity of its position (Joachims, Swaminathan and Schnabel 2017).

        r_i = Σ_k c_ik / ρ_k / n_i

    >>> from cldrank.evaluation.exposure import example_log
    >>> InversePropensity().relevance(example_log(), None)
    array([0.2, 0.4, 0. ])
    """

    name = "ips"
    label = "IPS"

    def relevance(self, log: LoggedClicks, model: Floats | None) -> Floats:
        """(rows,) of candidates never shown, 0."""
        del model
        if isinstance(log.curve, AffineClicks):
            raise UsageError("IPS knows of no trust in positions; the estimators affine and doubly-robust do.")
        rho, _ = log.by_cell
        each = np.divide(log.clicks.clicks, rho, out=np.zeros(len(rho)), where=rho > 0)
        relevance: Floats = log.by_row(each) / np.maximum(log.clicks.row_impressions, 1)
        return relevance


@dataclass(frozen=True)
class Affine(OffPolicy):
    """Clicks over how often a candidate was examined at all, less those that positions bring anyway.

        r_i = (Σ_k c_ik - n_ik base_k) / Σ_k n_ik slope_k

    With propensities, which have no base, it is policy-aware IPS (Oosterhuis and de Rijke 2020), and with trust in
    positions affine IPS (Vardasbi, Oosterhuis and de Rijke 2020). With known display probabilities, their mean stands
    in place of n_ik below the line.
    """

    name = "affine"
    label = "affine IPS"

    def relevance(self, log: LoggedClicks, model: Floats | None) -> Floats:
        """(rows,) of candidates never shown, 0."""
        del model
        return _divided(log, log.excess_clicks)


@dataclass(frozen=True)
class DoublyRobust(OffPolicy):
    """The model's prediction, corrected by clicks where there are any (Oosterhuis 2023).

        r_i = m_i + (Σ_k c_ik - n_ik base_k - n_ik slope_k m_i) / Σ_k n_ik slope_k

    With known display probabilities, their mean stands in place of n_ik below the line: then, given the curve, it has
    no bias if either the display probabilities or the model are right. Without these, it is affine IPS for candidates
    that were shown, and the model for those that were not.
    """

    name = "doubly-robust"
    label = "doubly robust"
    uses_model = True

    def relevance(self, log: LoggedClicks, model: Floats | None) -> Floats:
        """(rows,) of candidates never shown, the prediction."""
        if model is None:
            raise UsageError(f"{self.label} needs a model of relevance, and there is none; use affine.")
        relevance: Floats = model + _divided(log, log.excess_clicks - log.exposure * model)
        return relevance


ESTIMATORS: dict[str, type[OffPolicy]] = {kind.name: kind for kind in (InversePropensity, Affine, DoublyRobust)}


def off_policy(estimator: str | OffPolicy) -> OffPolicy:
    """The estimator of a name.

    >>> off_policy("ips")
    InversePropensity()
    """
    if isinstance(estimator, OffPolicy):
        return estimator
    if not isinstance(estimator, str) or estimator not in ESTIMATORS:
        raise UsageError(f"there is no estimator {shortened(estimator)}; there are {listed(ESTIMATORS)}.")
    return ESTIMATORS[estimator]()


def _divided(log: LoggedClicks, clicks: Floats) -> Floats:
    """Clicks over expected exposure, and 0 where there is none."""
    below = log.expected_exposure
    relevance: Floats = np.divide(clicks, below, out=np.zeros(len(clicks)), where=log.seen & (below > 0))
    return relevance
