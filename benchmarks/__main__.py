"""Every measurement that needs no data of its own, one after the other."""

from __future__ import annotations

import runpy
import sys

for name in ("compression", "quantisation", "speed"):
    print(f"\n## {name}\n", flush=True)
    sys.argv = [name]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
