"""The inspector in a real browser: every page, hostile content, keyboard, axe-core."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from octopus_memory import ContextConfig, EpisodicMemory
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)
pytestmark = [
    pytest.mark.both_databases,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

EVIL = "<script>document.title='harmed'</script><img src=x onerror=\"document.title='harmed'\">"
WHO = {"agent": "hr", "user": "ana"}
WIDTHS = {"large": 1920, "wide": 1280, "narrow": 390}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no browser: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        opened.configure("hr", ContextConfig(ledger="full"))  # type: ignore[arg-type]
        scope = opened.scope(agent="hr", user="ana")
        scope.store(
            [
                ("user", f"I am allergic to peanuts. {EVIL}"),
                {
                    "role": "tool",
                    "tool_call_id": "c1",
                    "function_name": "look_up",
                    "arguments": {"about": EVIL},
                    "content": EVIL,
                    "duration_ms": 12,
                    "is_error": True,
                },
                ("assistant", "Noted."),
            ],
            session_id="monday",
            summary=f"Allergies. {EVIL}",
            key_facts=[EVIL],
            metadata={"from": EVIL},
        )
        scope.add_fact(f"Prefers tea. {EVIL}")
        opened.flush()
        scope.context(f"What am I allergic to? {EVIL}", session_id="tuesday")
        scope.add("tuesday", [("user", EVIL), ("assistant", "Peanuts.")])
        opened.tenant().erase_user("gone")
        yield opened


@pytest.fixture
def base(memory: EpisodicMemory) -> Iterator[str]:
    import uvicorn
    from starlette.applications import Starlette

    from octopus_memory.faces.inspector.app import Inspector

    app = Starlette(routes=Inspector(memory).routes())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    [listener] = server.servers[0].sockets
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


class Seen:
    """A page of the browser, and what went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self._note(said))

    def _note(self, said: Any) -> None:
        if said.type == "error":
            self.problems.append(said.text)


@pytest.fixture
def seen(browser: Any) -> Iterator[Seen]:
    context = browser.new_context()
    yield Seen(context.new_page())
    context.close()


def sign_in(seen: Seen, base: str, memory: EpisodicMemory, role: str = "admin") -> None:
    user = "ana" if role == "user" else None
    made = memory.api_keys.create(tenant="default", role=role, name=role, user=user, actor="test")
    seen.page.goto(f"{base}/")
    seen.page.get_by_label("API key").fill(made.token)
    seen.page.get_by_role("button", name="Sign in").click()
    playwright.expect(seen.page.get_by_role("heading", level=1)).to_have_text("Users")


def addresses(memory: EpisodicMemory) -> dict[str, str]:
    receipt = memory.tenant().receipts()[0].id
    asked = {"message": "What am I allergic to?", "compare": "on", **WHO}
    return {
        "users": "/",
        "timeline": f"/timeline?{urlencode(WHO)}",
        "replay": f"/replay?{urlencode(WHO | {'session': 'tuesday'})}",
        "first": f"/replay?{urlencode(WHO | {'session': 'monday'})}",
        "playground": f"/playground?{urlencode(asked)}",
        "facts": f"/facts?{urlencode(WHO)}",
        "search": f"/search?{urlencode(WHO)}",
        "retention": "/retention?dry=on",
        "erasure": f"/erasure?{urlencode(WHO)}",
        "progress": f"/erasure/progress?id={receipt}",
        "receipt": f"/erasure/receipt?id={receipt}",
        "audit": "/audit",
        "health": "/health",
    }


def axe_findings(page: Any) -> list[str]:
    """Findings of axe-core on a page, if that is installed."""
    try:
        from axe_core_python.sync_playwright import Axe
    except ImportError:
        return []
    seen = Axe().run(page)
    assert len(seen["passes"]) > 10
    found = seen["violations"]
    return [f"{each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_unharmed(
    seen: Seen, base: str, memory: EpisodicMemory, width: str, scheme: str
):
    seen.page.set_viewport_size({"width": WIDTHS[width], "height": 800})
    seen.page.emulate_media(color_scheme=scheme)
    sign_in(seen, base, memory)
    for name, address in addresses(memory).items():
        answer = seen.page.goto(base + address)
        assert answer.status == 200, name
        assert "harmed" not in seen.page.title()
        assert seen.page.locator("h1").count() == 1
        wide = seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= WIDTHS[width], f"{name} is {wide} wide"
    assert seen.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, base: str, memory: EpisodicMemory, scheme: str):
    pytest.importorskip("axe_core_python", reason="no axe-core: pip install axe-core-python")
    # The pages' own policy lets no script of others in, axe-core's neither.
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    seen = Seen(context.new_page())
    findings = {}
    seen.page.goto(f"{base}/sign-in")
    findings["sign-in"] = axe_findings(seen.page)
    sign_in(seen, base, memory)
    for name, address in addresses(memory).items():
        seen.page.goto(base + address)
        findings[name] = axe_findings(seen.page)
    context.close()
    assert {name: each for name, each in findings.items() if each} == {}


