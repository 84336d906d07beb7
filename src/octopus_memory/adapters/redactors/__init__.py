"""Detectors of personal data."""
