"""Erasure, scrubbing, removal of turns, and API keys."""
