"""Estimators that model relevance, or trust in positions, where comparing positions alone does not suffice."""
