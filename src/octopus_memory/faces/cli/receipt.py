"""A receipt on the terminal."""

from __future__ import annotations

from ...domain.erasure import EraseReceipt
from .terminal import Screen


def state_of(receipt: EraseReceipt) -> str:
    if receipt.is_complete:
        return "complete"
    if receipt.pending:
        return f"not complete: {', '.join(receipt.pending)} pending"
    if any(receipt.left.values()):
        return "not complete: something is left"
    return "not complete: the files are not rewritten yet (octopus compact)"


def show_receipt(screen: Screen, receipt: EraseReceipt) -> None:
    screen.write(("receipt  ", "dim"), f"{receipt.id}, {receipt.at:%Y-%m-%d %H:%M:%S} UTC")
    screen.write(("subject  ", "dim"), receipt.subject)
    gone = [f"{place} {number:,}" for place, number in receipt.removed.items() if number]
    screen.write(("removed  ", "dim"), ", ".join(gone) or "nothing")
    left = [f"{place} {number:,}" for place, number in receipt.left.items() if number]
    screen.write(("left     ", "dim"), ", ".join(left) or "nothing")
    where = f" on {', '.join(receipt.nodes)}" if receipt.nodes else ""
    rewritten = f"rewritten{where}" if receipt.physical else "not rewritten yet"
    screen.write(("files    ", "dim"), rewritten)
    screen.write(("state    ", "dim"), state_of(receipt))
    screen.write(("SHA-256  ", "dim"), receipt.sha256)
