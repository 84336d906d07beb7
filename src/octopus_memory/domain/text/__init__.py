"""Text that is made harmless: lookalikes, role words, personal data."""
