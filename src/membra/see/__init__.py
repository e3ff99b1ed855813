"""Segmentation: from a photograph to the pieces on it, their ink, orientation and glyphs."""
