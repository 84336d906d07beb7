"""The Qdrant index."""
