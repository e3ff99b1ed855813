"""From two bags to a distance: the formulas, plain, and the baselines beside them."""
