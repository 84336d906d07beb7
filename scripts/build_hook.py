"""Makes the files that only a wheel or an installed source tree has, when hatchling builds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `build_products.py` on the source tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
        # In a process of its own, because the build backend must not import what it builds.
        script = Path(self.root, "scripts", "build_products.py")
        subprocess.run([sys.executable, str(script)], check=True)
