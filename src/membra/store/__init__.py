"""Collections on disk: one writer, many readers, verdicts and other annotations, and verification."""
