"""The commands that show a log: stats, list, show. They work while another process writes."""

from typing import Annotated

from runefold.cli.log import show as showing
from runefold.cli.log import stats as counting
from runefold.cli.terminal.options import (
    STATES,
    Directory,
    Json,
    StateName,
    argument,
    flag,
    option,
    reading,
)
from runefold.cli.terminal.screen import Part, Screen, headed, table, text_of
from runefold.cli.terminal.wording import NOTHING, moment, record, safe, size
from runelog.errors import Refused
from runelog.rune import Conversation, State

OneConversation = Annotated[
    str | None, argument("CONVERSATION", "Its id; the whole log if left out.")
]
After = Annotated[
    int, option("N", "Start after event N (or position N of the whole log).", least=0, default=True)
]
Until = Annotated[int | None, option("N", "Stop after event N (or position N).", least=0)]
Last = Annotated[int | None, option("N", "Show only the last N events.", least=0)]
Kinds = Annotated[
    list[str] | None, option("KIND", "Only this kind, or family: turn.started, turn. Repeatable.")
]
Entity = Annotated[str | None, option("ENTITY", "Only what this entity owns or observes.")]
Seen = Annotated[
    showing.Level | None, option(None, "Only runes visible at this level.", "--visibility")
]
Limit = Annotated[int | None, option("N", "Stop after N runes.", least=1)]
Follow = Annotated[bool, flag("Keep printing new entries until Ctrl-C.", "--follow", "-f")]
Full = Annotated[bool, flag("Show long values in full.", "--full")]
Long = Annotated[bool, flag("Also show observers, agent, turn, cause and tags.", "--long", "-l")]


def stats(directory: Directory, *, json: Json = False) -> None:
    """Show size, contents and state of a log."""
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
        option(None, "Only conversations in this state."),
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
    rows = headed(("conversation", "state", "runes", "size", "first", "last"), map(_row, found))
    lines = list(table(rows, right={2, 3}))
    if screen.width is not None and sum(map(len, map(text_of, lines[0]))) > screen.width:
        # Without the time of the first rune.
        lines = list(table([[*row[:4], row[5]] for row in rows], right={2, 3}))
    for line in lines:
        screen.line(*line)


def _listed(found: Conversation) -> dict[str, object]:
    # An erased one has no times, nor has one of which a repair found nothing.
    fields = record(found)
    return {**fields, "state": STATES[found.state][0], "bytes": fields.pop("size")}


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

    Internal runes are shown as well; the contents of secret runes never are. Control characters are
    escaped. With --json: one object a line, with values in full.
    """
    screen = Screen()
    families = tuple(given.removesuffix(".*") for given in kind or ())
    query = showing.Query(
        conversation, after, until, families, entity, last, limit, follow, visibility
    )
    if entity is not None and conversation is None:
        msg = "--entity needs a CONVERSATION: name that too"
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
