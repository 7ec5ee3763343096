"""The commands that change a log: archive, restore, erase, repair. Nobody else may write then."""

from typing import Annotated

import typer

from actors.catalogue import CODEC
from runefold.cli import findings
from runefold.cli.failures import Exit
from runefold.cli.options import (
    STATES,
    Conversations,
    Directory,
    Json,
    find,
    has_segments,
    ids,
    reading,
    writing,
)
from runefold.cli.screen import Screen
from runefold.cli.wording import many, safe
from runefold.observe.session_list import check_ended
from runelog.errors import Refused
from runelog.repair.repair import Repaired, repair
from runelog.repair.verify import Report, verify
from runelog.rune import Conversation, State
from runelog.store import Runelog


def archive(directory: Directory, conversations: Conversations, *, json: Json = False) -> None:
    """Move conversations to cold storage: compressed, still listed, still readable.

    A session has to be closed before.
    """
    screen = Screen()
    with writing(directory, CODEC) as log:
        before = _described(log, conversations)
        for found in before:
            check_ended(log, found.id, f"runefold close {directory} {found.id}")
        with screen.progress("archiving"):
            log.archive(*(found.id for found in before))
    _tell(screen, before, State.ARCHIVED, json=json)


def restore(directory: Directory, conversations: Conversations, *, json: Json = False) -> None:
    """Bring archived conversations back, so that they can be appended to again."""
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
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask: what is erased cannot be brought back.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove every rune, blob and snapshot of conversations for good, leaving a tombstone each.

    Asks for each id to be typed again, unless --yes.
    """
    screen = Screen()
    # Asked before the log is held: other writers need not wait for an answer.
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
        # A copy for whoever can read more out of it: not ours to delete, and not to be forgotten.
        screen.note(
            f"an earlier repair set {', '.join(map(safe, aside))} aside, in {safe(str(directory))}"
            "/damaged: what was erased may still be in there; delete it if nobody needs it"
        )


def mend(directory: Directory, *, json: Json = False) -> None:
    """Set damage aside and make the log writable again, keeping every rune that can be read.

    Verifies the log afterwards. Exit code 1 if runes were lost, or if something is still wrong.
    Damaged files stay in DIR/damaged.
    """
    screen = Screen()
    if not has_segments(directory):
        # Whatever else it is, it is nothing to leave a file in.
        find(directory)
    with screen.progress("repairing") as progress:
        done = repair(directory, progress=progress)
    with screen.progress("verifying") as progress:
        report = verify(directory, progress=progress)
    if json:
        screen.json(
            {
                "ok": report.ok,
                "set_aside": list(done.segments),
                "runes_kept": done.runes_kept,
                "runes_lost": done.runes_lost,
                "more_lost": done.more_lost,
                "notes": list(done.notes),
                "problems": findings.records(report.problems),
            }
        )
    else:
        _tell_repair(screen, done, report)
    if done.runes_lost or done.more_lost or not report.ok:
        raise typer.Exit(Exit.PROBLEMS)


def _tell_repair(screen: Screen, done: Repaired, report: Report) -> None:
    for note in done.notes:
        screen.line(safe(note))
    for name in done.segments:
        screen.line(("set aside", "yellow"), f": {safe(name)}")
    findings.tell(screen, report.problems)
    kept = many(done.runes_kept, "rune")
    if done.runes_lost or done.more_lost:
        lost = many(done.runes_lost, "rune")
        if done.more_lost:
            lost = f"at least {lost}" if done.runes_lost else "nobody knows how many"
        screen.line(("not everything could be saved", "bold red"), f": {kept} kept, {lost} lost")
    if not report.ok:
        screen.line(("still damaged", "bold red"), ": restore what is named above from a backup")
    elif done.runes_lost or done.more_lost:
        screen.line(("sound", "bold green"), " again: the log can be written to")
    elif done.segments or done.notes:
        told = f"{kept} kept, none lost" if done.runes_kept else "nothing was lost"
        screen.line(("repaired", "bold green"), f": {told}")
    else:
        screen.line(("sound", "bold green"), ": nothing to repair")


def _described(log: Runelog, conversations: list[str]) -> list[Conversation]:
    """Return what is known of conversations; an unknown one is refused before anything is done."""
    return [log.conversation(name) for name in ids(conversations)]


def _confirm(screen: Screen, found: Conversation) -> None:
    screen.note(f"{found.id} has {many(found.head, 'rune')}. Erased runes cannot be brought back.")
    if screen.ask("Type its id to erase it") != found.id:
        msg = "that is not its id: nothing was erased (--yes erases without asking)"
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
            screen.line(f"{found.id} was {word} already")
        else:
            screen.line((verb, style), f" {found.id}, {many(found.head, 'rune')}")
