"""The conformance suite of recall indexes."""
