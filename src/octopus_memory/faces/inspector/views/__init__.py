"""The pages of the inspector, one module for each."""
