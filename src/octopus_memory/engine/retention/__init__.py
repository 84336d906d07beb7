"""Retention: the job, due episodes, holds, restore."""
