"""Storing turns: validate, choose the episode, append, close, index."""
