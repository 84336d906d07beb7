"""Making text safe: neutralized markers of prompts, and personal data."""
