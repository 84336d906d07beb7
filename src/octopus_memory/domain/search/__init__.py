"""Ranking of turns and episodes: terms, BM25, signals, calibrated relevance."""
