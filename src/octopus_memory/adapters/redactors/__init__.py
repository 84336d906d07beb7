"""What finds personal data."""
