"""The relevance that clicks on the pages of one policy show, by which other orders are judged.

Measures are sums of relevance over ranks, so unbiased estimates for candidates give unbiased estimates for orders.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.exposure import LoggedClicks

Floats = NDArray[np.float64]


def off_policy_relevance(log: LoggedClicks, predicted: Floats | None = None) -> Floats:
    """(rows,) clicks over how often a candidate was examined, less what positions bring anyway and what was predicted.

        r_i = m_i + (Σ_k c_ik - n_ik base_k - n_ik slope_k m_i) / Σ_k n_ik slope_k

    With known display probabilities, their mean stands in place of n_ik below the line.

    With a model's predictions m it is doubly robust (Oosterhuis 2023): given the curve and display probabilities, it
    has no bias if either these or the model are right. Without display probabilities, candidates that were never shown
    count as predicted, and the prediction cancels for others.

    Without a model, m = 0, and so are candidates that were never shown: policy-aware IPS (Oosterhuis and de Rijke 2020)
    and, with trust in positions, affine IPS (Vardasbi, Oosterhuis and de Rijke 2020).

    >>> from cldrank.evaluation.exposure import example_log
    >>> off_policy_relevance(example_log()), off_policy_relevance(example_log(), np.full(3, 0.3))
    (array([0.2, 0.4, 0. ]), array([0.2, 0.4, 0.3]))
    """
    model = np.zeros(len(log.seen)) if predicted is None else predicted
    clicks, below = log.excess_value - log.exposure * model, log.expected_exposure
    relevance: Floats = model + np.divide(clicks, below, out=np.zeros(len(clicks)), where=log.seen & (below > 0))
    return relevance
