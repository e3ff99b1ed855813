"""Reads folders, tables and IIIF manifests into fragments, and fetches and decodes their images safely."""
