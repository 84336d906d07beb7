"""Draw docs/pictures/architecture.svg from architecture.toml beside it.

python scripts/draw_architecture.py
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SOURCE = PICTURES / "architecture.toml"
PICTURE = PICTURES / "architecture.svg"

WIDTH = 1000
MARGIN = 24
HEADING = 34
BOX = 52
GAP = 10
ARROW = 34
PADDING = 12
CHARACTER = 6.9
"""Width of a character of the path's font, to choose a font size at which the text fits."""

# Opaque colors for both schemes: a page may be light where the reader's system is dark.
STYLE = """
  svg { font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  .band { fill: #f3f6fa; stroke: #d0d7de; }
  .base { fill: #e9f3ec; stroke: #b6d3be; }
  .box { fill: #ffffff; stroke: #8c9bab; }
  .name { fill: #1f2933; font-size: 15px; font-weight: 600; }
  .note { fill: #52606d; font-size: 13px; }
  .title { fill: #1f2933; font-size: 14px; font-weight: 600; text-anchor: middle; }
  .path { fill: #3b5b7d; font-family: ui-monospace, Menlo, Consolas, monospace;
          text-anchor: middle; }
  .arrow { stroke: #52606d; stroke-width: 1.5; fill: none; }
  .head { fill: #52606d; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0f1720; stroke: #33414f; }
    .band { fill: #18222d; stroke: #33414f; }
    .base { fill: #16261d; stroke: #2f5540; }
    .box { fill: #223040; stroke: #5b6b7b; }
    .name, .title { fill: #e6edf3; }
    .note { fill: #a9b6c3; }
    .path { fill: #9cc4ee; }
    .arrow { stroke: #a9b6c3; }
    .head { fill: #a9b6c3; }
  }
"""


def paths() -> list[str]:
    """The paths that the picture names, relative to the package."""
    source = read_source()
    return [
        box["path"]
        for band in (*source["band"], source["base"])
        for box in band["box"]
        if "path" in box
    ]


def read_source() -> dict[str, Any]:
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def draw() -> str:
    """The picture as SVG text."""
    source = read_source()
    shapes: list[str] = []
    top = float(MARGIN)
    for band in source["band"]:
        top = _draw_band(shapes, band, top, "band")
        if "arrow" in band:
            top = _draw_arrow(shapes, band["arrow"], top)
    top = _draw_band(shapes, source["base"], top + GAP, "base")
    height = top + MARGIN
    words = " > ".join(band["name"] for band in source["band"])
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">',
            f"<title>Layers of Octopus: {escape(words)}; the domain under all</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{height:g}" rx="10"/>',
            *shapes,
            "</svg>",
            "",
        ]
    )


def _draw_band(shapes: list[str], band: dict[str, Any], top: float, kind: str) -> float:
    """Draw one band with its boxes; returns where the next may begin."""
    boxes = band["box"]
    height = HEADING + BOX + PADDING
    inner = WIDTH - 2 * MARGIN
    note = f'<tspan class="note" dx="10" font-weight="400">{escape(band["note"])}</tspan>'
    name = f"{escape(band['name'])}{note}"
    shapes += [
        f'<rect class="{kind}" x="{MARGIN}" y="{top:g}" width="{inner}" height="{height}" rx="8"/>',
        f'<text class="name" x="{MARGIN + PADDING}" y="{top + 23:g}">{name}</text>',
    ]
    width = (inner - 2 * PADDING - GAP * (len(boxes) - 1)) / len(boxes)
    for number, box in enumerate(boxes):
        left = MARGIN + PADDING + number * (width + GAP)
        shapes += _box(box, left, top + HEADING, width)
    return top + height


def _box(box: dict[str, str], left: float, top: float, width: float) -> list[str]:
    middle = left + width / 2
    path = box.get("path")
    title_at = top + (22 if path else 31)
    drawn = [
        f'<rect class="box" x="{left:.1f}" y="{top:g}" width="{width:.1f}" height="{BOX}" rx="6"/>',
        f'<text class="title" x="{middle:.1f}" y="{title_at:g}">{escape(box["title"])}</text>',
    ]
    if path is not None:
        size = min(11.0, 11.0 * (width - 8) / (len(path) * CHARACTER))
        drawn.append(
            f'<text class="path" font-size="{size:.1f}" x="{middle:.1f}" y="{top + 40:g}">'
            f"{escape(path)}</text>"
        )
    return drawn


def _draw_arrow(shapes: list[str], label: str, top: float) -> float:
    middle, end = WIDTH / 2, top + ARROW
    shapes += [
        f'<path class="arrow" d="M {middle:g} {top + 3:g} V {end - 9:g}"/>',
        f'<path class="head" d="M {middle - 5:g} {end - 10:g} h 10 l -5 8 z"/>',
        f'<text class="note" x="{middle + 12:g}" y="{top + 21:g}">{escape(label)}</text>',
    ]
    return end


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE}")
