"""Write `tools.json`: the tools of the MCP server as `tools/list` shows them (`make texts`)."""

from __future__ import annotations

import json

from octopus_memory.faces.mcp.catalogue import FILE
from octopus_memory.faces.mcp.tools import TOOLS, described


def main() -> None:
    listed = [described(tool) for tool in TOOLS.values()]
    FILE.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
