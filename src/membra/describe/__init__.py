"""Turns glyphs into a bag: the encoder, the per-fragment vocabulary, and the recipe that fixes every number."""
