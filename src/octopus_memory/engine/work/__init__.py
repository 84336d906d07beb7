"""Pending background work: embedding and the mirror of a remote index."""
