"""The workbench: a local web page on which a scholar goes through candidates, sees why, and decides."""
