"""Build the list of given names for the pattern redactor, from Faker's (MIT) and our own.

    pip install faker==40.54.0
    python scripts/build_given_names.py > src/octopus_memory/words/given_names.txt

`given_names/own.txt` is taken as it is. Of Faker's names, those in `given_names/not_names.txt`
(places, products, words) are left out, and those that the texts of this repository and of Python's
standard library have in small letters. A name that only one of its locales has gets a "?".
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sysconfig
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = (
    HERE / "dictionary_text",
    HERE.parent / "benchmarks" / "compression_text",
    HERE.parent / "benchmarks" / "topic_shift_text",
    Path(sysconfig.get_path("stdlib")),
)
ENDINGS = {".md", ".txt", ".rst", ".py"}
# Census lists that contain thousands of words and surnames, and one of rare names.
LEFT_OUT = {"en", "is_IS"}
PROVIDERS = "faker.providers.person"


def listed(name: str) -> set[str]:
    return set((HERE / "given_names" / f"{name}.txt").read_text("utf-8").split())


def fakers_names() -> Counter[str]:
    """Return each name in lower case without accents, and its number of locales."""
    names: Counter[str] = Counter()
    for module in pkgutil.iter_modules(importlib.import_module(PROVIDERS).__path__):
        if module.name not in LEFT_OUT:
            provider = importlib.import_module(f"{PROVIDERS}.{module.name}").Provider
            names.update({plain(name) for name in of_provider(provider)})
    return names


def of_provider(provider: type) -> Iterator[str]:
    for attribute in dir(provider):
        names = getattr(provider, attribute)
        if attribute.startswith("first_name") and isinstance(names, Iterable):
            yield from (name for name in names if isinstance(name, str) and is_latin(name))


def is_latin(name: str) -> bool:
    return name.isalpha() and all("LATIN" in unicodedata.name(char, "") for char in name)


def plain(name: str) -> str:
    parts = unicodedata.normalize("NFKD", name.lower())
    return "".join(char for char in parts if not unicodedata.combining(char))


def words(folders: Iterable[Path]) -> set[str]:
    """Return the words that are in lower case at least a third of the time."""
    small: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.suffix in ENDINGS and "site-packages" not in path.parts:
            found = re.findall(r"[^\W\d_]+", path.read_text("utf-8", "ignore"))
            every.update(plain(word) for word in found)
            small.update(plain(word) for word in found if word.islower())
    return {word for word, count in small.items() if count >= 2 and count * 3 > every[word]}


def main() -> None:
    own, taken = listed("own"), words(TEXTS) | listed("not_names")
    kept = {
        name: count for name, count in fakers_names().items() if len(name) > 2 and name not in taken
    }
    names = [
        name if name in own or kept[name] > 1 else f"{name}?" for name in sorted(own | kept.keys())
    ]
    print("\n".join(textwrap.wrap(" ".join(names), 98, break_on_hyphens=False)))


if __name__ == "__main__":
    main()
