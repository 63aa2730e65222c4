"""Every day, one command: from a click log to a shipped ranker, each step only if something has changed."""

from cldrank.pipeline.pipeline_file import PipelineDefinition, read_pipeline
from cldrank.pipeline.running import RunRecord, run_pipeline
from cldrank.runs import TaskRecord

__all__ = ["PipelineDefinition", "RunRecord", "TaskRecord", "read_pipeline", "run_pipeline"]
