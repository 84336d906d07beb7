"""Recall index on a Qdrant server."""
