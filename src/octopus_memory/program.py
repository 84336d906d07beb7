"""The program `octopus`: the command line, and the servers that it can start.

No face imports another, so that they are put together here.
"""

from __future__ import annotations

from .faces.cli.app import app, run
from .faces.mcp.command import mcp
from .faces.rest.command import serve

__all__ = ["app", "run"]

app.command(rich_help_panel="Run")(serve)
app.command(rich_help_panel="Run")(mcp)
