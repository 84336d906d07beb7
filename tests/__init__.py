"""A package, so that no other `tests` that is installed can stand before `tests.support`."""
