"""Makes the pictures of the inspector for the documentation, from the demo's conversations.

    python scripts/inspector_pictures.py
    python scripts/inspector_pictures.py FOLDER    every page at three widths, light and dark, too

It needs the extra `server`, the package `playwright`, and the Chromium of the system: none is
downloaded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from playwright.sync_api import Page, sync_playwright
from starlette.applications import Starlette

from octopus_memory import EpisodicMemory
from octopus_memory.faces.cli.demo import Story
from octopus_memory.faces.inspector.app import Inspector
from octopus_memory.testing import FixedClock

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
TOKEN = "pictures"
WIDE, TALL, NARROW = (1280, 860), (1280, 1400), (390, 844)
LARGE = (1920, 1080)
NOW = "now"
ASKED = (
    "Can I still take five days off in June?",
    "Please write to me formally, as always.",
)

FACTS = (
    ("constraint", "Is allergic to peanuts."),
    ("preference", "Likes window seats."),
    ("person", "Her sister Lena lives in Graz."),
    ("home", "Lives in Vienna."),
    ("work", "Works in the Hamburg office on Mondays."),
)


def fill(memory: EpisodicMemory, clock: FixedClock) -> tuple[Story, str]:
    """Store the demo's conversations, and one more that remembers them."""
    story = Story()
    who = story.scope
    scope = memory.scope(tenant=who.tenant, agent=who.agent, user=who.user)
    for part in story.parts:
        clock.set(part.times[-1])
        scope.store(part.messages, session_id=part.id, at=part.times)
    memory.flush()
    clock.set(story.now)
    for kind, text in FACTS:
        scope.add_fact(text, kind)
    scope.context(ASKED[0], session_id=NOW, budget_tokens=220)
    scope.add(
        NOW,
        [
            ("user", ASKED[0]),
            ("assistant", "Yes: you have enough days left. Shall I file the request?"),
        ],
    )
    for number in range(6):
        other = memory.scope(tenant=who.tenant, agent=who.agent, user=f"user-{number + 18}")
        other.store([("user", "Good morning!"), ("assistant", "Good morning.")])
    gone = memory.scope(tenant=who.tenant, agent=who.agent, user="user-24")
    gone.store([("user", "Goodbye."), ("assistant", "Goodbye.")])
    receipt = memory.tenant(who.tenant).erase_user("user-24")
    return story, str(receipt.id)


@contextmanager
def serving(memory: EpisodicMemory) -> Iterator[str]:
    app = Starlette(routes=Inspector(memory, local_token=TOKEN).routes())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    [listener] = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def pages(story: Story, receipt: str) -> dict[str, str]:
    who = {"agent": story.scope.agent, "user": story.scope.user}
    tried = who | {"message": ASKED[0], "budget": "250"}
    return {
        "users": "/",
        "timeline": f"/timeline?{urlencode(who)}",
        "replay": f"/replay?{urlencode(who | {'session': NOW})}",
        "playground": f"/playground?{urlencode(tried)}",
        "compare": f"/playground?{urlencode(tried | {'compare': 'on', 'budget2': '900'})}",
        "facts": f"/facts?{urlencode(who)}",
        "search": f"/search?{urlencode(who)}",
        "retention": "/retention?dry=on",
        "erasure": f"/erasure?{urlencode(who)}",
        "progress": f"/erasure/progress?id={receipt}",
        "receipt": f"/erasure/receipt?id={receipt}",
        "audit": "/audit",
        "sign-in": "/sign-in",
        "problem": "/timeline?agent=x",
        "health": "/health",
    }


PICTURES = {
    "inspector-replay": ("replay", (1280, 1300), "light"),
    "inspector-playground": ("playground", TALL, "light"),
    "inspector-timeline": ("timeline", WIDE, "dark"),
    "inspector-facts": ("facts", NARROW, "light"),
}


def take(
    page: Page, address: str, size: tuple[int, int], scheme: str, file: Path, *, whole: bool = False
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(address)
    if "/replay?" in address:
        page.locator(".ledger > summary").first.click()
    page.screenshot(path=file, full_page=whole)


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium: apt-get install chromium")
    every = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    FOLDER.mkdir(parents=True, exist_ok=True)
    clock = FixedClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        EpisodicMemory.open(Path(folder, "memory.db"), background=False, clock=clock) as memory,
    ):
        story, receipt = fill(memory, clock)
        addresses = pages(story, receipt)
        with serving(memory) as base, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"{base}/?token={TOKEN}")
            for name, (what, size, scheme) in PICTURES.items():
                take(page, base + addresses[what], size, scheme, FOLDER / f"{name}.png")
            if every is not None:
                every.mkdir(exist_ok=True)
                for what, address in addresses.items():
                    for label, size in (("large", LARGE), ("wide", WIDE), ("narrow", NARROW)):
                        for scheme in ("light", "dark"):
                            file = every / f"{what}-{label}-{scheme}.png"
                            take(page, base + address, size, scheme, file, whole=True)
            browser.close()


if __name__ == "__main__":
    main()
