"""Guesses at what the model will write: drafters, their trees, and what a round of them is expected to pay."""
