"""Recall indexes: exact search in memory, pgvector and Qdrant."""
