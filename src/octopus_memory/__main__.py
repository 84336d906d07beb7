"""The program `octopus`, also run as `python -m octopus_memory`.

No face imports another, so this module joins their commands in one program.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from typer import Typer

    from .faces.cli.app import Loaded

_PANELS = {
    "Start": ("demo", "init", "chat", "doctor"),
    "Read": ("recall", "context", "recent", "replay", "why", "stats", "facts", "inspect"),
    "Write": ("add", "run-pending"),
    "Retain and erase": (
        *("delete", "restore", "forget", "erase", "scrub", "compact"),
        *("retention", "holds", "receipts", "audit"),
    ),
    "Operate": (
        *("worker", "reembed", "config", "keys", "index", "serve", "mcp"),
        *("database", "scope-keys", "encrypt"),
    ),
    "Export and import": ("export", "import", "migrate"),
    "Measure": ("bench",),
}
"""The commands as `octopus --help` groups them."""
_FUNCTIONS = {"import": "import_", "run-pending": "run_pending", "scope-keys": "scope_keys"}
"""Functions of commands whose names are not valid in Python."""


def main() -> None:
    """Run the command line."""
    try:
        # Imported here because Ctrl-C may come while the import runs.
        from .faces.cli.app import run

        run(program())
    except KeyboardInterrupt:
        sys.exit(130)


@cache
def program() -> Typer:
    """Return the command line with the commands of every face."""
    from .faces.cli.app import make_app

    return make_app(_PANELS, _load)


def _load(name: str) -> Loaded:  # noqa: PLR0912, PLR0915 - one case for each module
    """Import the module of one command. Importing all of them takes half a second."""
    module: ModuleType
    match name:
        case "demo":
            from .faces.cli import demo as module
            from .faces.inspector import command as inspector

            module.serve_with(inspector.show, inspector.check_installed)
        case "init":
            from .faces.cli import init as module
        case "chat":
            from .faces.cli import chat as module
        case "doctor":
            from .faces.cli import doctor as module
        case "recall" | "context" | "recent" | "replay" | "why" | "stats":
            from .faces.cli import read as module
        case "facts":
            from .faces.cli import facts as module
        case "add" | "run-pending":
            from .faces.cli import write as module
        case "delete" | "restore" | "retention" | "holds":
            from .faces.cli import retention as module
        case "erase" | "compact" | "receipts":
            from .faces.cli import erase as module
        case "forget":
            from .faces.cli import forget as module
        case "scrub":
            from .faces.cli import scrub as module
        case "audit":
            from .faces.cli import audit as module
        case "worker" | "reembed":
            from .faces.cli import worker as module
        case "config":
            from .faces.cli import config as module
        case "keys":
            from .faces.cli import keys as module
        case "scope-keys":
            from .faces.cli import scope_keys as module
        case "encrypt":
            from .faces.cli import encrypt as module
        case "index":
            from .faces.cli import index as module
        case "export" | "import" | "migrate":
            from .faces.cli import transfer as module
        case "database":
            from .faces.cli import distribute as module
        case "bench":
            from .faces.cli import bench as module
        case "inspect":
            from .faces.inspector import command as module
        case "serve":
            from .faces.inspector.command import inspector_routes
            from .faces.mcp import answer_mcp
            from .faces.rest import command as module

            module.serve_also(module.Extras(pages=inspector_routes, mcp=answer_mcp))
        case "mcp":
            from .faces.mcp import command as module
        case _:
            raise KeyError(name)
    loaded: Loaded = getattr(module, _FUNCTIONS.get(name, name))
    return loaded


if __name__ == "__main__":
    main()
