"""Run every benchmark that needs no external data."""

from __future__ import annotations

import subprocess
import sys

for name in ("compression", "quantization", "topic_shift", "run"):
    print(f"\n## {name}\n", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
