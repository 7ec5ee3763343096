"""The bank, outside: a file with a line for each payment. It knows payments by the key they had."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runefold import Happened


class Bank:
    """Takes money."""

    def __init__(self, book: Path) -> None:
        """Keep payments in a file, made by the first one."""
        self._book = book

    def pay(self, item: str, cents: int, key: str) -> str:
        """Take money, as often as asked; return a receipt."""
        with self._book.open("a", encoding="utf-8") as book:
            book.write(json.dumps({"key": key, "item": item, "cents": cents}) + "\n")
        return f"receipt {key}"

    def payments(self) -> list[dict[str, Any]]:
        """Return all payments."""
        if not self._book.exists():
            return []
        return [json.loads(line) for line in self._book.read_text("utf-8").splitlines()]

    def find(self, key: str, arguments: Mapping[str, Any]) -> Happened | None:
        """Return the receipt of a payment; None if there was none under this key."""
        del arguments
        known = [each["key"] for each in self.payments()]
        return Happened(f"receipt {key}") if key in known else None
