"""Impression logs: from the files that a path names to a plain table of displayed results.

layout        `LogLayout`: all that a user says about how a log is to be read; which column holds what
casts         fields inside of columns, by their path, and SQL that reads them as ids, whole numbers and instants
plain_log     `open_log`: the plain table, with a reason for each row that must be set aside
log_files     `LogFile`: files that were counted, known by their content
"""
