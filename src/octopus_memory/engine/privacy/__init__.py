"""Personal data: found, replaced, kept out, scrubbed."""
