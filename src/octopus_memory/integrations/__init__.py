"""Octopus inside the libraries that agents are built with. Each module needs its extra."""
