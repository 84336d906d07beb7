"""Record `octopus demo` as an animated SVG, for the README.

    python scripts/record_demo.py [docs/pictures/demo.svg]

Runs the demo in a pseudo-terminal, and writes each line as text that appears at its time and
scrolls up when the window is full. Needs nothing beyond what Octopus installs.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import accumulate
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, ROWS = 96, 30
_CELL, _LINE, _FONT = 8.4, 18, 14
_MARGIN, _BAR = 16, 36
_BETWEEN_LINES = 0.1
_AT_A_RULE = 1.5
"""Seconds before a new section, so that the one on the screen can be read."""
_UNTIL_THE_ANSWER, _AT_THE_ANSWER = 4.5, 6.0
"""Seconds in which the remembered answer appears, and for which it stays."""
_AT_THE_END = 6.0
_TARGET = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else _TARGET
    lines = [*_prompt(), *recorded()]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(svg(lines), encoding="utf-8")


def recorded() -> list[Text]:
    """Return the lines that the demo writes to a terminal of `COLUMNS` columns."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "octopus_memory", "demo"]
        shown = _in_terminal(command, Path(folder))
    lines = Text.from_ansi(shown).split("\n", allow_blank=True)
    kept = [line for line in lines if "removed now" not in line.plain]
    while kept and not kept[-1].plain.strip():
        kept.pop()
    return kept


def svg(lines: list[Text]) -> str:
    """Return the animation of a terminal in which the lines appear one after the other."""
    times = list(_times(lines))
    total = times[-1] + _AT_THE_END
    width = COLUMNS * _CELL + 2 * _MARGIN
    height = ROWS * _LINE + _BAR + _MARGIN
    background = MONOKAI.background_color.hex
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="octopus demo">'
        ),
        "<style>",
        (
            f"text{{font:{_FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
            f"white-space:pre;fill:{MONOKAI.foreground_color.hex}}}"
        ),
        *_animation(times, total),
        "</style>",
        f'<rect width="100%" height="100%" rx="10" fill="{background}"/>',
        *(
            f'<circle cx="{_MARGIN + 6 + 20 * place}" cy="18" r="6" fill="{color}"/>'
            for place, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<clipPath id="w"><rect y="{_BAR}" width="100%" height="{ROWS * _LINE}"/></clipPath>',
        '<g clip-path="url(#w)"><g class="s">',
        *(_line(place, line) for place, line in enumerate(lines)),
        "</g></g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _prompt() -> list[Text]:
    return [Text.assemble(("$ ", "green"), ("octopus demo", "bold")), Text("")]


def _in_terminal(command: list[str], folder: Path) -> str:
    master, slave = pty.openpty()
    env = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        raw = b""
        while True:
            try:
                got = os.read(master, 65_536)
            except OSError:  # Linux reports the end of a pseudo-terminal as an error.
                break
            if not got:
                break
            raw += got
    os.close(master)
    if process.returncode:
        raise SystemExit(f"octopus demo failed:\n{raw.decode()}")
    return raw.decode().replace("\r\n", "\n")


def _times(lines: list[Text]) -> Iterator[float]:
    steps = [_AT_A_RULE if line.plain.startswith("─") else _BETWEEN_LINES for line in lines]
    said = next(i for i, line in enumerate(lines) if line.plain.startswith("With memory"))
    after = next(i for i in range(said, len(lines)) if lines[i].plain.startswith("─"))
    faster = _UNTIL_THE_ANSWER / sum(steps[:after])
    steps[:after] = [step * faster for step in steps[:after]]
    steps[after] = _AT_THE_ANSWER
    return accumulate(steps)


def _animation(times: list[float], total: float) -> Iterator[str]:
    """CSS: each line becomes visible at its time, and the text scrolls when the window is full."""
    yield f".s{{animation:s {total:.2f}s step-end infinite}}"
    frames = ["0%{transform:translateY(0)}"]
    for place, time in enumerate(times):
        if place >= ROWS:
            up = (place - ROWS + 1) * _LINE
            frames.append(f"{100 * time / total:.3f}%{{transform:translateY(-{up}px)}}")
    yield f"@keyframes s{{{''.join(frames)}}}"
    for place, time in enumerate(times):
        yield f".l{place}{{animation:l{place} {total:.2f}s step-end infinite}}"
        yield f"@keyframes l{place}{{0%{{opacity:0}}{100 * time / total:.3f}%{{opacity:1}}}}"


def _line(place: int, line: Text) -> str:
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)
    y = _BAR + (place + 0.8) * _LINE
    spans = "".join(
        f"<tspan{_attributes(segment.style)}>{escape(segment.text)}</tspan>"
        for segment in line.render(console)
        if segment.text
    )
    return f'<text class="l{place}" x="{_MARGIN}" y="{y:.1f}">{spans}</text>'


def _attributes(style: Style | None) -> str:
    if style is None:
        return ""
    given = ""
    if style.color is not None and not style.color.is_default:
        given += f' fill="{style.color.get_truecolor(MONOKAI).hex}"'
    if style.bold:
        given += ' font-weight="bold"'
    if style.dim:
        given += ' opacity="0.65"'
    return given


if __name__ == "__main__":
    main()
