"""Key stores: where the keys of scopes are kept."""
