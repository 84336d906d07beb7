"""Summarizers: an episode to a summary, key facts and standing facts."""
