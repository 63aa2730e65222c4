"""Small experiments."""
