"""What an answer may be, as masks over a vocabulary: constraints, their compiled languages, and the masks of a row."""
