"""What commands write: text for a person, JSON, and a question before the end.

Text is framed and colored on a terminal, and plain in a pipe. Rich is imported when the first text
is written, because a server or an error needs none of it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ...domain.message import Json, Message

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 100
# Stored messages may contain escape sequences, which a terminal would obey.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Screen:
    """Writes to a terminal or a pipe. Text is shown as it is, without markup and escapes."""

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        from rich.console import Console

        self._console = Console(
            stderr=stderr, quiet=quiet, highlight=False, markup=False, emoji=False
        )
        self.is_terminal = self._console.is_terminal
        if self.is_terminal:
            self._console.width = min(self._console.width, _WIDEST)

    @property
    def console(self) -> Console:
        return self._console

    def write(self, *parts: str | tuple[str, str], indent: int = 0) -> None:
        """Write a paragraph of texts, each plain or with its style. `indent` is for every line."""
        from rich.padding import Padding
        from rich.text import Text

        text = Text()
        for part in parts:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(clean(words), style)
        if self.is_terminal:
            self._console.print(Padding(text, (0, 0, 0, indent), expand=False))
            return
        # A program that reads a pipe needs lines that are not wrapped.
        for line in text.plain.split("\n"):
            self._console.print(" " * indent + line if line else "", soft_wrap=True)

    def row(self, *lead: tuple[str, str], text: str, style: str = "", indent: int = 0) -> None:
        """Write leading cells, and a text whose lines all stay to the right of them."""
        if not self.is_terminal:
            self.write(*lead, text, indent=indent)
            return
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid()
        cells = [Text(clean(words), look) for words, look in lead]
        for cell in cells:
            # Without a width, Rich would cut the blanks that line up the columns.
            grid.add_column(no_wrap=True, min_width=cell.cell_len)
        grid.add_column()
        grid.add_row(*cells, Text(clean(text), style))
        self._console.print(Padding(grid, (0, 0, 0, indent), expand=False))

    def gap(self) -> None:
        self._console.print()

    def rule(self, title: str) -> None:
        """Write the heading of a part."""
        self.gap()
        if not self.is_terminal:
            self.write(f"=== {title} ===")
            return
        from rich.rule import Rule
        from rich.text import Text

        words = Text.assemble(("── ", "cyan"), (clean(title), "bold"))
        self._console.print(Rule(words, align="left", style="cyan"))

    def panel(self, title: str, text: str, *, style: str = "cyan", dim: bool = False) -> None:
        """Write a text in a frame with a title."""
        if not self.is_terminal:
            self.write(f"[{title}]")
            self.write(text, indent=2)
            return
        from rich.panel import Panel
        from rich.text import Text

        body = Text(clean(text), "dim" if dim else "")
        frame = "dim" if dim else style
        self._console.print(
            Panel(body, title=Text(clean(title)), title_align="left", border_style=frame)
        )


def clean(text: str) -> str:
    """Replace every control character except line breaks and tabs with a visible mark."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 message, 2,000 messages."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# Control characters that a terminal obeys, and surrogates that no encoding can write.
_UNSAFE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def to_plain(value: object) -> Json:
    """Convert dataclasses to dicts, and ids and times to text."""
    match value:
        case Message():
            return dict(value.body)
        case UUID():
            return str(value)
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case list() | tuple():
            return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print one JSON value. Without `indent` it is one line."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    text = json.dumps(to_plain(value), ensure_ascii="utf" not in encoding, indent=indent)
    typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def can_ask() -> bool:
    return sys.stdin.isatty()


def ask(what: str, question: str) -> None:
    """Say what is going to happen, and abort unless the user agrees."""
    if not can_ask():
        raise typer.BadParameter("stdin is not a terminal: pass --yes to confirm")
    Screen(stderr=True).write(what)
    typer.confirm(question, abort=True, err=True)
