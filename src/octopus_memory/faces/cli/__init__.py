"""The command line `octopus`."""
