"""Builders of seeded random tiny checkpoints on disk (ENG-017), for tests and for trying things on a laptop.

The weights are random, tokenizer, template and layout are real ones. The same seed gives the same bytes.
"""
