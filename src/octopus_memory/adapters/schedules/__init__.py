"""Schedules of jobs."""
