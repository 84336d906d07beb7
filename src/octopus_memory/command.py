"""What the system calls `octopus`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        # Loading it takes long enough to be interrupted.
        from .program import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
