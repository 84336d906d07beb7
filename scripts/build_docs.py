"""Build the documentation site from docs/ into build/docs/site, and check every link in it.

python scripts/build_docs.py

Needs the extra `docs`; uses no network. The site needs none either: it loads no font, script or
picture from another host, which is checked as well.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "docs" / "source"
SITE = ROOT / "build" / "docs" / "site"
PACKAGE = "octopus_memory"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_ALSO = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages outside of docs/ that the site has as well."""

_CALLS = ("aio", "engine", "wiring", "remote", "episode_block", "integrations")
_FIRST = (
    "EpisodicMemory",
    "MemoryScope",
    "MemoryContext",
    "EpisodeInHand",
    "wrap",
    "Episode",
    "Fact",
)
"""The names that the API pages begin with."""
_INTROS = {
    "calls": """# API of the calls

For developers who call Octopus from Python. You get every method with its parameters, from the
docstrings. [Python](../python.md) has the same on one page.
""",
    "values": """# API of the values

For developers who call Octopus from Python. You get the fields of everything that a call takes or
returns.
""",
    "errors": """# API of the errors

For developers who handle failures. You get every error that a call can raise.
""",
    "ports": """# API of the ports

For developers who [write an adapter](../../howto/write-an-adapter.md). You get the contracts, from
the docstrings.
""",
}


def main() -> int:
    """Stage, build and check the site. Return the exit code."""
    stage()
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(built.stdout + built.stderr, end="")
    if built.returncode:
        return built.returncode
    problems = list(check_site(SITE))
    for problem in problems:
        print(f"error: {problem}")
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{pages} pages in {SITE.relative_to(ROOT)}, {len(problems)} problems")
    return 1 if problems else 0


def stage() -> None:
    """Copy the pages and the API pages to the folder that the generator reads."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for path in sorted(DOCS.rglob("*")):
        if path.is_dir() or path.suffix == ".toml":
            continue
        target = SOURCE / _staged_name(path.relative_to(DOCS).as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(stage_page(path), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    for name, target_name in _ALSO.items():
        (SOURCE / target_name).write_text(stage_page(ROOT / name), encoding="utf-8")
    folder = SOURCE / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in api_pages().items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _staged_name(name: str) -> str:
    return re.sub(r"(^|/)README\.md$", r"\1index.md", name)


def stage_page(page: Path) -> str:
    """Return the text of a page with links for the site.

    A link to a file that the site does not have becomes the file's path in the repository.
    """

    def staged(link: re.Match[str]) -> str:
        bang, text, target, anchor = link.groups()
        found = (page.parent / unquote(target)).resolve()
        here = DOCS if page.is_relative_to(DOCS) else ROOT
        up = "../" * (len(page.relative_to(here).parts) - 1)
        if found.is_relative_to(DOCS):
            inside = _staged_name(found.relative_to(DOCS).as_posix())
        elif found.parent == ROOT and found.name in _ALSO:
            inside = _ALSO[found.name]
        else:
            return f"{text} (`{found.relative_to(ROOT).as_posix()}`)"
        return f"{bang}[{text}]({up}{inside}{anchor or ''})"

    pieces = _FENCE.split(page.read_text(encoding="utf-8"))
    return "".join(
        piece if piece.startswith("```") else _LINK.sub(staged, piece) for piece in pieces
    )


def api_pages() -> dict[str, str]:
    """Return the API pages: every public name by kind, and the modules of the ports."""
    groups: dict[str, list[str]] = {name: [] for name in _INTROS}
    for name, home in public_names().items():
        if home == "domain.errors":
            groups["errors"].append(name)
        else:
            is_call = home.startswith(_CALLS) or name in _FIRST[:3]
            groups["calls" if is_call else "values"].append(name)
    modules = (ROOT / "src" / PACKAGE / "ports").glob("[!_]*.py")
    groups["ports"] = [f"ports.{path.stem}" for path in modules]
    return {
        group: _INTROS[group] + "".join(map(_api_of, _ordered(names)))
        for group, names in groups.items()
    }


def _api_of(name: str) -> str:
    """Return the directive for a name, with the members of a class in the order of the overview."""
    overview = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `{name}`\n(.*?)(?=^## )", overview, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", section[1], re.MULTILINE) if section else []
    members = dict.fromkeys(re.findall(rf"`(?:{name}\.)?(\w+)(?=[`(])", " ".join(rows)))
    chosen = f"    options: {{group_by_category: false, members: [{', '.join(members)}]}}\n"
    return f"\n::: {PACKAGE}.{name}\n" + (chosen if members else "")


def _ordered(names: list[str]) -> list[str]:
    """Return names by the alphabet, after those that a reader looks for first."""
    return [each for each in _FIRST if each in names] + sorted(set(names) - set(_FIRST))


def public_names() -> dict[str, str]:
    """Return the module of each name of `__all__`, without importing anything."""
    tree = ast.parse((ROOT / "src" / PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return {name: homes[name] for name in listed if name in homes}


class _Page(HTMLParser):
    """Collects the anchors, the links and the loaded files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open_code = 0
        """Number of unclosed code elements, which make a page look broken."""

    def handle_endtag(self, tag: str) -> None:
        self.open_code -= tag == "code"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open_code += tag == "code"
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "canonical" not in given.get("rel", ""):
            self.loads.append(given.get("href", ""))
        elif "src" in given:
            self.loads.append(given["src"])


def check_site(site: Path) -> Iterator[str]:
    """Return the faults of the built pages: broken links, files loaded from other hosts."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        name = path.relative_to(site)
        # The page for missing addresses is served at any address, so its links are absolute.
        if name.name == "404.html":
            continue
        if page.open_code:
            yield f"{name} has a code element that is not closed: a heading may be cut wrongly"
        for loaded in page.loads:
            if urlsplit(loaded).netloc:
                yield f"{name} loads {loaded}"
        for link in (*page.links, *page.loads):
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{name} links to {link}, which does not exist"
            elif split.fragment and target in pages:
                anchor = unquote(split.fragment)
                if anchor not in pages[target].anchors and not anchor.startswith("__"):
                    yield f"{name} links to {link}, which has no such anchor"


if __name__ == "__main__":
    sys.exit(main())
