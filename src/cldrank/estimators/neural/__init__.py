"""What all neural methods share: lists from clicks or labels, the training, and the ranker that a network becomes."""
