"""Formats of exports and of other programs' transcripts."""
