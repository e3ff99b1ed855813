"""From a collection to rankings: what is on disk, and how it is searched."""
