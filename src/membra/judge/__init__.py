"""From rankings and known joins to scores."""
