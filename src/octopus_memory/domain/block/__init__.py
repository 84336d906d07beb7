"""The context block: passages, layout, small talk."""
