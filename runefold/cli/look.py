"""The commands that look at a log: stats, list, show, verify. They work beside a live writer."""

from typing import Annotated

import typer

from runefold.cli import findings
from runefold.cli import show as showing
from runefold.cli import stats as counting
from runefold.cli.failures import Exit
from runefold.cli.options import STATES, Directory, Json, StateName, find, reading
from runefold.cli.screen import Part, Screen, table
from runefold.cli.wording import NOTHING, many, moment, safe, size
from runelog.errors import Refused
from runelog.repair.verify import verify
from runelog.rune import Conversation, State

OneConversation = Annotated[
    str | None,
    typer.Argument(
        metavar="CONVERSATION",
        help="Its id; without one, the whole log in its own order.",
        show_default=False,
    ),
]
After = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Begin behind this event (or position of the whole log)."
    ),
]
Until = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="End with this event (or position).", show_default=False),
]
Last = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Begin so many events before the end.", show_default=False
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Only this kind, or family: turn.started, turn. Repeatable.",
        show_default=False,
    ),
]
Entity = Annotated[
    str | None,
    typer.Option(
        metavar="ENTITY", help="Only what this entity owns or observes.", show_default=False
    ),
]
Seen = Annotated[
    showing.Eyes | None,
    typer.Option(
        "--visibility",
        help="Only what may be seen with so much: public, what any client may.",
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Stop after so many runes.", show_default=False),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what is appended, until Ctrl-C.")
]
Full = Annotated[bool, typer.Option("--full", help="Show long values whole.")]
Long = Annotated[
    bool, typer.Option("--long", "-l", help="Show observers, agent, turn, cause and tags too.")
]


def stats(directory: Directory, *, json: Json = False) -> None:
    """Show what a log holds, what it takes on the disk, and how it was left."""
    screen = Screen()
    with reading(directory) as log:
        found, damage = counting.gather(log)
    if json:
        screen.json(found)
    else:
        for label, told in counting.rows(found):
            screen.line((f"{label:<15}", "dim"), told)
    if damage is not None:
        raise damage


def list_(
    directory: Directory,
    *,
    state: Annotated[
        StateName | None,
        typer.Option(help="Only conversations in this state.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List conversations: state, last event, size, first and last time."""
    screen = Screen()
    with reading(directory) as log:
        found = [
            conversation
            for conversation in log.conversations()
            if state is None or STATES[conversation.state][0] == state
        ]
    if json:
        screen.json([_listed(conversation) for conversation in found])
        return
    if not found:
        screen.note("no conversations" + (f" that are {state}" if state else ""))
        return
    rows: list[list[Part]] = [_row(conversation) for conversation in found]
    rows.insert(
        0, [(head, "bold") for head in ("conversation", "state", "runes", "size", "first", "last")]
    )
    lines = list(table(rows, right=frozenset({2, 3})))
    if screen.width is not None and sum(len(_plain(part)) for part in lines[0]) > screen.width:
        # The first time is what can best be done without.
        lines = list(table([[*row[:4], row[5]] for row in rows], right=frozenset({2, 3})))
    for line in lines:
        screen.line(*line)


def _plain(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


def _listed(conversation: Conversation) -> dict[str, object]:
    # Of an erased one there is no time, nor of one that a repair found nothing of.
    return {
        "id": conversation.id,
        "state": STATES[conversation.state][0],
        "head": conversation.head,
        "bytes": conversation.size,
        "first_time": moment(conversation.first_time, 9) if conversation.first_time else None,
        "last_time": moment(conversation.last_time, 9) if conversation.last_time else None,
    }


def _row(conversation: Conversation) -> list[Part]:
    if conversation.state is State.ERASED:
        return [safe(conversation.id), STATES[State.ERASED], *[NOTHING] * 4]
    return [
        safe(conversation.id),
        STATES[conversation.state],
        f"{conversation.head:,}",
        size(conversation.size),
        *(
            moment(when) if when else NOTHING
            for when in (conversation.first_time, conversation.last_time)
        ),
    ]


def show(  # noqa: PLR0913 -- each is an option of the command
    directory: Directory,
    conversation: OneConversation = None,
    *,
    after: After = 0,
    until: Until = None,
    last: Last = None,
    kind: Kinds = None,
    entity: Entity = None,
    visibility: Seen = None,
    limit: Limit = None,
    follow: Follow = False,
    full: Full = False,
    long: Long = False,
    json: Json = False,
) -> None:
    """Show runes, one a line. Times are UTC.

    Runes of every kind are shown with their fields, internal ones too. What is in a secret rune is
    never shown. Control characters are escaped. With --json: one object a line, values whole.
    """
    screen = Screen()
    families = tuple(given.removesuffix(".*") for given in kind or ())
    query = showing.Query(
        conversation, after, until, families, entity, last, limit, follow, visibility
    )
    if entity is not None and conversation is None:
        msg = "an entity belongs to a conversation: name that too"
        raise Refused(msg)
    shown = 0
    with reading(directory) as log:
        for item in showing.chosen(log, query):
            shown += 1
            if json:
                screen.json(showing.record(item))
            else:
                everything = conversation is None
                screen.line(*showing.line(item, everything=everything, full=full, long=long))
            if follow:
                screen.flush()
    if not shown and not json:
        screen.note("no runes to show")


def check(directory: Directory, *, json: Json = False) -> None:
    """Check everything in a log: checksums, digests, order, indexes, archives, blobs.

    Exit code 1 if something is wrong; a warning alone, about a cache, is none.
    """
    screen = Screen()
    with findings.also_as_json(screen, wanted=json):
        find(directory)
        with screen.progress("verifying", expected(directory)) as progress:
            report = verify(directory, progress=progress)
    if json:
        screen.json(
            {
                "ok": report.ok,
                "runes": report.runes,
                "conversations": report.conversations,
                "segments": report.segments,
                "problems": findings.records(report.problems),
            }
        )
    else:
        findings.tell(screen, report.problems)
        runes, segments = many(report.runes, "rune"), many(report.segments, "segment")
        seen = f"{runes} of {many(report.conversations, 'conversation')} in {segments}"
        if report.ok:
            screen.line(("sound", "bold green"), f": {seen}")
        else:
            screen.line(("damaged", "bold red"), f": {seen} looked at")
        if not report.ok and findings.can_be_repaired(report.problems):
            screen.note("`runefold log repair` sets damage aside and keeps what can be read")
    if not report.ok:
        raise typer.Exit(Exit.PROBLEMS)


def expected(directory: Directory) -> int | None:
    """Return about how many runes there are to look at, None if the index cannot tell."""
    try:
        with reading(directory) as log:
            return sum(conversation.head for conversation in log.conversations())
    except AssertionError:
        # Damage: verifying tells of it.
        return None
