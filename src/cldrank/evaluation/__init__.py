"""`evaluate` one ranker, `compare` two: by the labels of a dataset, or by clicks alone."""

from cldrank.evaluation.by_labels import DEFAULT_MEASURES as DEFAULT_MEASURES
from cldrank.evaluation.by_labels import Evaluation, RankerComparison
from cldrank.evaluation.by_labels import Measures as Measures
from cldrank.evaluation.by_labels import data_label as data_label
from cldrank.evaluation.by_labels import scores_of as scores_of
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation
from cldrank.evaluation.judge import ClickJudge as ClickJudge
from cldrank.evaluation.judge import compare, evaluate
from cldrank.evaluation.several import SeveralComparisons

__all__ = [
    "ClickComparison", "ClickEvaluation", "Evaluation", "RankerComparison", "SeveralComparisons", "compare",
    "evaluate",
]  # fmt: skip
