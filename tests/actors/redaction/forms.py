"""Keys, and the ways in which they are written: by programs, languages and terminals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LINES: Final = "\n".join("MIIEpAIBAAKCAQEA7aB3+/xyzABCDEFGHIJKLMNOPQRSTUVW"[at:] for at in range(8))
PEM: Final = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----"
ENDLESS: Final = PEM.partition("\n-----END")[0]
_HEADERS: Final = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
KEYS: Final = {
    "github": "ghp_" + "aB3d" * 9,
    "openai": "sk-" + "aB3d" * 8,
    "aws": "AKIA" + "A1B2" * 4,
    "private key": PEM,
    "private key without its end": ENDLESS,
    "private key with headers": PEM.replace("\nMII", f"\n{_HEADERS}MII", 1),
    "private key with headers, without its end": ENDLESS.replace("\nMII", f"\n{_HEADERS}MII", 1),
}


def _each(write: Callable[[int], str]) -> Callable[[str], str]:
    return lambda key: "".join(write(ord(each)) for each in key)


def _coloured(key: str) -> str:
    return "".join(f"\x1b[3{number % 7}m{each}" for number, each in enumerate(key))


FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "as it is": lambda key: f"it is {key}",
    "in JSON, behind a new line": lambda key: json.dumps(f"it is\n{key}\t"),
    "in JSON within JSON": lambda key: json.dumps(json.dumps({"is": f"it\n{key}"})),
    "in the repr of bytes": lambda key: repr(f"é\n{key}".encode()),
    "in colour": lambda key: f"\x1b[31m{key}\x1b[0m",
    "in colour, in JSON": lambda key: json.dumps(f"\x1b[1;31m{key}\x1b[0m"),
    "highlighted in part": lambda key: f"\x1b[01;31m\x1b[K{key[:3]}\x1b[m\x1b[K{key[3:]}",
    "each character in a colour": _coloured,
    "highlighted in part, in JSON": lambda key: json.dumps(f"{key[:2]}\x1b[m\x1b[K{key[2:]}"),
    "behind an order with a space": lambda key: f"\x1b[2 q{key}",
    "behind what is no order": lambda key: f'\x1b["\\u001b[31m{key}',
    "in a colour and as in URLs": lambda key: (
        f"{key[:2]}\x1b[31m\x1b[1m\x1b[4m%{ord(key[2]):02x}{key[3:]}"
    ),
    "behind %3D": lambda key: f"token%3D{key}",
    "behind %20": lambda key: f"is%20{key}",
    "behind %253D": lambda key: f"token%253D{key}",
    r"behind \u003d": lambda key: f"token\\u003d{key}",
    "behind an underscore": lambda key: f"TOKEN_{key}",
    "in a URL": lambda key: f"https://example.org/?q={quote(key)}&b=1",
    "in a form": lambda key: f"q={quote_plus(key)}&b=1",
    "in JSON in a URL": lambda key: quote(json.dumps({"is": f"it\n{key}"})),
    "all of it as in URLs": _each("%{:02x}".format),
    "all of it as in URLs, twice": _each("%25{:02X}".format),
    "all of it as in JSON": _each(r"\u{:04x}".format),
    "all of it as in Python": _each(r"\x{:02x}".format),
    "one character as in URLs": lambda key: f"{key[:2]}%{ord(key[2]):02X}{key[3:]}",
    "one later character as in JSON": lambda key: f"{key[:9]}\\u{ord(key[9]):04x}{key[10:]}",
    "indented": lambda key: key.replace("\n", "\n    "),
    "with other line ends": lambda key: key.replace("\n", "\r\n"),
}
