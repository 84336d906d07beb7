"""Writing for a person: framed and coloured on a terminal, plain text in a pipe."""

from __future__ import annotations

import re

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

_WIDEST = 100
# A stored message may hold what a terminal would obey.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Screen:
    """One place to write to. Text is shown as it is: no markup, nothing a terminal obeys."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
        self.is_terminal = self._console.is_terminal
        if self.is_terminal:
            self._console.width = min(self._console.width, _WIDEST)

    @property
    def console(self) -> Console:
        return self._console

    def write(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        """A paragraph of texts, each plain or with its style; `indent` holds for every line."""
        text = Text()
        for part in parts:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(clean(words), style)
        if self.is_terminal:
            self._console.print(Padding(text, (0, 0, 0, indent), expand=False))
            return
        # Whoever reads a pipe wants whole lines.
        for line in text.plain.split("\n"):
            self._console.print(" " * indent + line if line else "", soft_wrap=True)

    def row(self, *lead: tuple[str, str], text: str, style: str = "", indent: int = 0) -> None:
        """A text that stays to the right of what leads it, on each of its lines."""
        if not self.is_terminal:
            self.write(*lead, text, indent=indent)
            return
        grid = Table.grid()
        cells = [Text(clean(words), look) for words, look in lead]
        for cell in cells:
            # Blanks that line up columns would be cut from the end.
            grid.add_column(no_wrap=True, min_width=cell.cell_len)
        grid.add_column()
        grid.add_row(*cells, Text(clean(text), style))
        self._console.print(Padding(grid, (0, 0, 0, indent), expand=False))

    def gap(self) -> None:
        self._console.print()

    def rule(self, title: str) -> None:
        """The start of a part."""
        self.gap()
        if self.is_terminal:
            words = Text.assemble(("── ", "cyan"), (clean(title), "bold"))
            self._console.print(Rule(words, align="left", style="cyan"))
        else:
            self.write(f"=== {title} ===")

    def panel(self, title: str, text: str, *, style: str = "cyan", dim: bool = False) -> None:
        """A text in a frame with a title."""
        if self.is_terminal:
            body = Text(clean(text), "dim" if dim else "")
            frame = "dim" if dim else style
            self._console.print(
                Panel(body, title=Text(clean(title)), title_align="left", border_style=frame)
            )
        else:
            self.write(f"[{title}]")
            self.write(text, indent=2)


def clean(text: str) -> str:
    """The text with every control character but line breaks and tabs made visible."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def counted(number: int, one: str, many: str | None = None) -> str:
    """1 message, 2,000 messages."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
