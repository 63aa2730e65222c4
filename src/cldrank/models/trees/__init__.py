"""Boosted trees on XGBoost."""
