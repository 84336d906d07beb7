"""Text analysis for lexical search: stems and related words."""