@pytest.mark.parametrize("role", ["agent", "user", "auditor"])
def test_each_role_has_its_own_way(seen: Seen, base: str, memory: EpisodicMemory, role: str):
    sign_in(seen, base, memory, role)
    sections = seen.page.get_by_role("navigation", name="Sections")
    links = sections.get_by_role("link").all_inner_texts()
    assert (
        links
        == {
            "agent": ["Users"],
            "user": ["Users", "Erasure"],
            "auditor": ["Users", "Retention", "Erasure", "Audit", "Health"],
        }[role]
    )
    seen.page.get_by_role("link", name="ana").click()
    words = seen.page.locator("main").inner_text()
    assert ("Allergies." in words) is (role != "auditor")


def test_the_sliders_change_the_block(seen: Seen, base: str, memory: EpisodicMemory):
    sign_in(seen, base, memory)
    seen.page.goto(f"{base}/playground?{urlencode(WHO)}")
    seen.page.get_by_label("Message").fill("What am I allergic to?")
    block = seen.page.locator("#result pre").first
    playwright.expect(block).to_contain_text("I am allergic to peanuts.")
    # With the keyboard, as somebody without a mouse does it.
    slider = seen.page.get_by_label(re.compile("^Budget"))
    slider.focus()
    slider.press("Home")
    playwright.expect(block).to_contain_text("No block")
    assert "budget=0" in seen.page.url
    assert seen.problems == []


def test_erasing_asks_for_the_name(seen: Seen, base: str, memory: EpisodicMemory):
    sign_in(seen, base, memory)
    seen.page.goto(base + addresses(memory)["erasure"])
    button = seen.page.get_by_role("button", name="Erase for good")
    playwright.expect(button).to_be_disabled()
    confirm = seen.page.get_by_label("Type the user's id again to confirm")
    confirm.fill("an")
    playwright.expect(button).to_be_disabled()
    confirm.fill("ana")
    playwright.expect(button).to_be_enabled()
    button.click()
    heading = seen.page.get_by_role("heading", level=1)
    playwright.expect(heading).to_have_text("Erasing")
    # The page reloads its steps until the last one is done.
    seen.page.get_by_role("link", name="Read the receipt").click()
    playwright.expect(heading).to_have_text("Receipt of an erasure")
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 0


def test_it_works_without_scripts(browser: Any, base: str, memory: EpisodicMemory):
    context = browser.new_context(java_script_enabled=False)
    seen = Seen(context.new_page())
    sign_in(seen, base, memory)
    seen.page.goto(base + addresses(memory)["facts"])
    seen.page.locator("#facts summary").get_by_text("Prefers tea.").click()
    changed = seen.page.locator("tr", has_text="Prefers tea.").get_by_label("What is true")
    changed.fill("Prefers coffee.")
    changed.press("Enter")
    playwright.expect(seen.page.get_by_role("status")).to_contain_text("corrected")
    assert "Prefers coffee." in seen.page.locator("main").inner_text()
    context.close()


def test_facts_are_filtered_while_one_types(seen: Seen, base: str, memory: EpisodicMemory):
    memory.scope(**WHO).add_fact("Lives in Vienna.", "home")
    sign_in(seen, base, memory)
    seen.page.goto(base + addresses(memory)["facts"])
    rows = seen.page.locator("#facts tbody tr:visible")
    before = rows.count()
    seen.page.get_by_label("Show only facts with").fill("VIENNA")
    playwright.expect(rows).to_have_count(1)
    assert before > 1
    playwright.expect(rows.first).to_contain_text("Lives in Vienna.")


def test_times_are_in_the_zone_of_the_browser(browser: Any, base: str, memory: EpisodicMemory):
    context = browser.new_context(timezone_id="Asia/Tokyo")
    seen = Seen(context.new_page())
    sign_in(seen, base, memory)
    last = memory.tenant().people()[0].last_message_at
    assert last is not None
    time = seen.page.locator("td time").first
    playwright.expect(time).to_have_text(f"{last + timedelta(hours=9):%Y-%m-%d %H:%M}")
    playwright.expect(time).to_have_attribute("title", f"{last:%Y-%m-%d %H:%M} UTC")
    context.close()


def test_the_keyboard_reaches_the_content(seen: Seen, base: str, memory: EpisodicMemory):
    sign_in(seen, base, memory)
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen.page.keyboard.press("Enter")
    assert seen.page.url.endswith("#main")
