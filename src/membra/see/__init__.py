"""From a photograph to glyphs: the record, the parchment, the ink, the letters."""
