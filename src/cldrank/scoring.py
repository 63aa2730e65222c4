"""`score`: the scores of a ranker for a file of candidates, however large."""
