"""`evaluate` one ranker, `compare` two: by the labels of a dataset, or by clicks alone."""

from cldrank.evaluation.by_clicks import ClickJudge
from cldrank.evaluation.by_labels import (
    DEFAULT_MEASURES,
    Evaluation,
    Measures,
    RankerComparison,
    data_label,
    scores_of,
)
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation
from cldrank.evaluation.judging import compare, evaluate

__all__ = [
    "DEFAULT_MEASURES",
    "ClickComparison",
    "ClickEvaluation",
    "ClickJudge",
    "Evaluation",
    "Measures",
    "RankerComparison",
    "compare",
    "data_label",
    "evaluate",
    "scores_of",
]
