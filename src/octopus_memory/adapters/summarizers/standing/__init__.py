"""Detection of standing facts about the user, by rules per language."""
