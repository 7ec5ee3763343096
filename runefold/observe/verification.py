"""Verifying a whole log: that it is what was written, and that what was written keeps every rule.

`runelog.repair.verify` knows nothing of what runes mean; here they are read once more,
conversation by conversation, and held to the invariants of sessions, agents, turns, tools and
budgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.audits.resume import resumed
from actors.catalogue import KINDS
from actors.invariants import problem, violations
from runelog.errors import RunefoldError
from runelog.repair.verify import Problem
from runelog.repair.verify import verify as verify_log
from runelog.rune import State
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.kind import Kinds
    from runelog.log import Log
    from runelog.repair.verify import Report
    from runelog.rune import Envelope

    Progress = Callable[[int], None]


def verify(
    directory: Path,
    *,
    at_rest: bool = False,
    progress: Progress | None = None,
    kinds: Kinds = KINDS,
) -> Report:
    """Check everything about a log, beside a live writer if there is one.

    What is under way is no problem, unless everything is to be `at_rest`. `progress` is told of
    runes, of each twice. Entities of kinds that are not known here are passed over. Raises only if
    there is no log to look at.
    """
    report = verify_log(directory, codec=kinds.codec, progress=progress)
    told = {each.message for each in report.problems}
    with Runelog.open(directory, kinds.codec, readonly=True) as log:
        for name in [each.id for each in log.conversations() if each.state is not State.ERASED]:
            found = audited(log, name, at_rest=at_rest, progress=progress, kinds=kinds)
            # What is damaged, the log's own verification has found before.
            report.problems += [each for each in found if each.message not in told]
    return report


def audited(
    log: Log,
    conversation: str,
    *,
    at_rest: bool = False,
    progress: Progress | None = None,
    kinds: Kinds = KINDS,
) -> Iterator[Problem]:
    """Yield what is wrong with one conversation, as far as it can be read."""
    try:
        runes = _counted(log.read(conversation), progress)
        yield from violations(runes, at_rest=at_rest, kinds=kinds)
        for found in resumed(log, conversation, kinds.root(conversation).prefix):
            yield problem(conversation, found)
    except (RunefoldError, AssertionError) as error:
        yield Problem("INV-CRC-VALID", "fatal", conversation, str(error))


def _counted(envelopes: Iterator[Envelope], progress: Progress | None) -> Iterator[Envelope]:
    for envelope in envelopes:
        if progress is not None:
            progress(1)
        yield envelope
