"""Values and pure decisions of the memory. Imports nothing but the standard library and numpy."""
