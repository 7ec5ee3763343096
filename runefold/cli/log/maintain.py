"""The commands that change a log: archive, restore, erase, repair. They need it for themselves."""

from typing import Annotated

import typer

from actors.catalogue import CODEC
from runefold.cli.terminal import problems
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import (
    STATES,
    Conversations,
    Directory,
    Json,
    find,
    flag,
    has_segments,
    ids,
    reading,
    writing,
)
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import many, plain, record, safe
from runefold.observe.session_list import check_ended
from runelog.errors import Refused
from runelog.repair.repair import Repaired, repair
from runelog.repair.verify import Report, verify
from runelog.rune import Conversation, State
from runelog.store import Runelog


def archive(directory: Directory, conversations: Conversations, *, json: Json = False) -> None:
    """Move conversations to cold storage: compressed, still listed and readable.

    A session must be closed first.
    """
    screen = Screen()
    with writing(directory, CODEC) as log:
        before = _described(log, conversations)
        for found in before:
            check_ended(log, found.id, f"`runefold close {directory} {found.id}`")
        with screen.progress("archiving"):
            log.archive(*(found.id for found in before))
    _tell(screen, before, State.ARCHIVED, json=json)


def restore(directory: Directory, conversations: Conversations, *, json: Json = False) -> None:
    """Bring archived conversations back; they can be written to again."""
    screen = Screen()
    with writing(directory) as log:
        before = _described(log, conversations)
        with screen.progress("restoring"):
            log.restore(*(found.id for found in before))
    _tell(screen, before, State.LIVE, json=json)


def erase(
    directory: Directory,
    conversations: Conversations,
    *,
    yes: Annotated[bool, flag("Skip the confirmation. Erasing cannot be undone.", "--yes")] = False,
    json: Json = False,
) -> None:
    """Erase conversations: every rune, blob and snapshot. A tombstone stays in place of each.

    Asks for each id to be typed again, unless --yes is given.
    """
    screen = Screen()
    # Asked before the log is held: other writers do not wait for the answer.
    with reading(directory) as log:
        before = _described(log, conversations)
    if not yes:
        for found in before:
            if found.state is not State.ERASED:
                _confirm(screen, found)
    with writing(directory) as log, screen.progress("erasing"):
        log.erase(*(found.id for found in before))
    _tell(screen, before, State.ERASED, json=json)
    aside = sorted(path.name for path in directory.glob("damaged/*.mdb*"))
    if aside:
        # More may be read from them one day, so they are not deleted here.
        screen.note(
            f"an earlier repair set {', '.join(map(safe, aside))} aside, in {safe(str(directory))}"
            "/damaged: erased data may still be in there; delete it if you do not need it"
        )


def mend(directory: Directory, *, json: Json = False) -> None:
    """Set damage aside and make the log writable again, with every rune that can be read.

    Verifies the log afterwards. Exit code 1 if runes were lost or problems are left. Damaged files
    are kept in DIR/damaged.
    """
    screen = Screen()
    if not has_segments(directory):
        find(directory)
    with screen.progress("repairing") as progress:
        done = repair(directory, progress=progress)
    with screen.progress("verifying") as progress:
        report = verify(directory, progress=progress)
    if json:
        fields = record(done)
        fields["set_aside"] = fields.pop("segments")
        screen.json({"ok": report.ok, **fields, "problems": plain(report.problems)})
    else:
        _tell_repair(screen, done, report)
    if done.runes_lost or done.more_lost or not report.ok:
        raise typer.Exit(Exit.PROBLEMS)


def _tell_repair(screen: Screen, done: Repaired, report: Report) -> None:
    for note in done.notes:
        screen.line(safe(note))
    for name in done.segments:
        screen.line(("set aside", "yellow"), f": {safe(name)}")
    problems.tell(screen, report.problems)
    kept = many(done.runes_kept, "rune")
    if done.runes_lost or done.more_lost:
        lost = many(done.runes_lost, "rune")
        if done.more_lost:
            lost = f"at least {lost}" if done.runes_lost else "an unknown number of runes"
        screen.line(("some runes were lost", "bold red"), f": {kept} kept, {lost} lost")
    if not report.ok:
        screen.line(("still damaged", "bold red"), ": restore the files named above from a backup")
    elif done.runes_lost or done.more_lost:
        screen.line(("sound", "bold green"), " again: the log can be written to")
    elif done.segments or done.notes:
        told = f"{kept} kept, none lost" if done.runes_kept else "nothing was lost"
        screen.line(("repaired", "bold green"), f": {told}")
    else:
        screen.line(("sound", "bold green"), ": nothing to repair")


def _described(log: Runelog, conversations: list[str]) -> list[Conversation]:
    """Return what the index knows of conversations; refuse one that is not there."""
    return [log.conversation(name) for name in ids(conversations)]


def _confirm(screen: Screen, found: Conversation) -> None:
    screen.note(f"{found.id} has {many(found.head, 'rune')}. Erasing cannot be undone.")
    if screen.ask("Type its id to erase it") != found.id:
        msg = "that is not its id: nothing was erased (--yes skips this question)"
        raise Refused(msg)


def _tell(screen: Screen, before: list[Conversation], state: State, *, json: bool) -> None:
    word, style = STATES[state]
    if json:
        screen.json(
            [
                {
                    "id": found.id,
                    "state": word,
                    "head": found.head,
                    "changed": found.state is not state,
                }
                for found in before
            ]
        )
        return
    verb = "restored" if state is State.LIVE else word
    for found in before:
        if found.state is state:
            screen.line(f"{found.id} is already {word}")
        else:
            screen.line((verb, style), f" {found.id}, {many(found.head, 'rune')}")
