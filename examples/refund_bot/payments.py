"""A payment service, as far as a bot can see it: it keeps a book, and honours idempotency keys."""

import json
import uuid
from pathlib import Path
from typing import Any


class Payments:
    """Pays money back."""

    def __init__(self, directory: Path) -> None:
        """Keep the book in a directory."""
        self._book = directory / "payments.jsonl"

    def refund(self, order: str, cents: int, key: str | None = None) -> str:
        """Pay back; a request that comes again under the same key is the same request."""
        key = key or uuid.uuid4().hex
        if key not in [entry["key"] for entry in self.entries()]:
            with self._book.open("a", encoding="utf-8") as book:
                book.write(json.dumps({"key": key, "order": order, "cents": cents}) + "\n")
        return f"refunded {cents / 100:.2f}"

    def entries(self) -> list[dict[str, Any]]:
        """Return everything that was really paid."""
        if not self._book.exists():
            return []
        return [json.loads(line) for line in self._book.read_text("utf-8").splitlines()]
