"""`prepare`: turn what a publisher offers into the files that cldrank reads."""

from cldrank.data.prepare.preparing import PreparedSet, prepare

__all__ = ["PreparedSet", "prepare"]
