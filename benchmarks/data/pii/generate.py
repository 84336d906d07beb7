"""Write the generated sentences of `dev.jsonl` and `test.jsonl`; the written ones are kept.

The two halves share no template, no name, no street and no domain. Every number is one that is
published for tests, fiction or documentation, or is made from a range that is.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EACH = 9

Fill = Callable[[random.Random], str]

GIVEN = {
    "dev": "Alice Bruno Carmen David Emily Farid Greta Hassan Irina Jamal Kirsten Leon Mei Nadia "
    "Omar Petra Quentin Rosa Samuel Tariq Ursula Vikram Wendy Xavier Yuki Zoe Adaeze "
    "Bjorn Cecilia Darius Esther Fiona Gareth Hanneke Isabel Jakub Kavita Lorenzo "
    "Mireille Niamh Oskar Paulina Ruth Stellan Tamsin Uche Valeria Winston Xiomara Yaw "
    "Zofia",
    "test": "Alasdair Bettina Cosmin Delphine Efua Fintan Gisela Hiram Ilaria Jolanta Kofi "
    "Ludmila Marguerite Nkechi Orla Philomena Rhiannon Santosh Thandiwe Umberto Vasilis "
    "Wilhelmina Yusra Zoltan Aaron Sophie Daniel Laura",
}
FAMILY = {
    "dev": "Anderson Becker Costa Davies Eriksson Fischer Gupta Hughes Ivanov Jones Kowalski "
    "Larsen Martinez Novak Ortiz Patel Quinn Rossi Schmidt Turner Adeyemi Bellweather "
    "Chandrasekhar Dvořák Espinoza Fairbanks Grimaldi Halloran Ishida Janssen Kaczmarek "
    "Löfgren Mbeki Nakamura O'Rourke Popescu Rahman Sørensen Thibault Ueda",
    "test": "Achebe Blackwood Castellano Drummond Eastwick Fontaine Gallagher Horvath Iyer "
    "Jankowski Kessler Lindgren Mwangi Nyström O'Sullivan Petrov Rasmussen Szabó Tremblay "
    "Valdez",
}
DOMAINS = {
    "dev": "example.com example.org mail.example.com example.net corp.example.org "
    "users.example.edu",
    "test": "example.info example.de team.example.com",
}
STREETS = {
    "dev": [
        "Main Street",
        "Oak Avenue",
        "Park Road",
        "Hill Lane",
        "Elm St",
        "Sunset Blvd",
        "Juniper Drive",
        "Station Road",
        "Willow Way",
        "Kestrel Court",
        "Ninth Ave",
        "Mill Ln",
    ],
    "test": [
        "Harbor View Drive",
        "Cathedral Close",
        "Old Mill Road",
        "Seventh St",
        "Prospect Pl",
        "Fern Terrace",
    ],
}
US_CITIES = {
    "dev": [
        "Springfield, IL 62704",
        "Dayton, OH 45402",
        "Reno, NV 89501",
        "Missoula, MT 59801",
        "Ithaca, NY 14850",
        "St. Paul, MN 55102",
    ],
    "test": ["Duluth, MN 55802", "Santa Rosa, CA 95404", "Macon, GA 31201"],
}
UK_CITIES = {
    "dev": [
        "York YO10 5DD",
        "London SW1A 2AA",
        "Cardiff CF10 3NQ",
        "Edinburgh EH8 9YL",
        "Norwich NR2 1RL",
    ],
    "test": ["Derby DE1 2QY", "Swansea SA1 3SN"],
}
ABROAD = {
    "dev": [
        "Hauptstraße {n}, 80331 München",
        "{n} rue de la Paix, 75002 Paris",
        "Birkenweg {n}, 50667 Köln",
        "{n} avenue Foch, 54000 Nancy",
        "Calle Alcalá {n}, 28014 Madrid",
        "Via Roma {n}, 10121 Torino",
    ],
    "test": [
        "Schillerstraße {n}, 99423 Weimar",
        "{n} rue Nationale, 37000 Tours",
        "Avenida Diagonal {n}, 08019 Barcelona",
        "Viale Europa {n}, 00144 Roma",
    ],
}
# Published by card schemes and payment providers for tests.
CARDS = {
    "dev": "4111111111111111 4242424242424242 5105105105105100 378282246310005 6011000990139424 "
    "3530111333300000 4012888888881881 5555555555554444 371449635398431 6011111111111117 "
    "3566002020360505 2223003122003222 4000056655665556 6200000000000005",
    "test": "4000002500003155 5200828282828210 36227206271667 4000002760003184 5454545454545454 "
    "6011981111111113",
}
# The examples of the IBAN registry.
IBANS = {
    "dev": "DE89370400440532013000 GB82WEST12345698765432 ES9121000418450200051332 "
    "CH9300762011623852957 FR1420041010050500013M02606 NL91ABNA0417164300 "
    "BE68539007547034 AT611904300234573201 SE4550000000058398257466 "
    "IE29AIBK93115212345678",
    "test": "PT50000201231234567890154 FI2112345600000785 DK5000400440116243 NO9386011117947 "
    "PL61109010140000071219812874 IT60X0542811101000000123456",
}


def person(half: str) -> Fill:
    given, family = GIVEN[half].split(), FAMILY[half].split()
    return lambda r: f"{r.choice(given)} {r.choice(family)}"


def first(half: str) -> Fill:
    return lambda r: r.choice(GIVEN[half].split())


def titled(half: str) -> Fill:
    return lambda r: f"{r.choice(['Mr.', 'Ms.', 'Dr.', 'Mrs'])} {r.choice(FAMILY[half].split())}"


def email(half: str) -> Fill:
    def make(r: random.Random) -> str:
        user = r.choice(GIVEN[half].split()).lower()
        tail = r.choice(["", str(r.randint(1, 99)), ".work", "_x", "+shop"])
        return f"{user}{tail}@{r.choice(DOMAINS[half].split())}"

    return make


def phone(_: str) -> Fill:
    def make(r: random.Random) -> str:
        area, line = r.choice([212, 303, 415, 617, 702]), r.randint(100, 199)
        return r.choice(
            [
                f"{area}-555-0{line}",
                f"({area}) 555-0{line}",
                f"+1 {area} 555 0{line}",
                f"+1-{area}-555-0{line}",
                f"{area}.555.0{line}",
                f"+44 20 7946 0{line}",
                f"+44 7700 900{line}",
                f"+33 6 39 98 {r.randint(10, 99)} {r.randint(10, 99)}",
            ]
        )

    return make


def ssn(_: str) -> Fill:
    def make(r: random.Random) -> str:
        number = r.choice(["078051120", "219099999", f"98765432{r.randint(0, 9)}"])
        return r.choice([number, f"{number[:3]}-{number[3:5]}-{number[5:]}"])

    return make


def card(half: str) -> Fill:
    def make(r: random.Random) -> str:
        number = r.choice(CARDS[half].split())
        cuts = [0, 4, 10, 15] if len(number) == 15 else [0, 4, 8, 12, 16]
        parts = [number[a:b] for a, b in itertools.pairwise(cuts)]
        return r.choice([number, " ".join(parts), "-".join(parts)])

    return make


def iban(half: str) -> Fill:
    def make(r: random.Random) -> str:
        number = r.choice(IBANS[half].split())
        spaced = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
        return r.choice([number, spaced])

    return make


def ip(_: str) -> Fill:
    def make(r: random.Random) -> str:
        last = r.randint(1, 254)
        return r.choice(
            [
                f"192.0.2.{last}",
                f"198.51.100.{last}",
                f"203.0.113.{last}",
                f"2001:db8::{last:x}",
                f"2001:db8:0:42:1:2:{last:x}:1",
            ]
        )

    return make


def _day(r: random.Random, first_year: int, last_year: int) -> str:
    year, month, day = r.randint(first_year, last_year), r.randint(1, 12), r.randint(1, 28)
    name = "January February March April May June July August September October November December"
    word = name.split()[month - 1]
    return r.choice(
        [
            f"{year}-{month:02}-{day:02}",
            f"{month:02}/{day:02}/{year}",
            f"{day} {word} {year}",
            f"{word} {day}, {year}",
            f"{day:02}.{month:02}.{year}",
            f"{day} {word[:3]} {year}",
        ]
    )


def birth(_: str) -> Fill:
    return lambda r: _day(r, 1935, 2008)


def address(half: str) -> Fill:
    def make(r: random.Random) -> str:
        number, street = r.randint(2, 2999), r.choice(STREETS[half])
        flat = r.choice(["", "", f" Apt {r.randint(1, 40)}"])
        return r.choice(
            [
                f"{number} {street}{flat}, {r.choice(US_CITIES[half])}",
                f"{number % 200 + 1} {street}, {r.choice(UK_CITIES[half])}",
                f"{number} {street}",
                r.choice(ABROAD[half]).format(n=number % 90 + 1),
            ]
        )

    return make


PERSONAL = {
    "N": ("PERSON_NAME", person),
    "F": ("PERSON_NAME", first),
    "T": ("PERSON_NAME", titled),
    "E": ("EMAIL", email),
    "P": ("PHONE_NUMBER", phone),
    "S": ("US_SSN", ssn),
    "C": ("CREDIT_CARD", card),
    "D": ("DATE_OF_BIRTH", birth),
    "A": ("ADDRESS", address),
    "B": ("IBAN", iban),
    "I": ("IP_ADDRESS", ip),
}
HARMLESS: dict[str, Fill] = {
    "date": lambda r: _day(r, 2015, 2026),
    "version": lambda r: ".".join(str(r.randint(0, 30)) for _ in range(4)),
    "nine": lambda r: str(r.randint(100_000_000, 999_999_999)),
    "ten": lambda r: str(r.randint(2_000_000_000, 9_999_999_999)),
    "price": lambda r: f"${r.randint(1, 9999):,}.{r.randint(0, 99):02}",
    "hex": lambda r: f"{r.getrandbits(64):016x}",
    "uuid": lambda r: (
        f"{r.getrandbits(32):08x}-{r.getrandbits(16):04x}-4{r.getrandbits(12):03x}-"
        f"a{r.getrandbits(12):03x}-{r.getrandbits(48):012x}"
    ),
    "order": lambda r: (
        f"{r.randint(100, 999)}-{r.randint(10**6, 10**7 - 1)}-{r.randint(10**6, 10**7 - 1)}"
    ),
    "isbn": lambda r: (
        f"978-{r.randint(0, 9)}-{r.randint(100, 999)}-{r.randint(10000, 99999)}-{r.randint(0, 9)}"
    ),
    "time": lambda r: f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}",
    "sku": lambda r: (
        f"{r.choice('ABKXZ')}{r.randint(100, 999)}-{r.randint(10, 99)}-{r.randint(1000, 9999)}"
    ),
    "track": lambda r: f"1Z{r.randint(10**8, 10**9 - 1)}{r.randint(10**6, 10**7 - 1)}",
    "count": lambda r: str(r.randint(2, 400)),
}
TEMPLATES: dict[str, list[str]] = json.loads((HERE / "templates.json").read_text("utf-8"))


def sentence(template: str, half: str, r: random.Random) -> str:
    values = {k: f"⟦{kind}:{make(half)(r)}⟧" for k, (kind, make) in PERSONAL.items()}
    values |= {k: make(r) for k, make in HARMLESS.items()}
    return template.format(**values)


def generated(half: str) -> list[dict[str, Any]]:
    r = random.Random(f"pii-{half}")
    texts = [sentence(t, half, r) for t in TEMPLATES[half] for _ in range(EACH)]
    return [{"marked": text, "source": "generated"} for text in dict.fromkeys(texts)]


def main() -> None:
    for half in ("dev", "test"):
        path = HERE / f"{half}.jsonl"
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kept = [line for line in lines if line["source"] == "written"]
        rows = [json.dumps(row, ensure_ascii=False) for row in [*kept, *generated(half)]]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        print(f"{path.name}: {len(kept)} written, {len(rows) - len(kept)} generated")


if __name__ == "__main__":
    main()
