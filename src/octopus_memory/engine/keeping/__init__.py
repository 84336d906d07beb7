"""Retention, holds and restoring: the verbs of keeping."""
