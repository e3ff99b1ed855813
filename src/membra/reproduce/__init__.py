"""Every table and figure of the paper on one labelled collection: `membra reproduce`."""
