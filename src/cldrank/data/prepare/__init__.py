"""`prepare`: turn what a publisher offers into the files that cldrank reads."""

from cldrank.data.prepare.preparing import Prepared, prepare

__all__ = ["Prepared", "prepare"]
