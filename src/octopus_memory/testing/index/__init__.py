"""Conformance suite of recall indexes."""
