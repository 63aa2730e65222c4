"""Replays: what each engine computes from the files that it is given, after its documentation and its source.

A replay reads files and nothing else: it shares no code with what writes them (import-linter keeps it so), and computes
in the engine's own precision.
"""
