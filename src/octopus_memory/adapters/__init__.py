"""Implementations of the ports, by kind and product."""
