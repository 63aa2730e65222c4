"""What is fitted: linear models and networks, each a frozen value that owns its parameters."""
