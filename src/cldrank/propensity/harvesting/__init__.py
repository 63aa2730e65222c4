"""Intervention harvesting: positions compared on candidates that several rankers put at different positions."""
