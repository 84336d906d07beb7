"""Standing facts."""
