"""Experiments: simulate × estimate × seed → a table of results that survives whatever stops the run."""
