"""Files that `scripts/build_products.py` makes when a wheel is built or a source tree installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def read_built(file: Path) -> bytes | None:
    """Return the content of such a file; None if it is missing, or may be out of date.

    That is in a source tree, for a file that is older than any module. The caller then makes the
    same at run time, which is slower.
    """
    try:
        if (_PACKAGE.parents[1] / "pyproject.toml").exists():
            built = file.stat().st_mtime_ns
            if any(source.stat().st_mtime_ns > built for source in _PACKAGE.rglob("*.py")):
                return None
        return file.read_bytes()
    except OSError:
        return None
