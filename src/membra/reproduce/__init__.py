"""`membra reproduce`: every table and figure of the paper on one labelled collection."""
