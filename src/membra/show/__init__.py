"""Output for readers: evidence, pictures, reports, exports, and the workbench in `show/web`."""
