"""Export and import: the verbs of carrying data in and out."""
