"""Ranking: terms, BM25, signals, calibrated relevance."""
