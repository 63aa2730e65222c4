"""Oracle: learns from the true labels of all candidates: the ceiling for all methods that learn from clicks."""

from __future__ import annotations

import numpy as np

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import TargetMethod
from cldrank.models.targets import Targets
from cldrank.parameters import described


@described
class Oracle(TargetMethod):
    """Learns the labels of all candidates, each with weight 1.

    With a linear model `constant_features_` names the features without any variation, whose coefficient is 0. With a
    network: pairs of candidates in the order of their labels.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0, 1], [1, 1], [2, 1], [3, 1]], [1, 1, 2, 2], labels=[0, 1, 2, 3])
    >>> oracle = cr.Oracle(model=cr.Linear(l2=0)).fit(data)
    >>> oracle.predict(data).round(6)
    array([0., 1., 2., 3.])
    >>> oracle.constant_features_
    ('f2',)
    """

    name = "oracle"
    label = "Oracle"
    sentence = "learns from the labels themselves: a ceiling, not a method for clicks"
    order = 90
    needs = "labels"
    learns = "labels"

    def targets(self, evidence: Evidence) -> Targets:
        """The labels as they are."""
        target = np.asarray(evidence.data.labels, dtype=np.float64)
        rows = np.arange(len(target))
        targets = Targets(rows, target, np.ones_like(target), evidence.data.row_queries)
        return targets.weighted(evidence.data.query_weights)
