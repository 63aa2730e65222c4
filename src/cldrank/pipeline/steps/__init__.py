"""The steps of a pipeline, one per file, in the order in which they run."""

from cldrank.pipeline.step import Step
from cldrank.pipeline.steps.aggregating import AggregateStep
from cldrank.pipeline.steps.auditing import AuditStep, WindowAuditStep
from cldrank.pipeline.steps.counting_days import DaysStep
from cldrank.pipeline.steps.documenting import CardStep
from cldrank.pipeline.steps.estimating_curve import PropensityStep
from cldrank.pipeline.steps.exporting import ExportStep
from cldrank.pipeline.steps.importing_log import ImportStep
from cldrank.pipeline.steps.training import TrainStep
from cldrank.pipeline.steps.verdict import VerdictStep

STEPS: tuple[Step, ...] = (
    ImportStep(),
    AuditStep(),
    DaysStep(),
    AggregateStep(),
    WindowAuditStep(),
    PropensityStep(),
    TrainStep(),
    VerdictStep(),
    ExportStep(),
    CardStep(),
)

__all__ = ["STEPS"]
