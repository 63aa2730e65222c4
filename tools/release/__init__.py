"""What `tools/release_check.py` checks before a release, one file for each concern."""
