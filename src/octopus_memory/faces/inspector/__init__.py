"""The inspector: pages that show what agents remember, for people with a browser."""
