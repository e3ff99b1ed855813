"""The workbench: a local web application for looking through candidates, their evidence, and deciding on joins."""
