"""Rules about what an operator is told: no secrets, and no dearer for every runtime there was."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from actors.app_errors import report
from actors.operator_log import add_redactor, log
from actors.redaction.redactor import DEFAULT, Redactor

if TYPE_CHECKING:
    from collections.abc import Callable


class Counting(Redactor):
    """A redactor that knows how often it is asked."""

    asked = 0

    def text(self, text: str) -> str:
        """Count, and answer as usual."""
        self.asked += 1
        return super().text(text)


@pytest.fixture
def tell(caplog: pytest.LogCaptureFixture) -> Callable[[str], str]:
    """Return what logs a word, and returns what a handler is given."""

    def told(word: str) -> str:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "runefold"):
            log.warning("something", word=word)
        (record,) = caplog.records
        return str(record.__dict__["word"])

    return told


def test_a_redactor_is_asked_once_however_often_it_is_named(tell: Callable[[str], str]) -> None:
    """Runtimes that are opened again and again with the same one make nothing dearer."""
    redactor = Counting([r"acct-\d+"])
    add_redactor(redactor)
    tell("acct-1")
    once = redactor.asked
    for _ in range(100):
        add_redactor(redactor)
    redactor.asked = 0

    assert tell("acct-1").startswith('{"redacted"')
    assert redactor.asked == once


def test_the_default_is_asked_once_however_many_runtimes_there_were(
    monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], str]
) -> None:
    """It is asked in any case, and lives for ever: nobody need remember it."""
    asked: list[str] = []

    def text(redactor: Redactor, text: str) -> str:
        if redactor is DEFAULT:
            asked.append(text)
        return text

    for _ in range(100):
        add_redactor(DEFAULT)
    monkeypatch.setattr(Redactor, "text", text)
    tell("hello")

    assert asked.count("hello") == 1


def test_a_redactor_that_is_gone_is_asked_no_more(tell: Callable[[str], str]) -> None:
    """What it replaced is of no concern once its runtime is gone."""
    redactor = Redactor([r"acct-\d+"])
    add_redactor(redactor)
    before = tell("acct-1")
    del redactor
    gc.collect()

    assert (before != "acct-1", tell("acct-1")) == (True, "acct-1")


_SILENT = """
import sys
from actors.operator_log import log
from runefold import Runtime

log.info("nobody listens")
print("structlog" in sys.modules)
log.warning("nobody listens, and somebody may")
print("structlog" in sys.modules)
"""


def test_a_process_that_logs_nothing_does_not_import_structlog() -> None:
    """It takes a third of the time that all of runefold takes, in every short process."""
    done = subprocess.run(
        [sys.executable, "-c", _SILENT], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True"]


_UNSET = """
from actors.app_errors import report
from actors.operator_log import log

log.info("nobody asked")
log.warning("slow", by="a tool", lines="one\\ntwo")
try:
    {}["card"]
except KeyError as error:
    report("tool_failed", error, tool="refund")
"""


def test_warnings_are_seen_where_nobody_set_up_logging() -> None:
    """As with any library: on standard error, each with its fields, and an error with its stack."""
    done = subprocess.run(
        [sys.executable, "-c", _UNSET], capture_output=True, text=True, check=True
    )
    slow, failed, *stack = done.stderr.splitlines()

    assert slow == r"slow: by='a tool' lines='one\ntwo'"
    assert failed == """tool_failed: tool=refund error="KeyError: 'card'\""""
    assert (stack[0], stack[-1]) == ("Traceback (most recent call last):", "KeyError: 'card'")


def test_a_message_has_the_fields_and_is_no_format(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged is taken as it is, and a long field is cut in the message alone."""
    log.warning("said", text="100 %s", long="x" * 1_000)
    (record,) = caplog.records

    assert record.getMessage() == f"said: text='100 %s' long={'x' * 400}"
    assert vars(record)["long"] == "x" * 1_000


def test_half_a_character_can_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """What an error says goes to files and terminals, whatever it is."""
    report("tool_failed", ValueError("\ud800"), tool="\udfff")

    assert caplog.text.encode().count(rb"\ud800") == 2
    assert caplog.text.encode().count(rb"\udfff") == 1
