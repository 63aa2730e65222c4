"""What all linear methods share: rows from clicks, features in blocks, the objective over them, and inference."""
