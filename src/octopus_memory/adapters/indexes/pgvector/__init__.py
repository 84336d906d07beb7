"""Recall index on pgvector, in the PostgreSQL store's own database."""
