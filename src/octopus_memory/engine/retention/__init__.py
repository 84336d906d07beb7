"""Retention: the job, what is due, holds, restore."""
