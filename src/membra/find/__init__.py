"""Search stored collections: rankings, neighbours, probabilities, the inbox and proposed joins."""
