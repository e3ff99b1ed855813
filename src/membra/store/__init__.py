"""Descriptions on disk: the collection, its one writer, its readers, verdicts, and the check of all of it."""
