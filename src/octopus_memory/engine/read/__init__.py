"""Recall and the context block."""
