"""Work that is done once: tasks known by the content of all that decides their results, a store, and processes."""

from cldrank.runs.processes import Finished, Processes
from cldrank.runs.tasks import Outcome, Store, Task, TaskRecord

__all__ = ["Finished", "Outcome", "Processes", "Store", "Task", "TaskRecord"]
