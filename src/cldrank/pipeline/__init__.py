"""Every day, one command: from a click log to a shipped ranker, each step only if something has changed."""

from cldrank.pipeline.definition import PipelineDefinition, read_pipeline
from cldrank.pipeline.records import RunRecord, StepRecord
from cldrank.pipeline.running import run_pipeline

__all__ = ["PipelineDefinition", "RunRecord", "StepRecord", "read_pipeline", "run_pipeline"]
