"""Standing facts about the user, found by rules."""
