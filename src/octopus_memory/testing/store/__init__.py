"""The conformance suite of stores, by feature."""
