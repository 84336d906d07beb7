"""The pgvector index."""
