"""Linear models: features in blocks, the objectives over them, and inference."""
