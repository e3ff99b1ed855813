"""Score rankings against known joins."""
