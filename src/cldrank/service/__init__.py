"""The service: a ranker behind HTTP."""
