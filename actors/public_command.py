"""A command: what users may ask of an entity, declared once by the entity's kind.

The class of a command is all there is to say about it. Its docstring is the help text and says when
it is refused; its fields are the arguments. The Python handle, the socket's message, the offline
writer and the verb of the command line are derived from it, for our kinds and for those of an app.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from actors.children import CreateChild
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.kind import Kind
    from actors.ports import CommandRuntime

ADDRESS: Final = ("do", "kind", "conversation", "entity")
"""What a message says beside the fields of a command."""
DECIDE: Final = "decide"
"""The id of what is decided on alone: what else the command does, the process does that asks."""
_TAKEN: Final = frozenset({*ADDRESS, DECIDE, "directory", "session", "json", "app"})
LONGEST: Final = 10_000
"""No reason has more characters."""
MOST: Final = 2**53
"""No amount is larger."""


def about(description: str, **more: Any) -> Meta:  # noqa: ANN401 -- whatever the command line takes
    """Describe a field for people, with what the command line needs to know of it.

    `option` is the name of its option, `metavar` what is shown for its value; `stdin` allows `-`
    for standard input, `off` is the flag that makes it false, with its help; `who` is filled in
    with the user's name.
    """
    return Meta(description=description, extra=more)


Reason = Annotated[
    str, Meta(max_length=LONGEST), about("Why; the reason is recorded.", metavar="TEXT")
]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Quantity = Annotated[float, Meta(ge=0, le=1e9)]
Who = Annotated[str, about("Who says so. [default: you]", option="--as", metavar="NAME", who=True)]


_UNKNOWN: Final = "A machine of an app is known to a runtime opened with its kinds=[...]"


class DecisionInput:
    """What a command can look up where its entity decides on it: in its actor, or offline."""

    def __init__(self, ctx: Any, entity: str, state: Any, order: Order, *, offline: bool) -> None:  # noqa: ANN401 -- this module is pure: the conversation is not
        """Take the entity as it is now."""
        self._ctx = ctx
        self.conversation: str = ctx.conversation
        self.entity = entity
        self.state = state
        """What the entity's runes add up to."""
        self.process = order.process
        """The other process that asks; empty if it is the app itself."""
        self.request_id = order.request_id
        """The id of this request, if the command is `numbered`."""
        self.offline = offline
        """No runtime has the log open: what is decided is recorded, and nothing is run."""

    def now(self) -> int:
        """Return the time, in nanoseconds."""
        return int(self._ctx.services.clock.now())

    def new_id(self, prefix: str) -> str:
        """Return a new id."""
        return str(self._ctx.services.chance.id(prefix))

    def check_id(self, value: str, what: str) -> str:
        """Return an id, or refuse what is none or holds a secret: ids are kept as they are."""
        return check_id(self._ctx.services.redactor.value(value), what)

    def birth(self, entity: str) -> Any:  # noqa: ANN401 -- whatever it began with
        """Return the first rune of a stream of this conversation; None if the log has none."""
        return self._ctx.birth(entity)

    def is_halted(self, entity: str) -> bool:
        """Return True if an entity is to begin nothing outside, as long as it is paused."""
        return bool(self._ctx.is_halted(entity))


class CommandTarget(NamedTuple):
    """The entity that a command goes to, in the runtime that has the log open."""

    runtime: CommandRuntime
    kind: Kind
    conversation: str
    entity: str
    process: str
    timeout: float | None
    """How many seconds may be waited for what the command leads to."""

    async def order(self, command: Command, request: str = "") -> None:
        """Have the entity decide on the command; return once that is on disk.

        The `request` has an id already if it comes from another process.
        """
        if command.begins:
            await self.ask(CreateChild(self.kind.name, self.entity, command))
            return
        if command.numbered and not request:
            request = self.runtime.new_id("cmd")
        order = Order(command, self.process, request)
        single = self.kind.single
        await self.ask(order if single else Forward(self.kind.name, self.entity, order))

    async def ask(self, message: object, *how: Any) -> Any:  # noqa: ANN401 -- as `Core.ask` takes and gives
        """Ask the session's actor."""
        return await self.runtime.ask(self.conversation, message, *how)

    async def wait_for(self, kind: str) -> None:
        """Wait until the log has a rune of this kind in the conversation."""
        await self.runtime.wait_for(self.conversation, kind, self.timeout)


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all commands. A subclass that says nothing more is decided on by its kind's law."""

    noun: ClassVar[str] = ""
    """What users call the entity that it goes to; empty for the name of its kind."""
    offline: ClassVar[Literal["at_once", "later", "no"]] = "at_once"
    """What is recorded if no runtime has the log open: what the command leads to and everything
    that follows from it at once; the command alone; or nothing, and it is refused."""
    way_out: ClassVar[str] = "start one with `runefold serve`"
    """What to do if it is refused offline."""
    done: ClassVar[str] = "done"
    """How the command line reports it."""
    begins: ClassVar[bool] = False
    """Whether it begins an entity, with an id of the user's choice or a new one."""
    numbered: ClassVar[bool] = False
    """Asked again after a crash it must count once, and only an id can tell: it is given one, and
    the law decides on it as `Numbered`."""

    @classmethod
    def verb(cls) -> str:
        """Return its name: `HandOver` is `hand_over`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def check(self) -> None:
        """Refuse what the types of the fields allow and the command does not."""

    def law_command(self, given: DecisionInput) -> object:
        """Return what the law decides on: this command, unless that needs what has to be looked up.

        None if there is nothing to decide.
        """
        return Numbered(self, given.request_id) if self.numbered else self

    async def execute(self, target: CommandTarget) -> Any:  # noqa: ANN401 -- whatever it is answered with
        """Execute it in the runtime that has the log open; return the answer, in plain values.

        It must not block: callers may wait in an event loop.
        """
        await target.order(self)
        return {"entity": target.entity} if self.begins else None

    def offline_answer(self, recorded: Any) -> Any:  # noqa: ANN401 -- as above
        """Return the answer to what was recorded offline: the law's command, or None."""
        del recorded

    def report(self, entity: str, answer: Any, *, later: bool) -> str:  # noqa: ANN401 -- as above
        """Return one line that reports it; `later` if a runtime has yet to act on it."""
        del answer, later
        return f"{self.done} {entity}"


class Numbered(msgspec.Struct, frozen=True):
    """A command with the id of the request, so that it counts once however often it is asked."""

    command: Command
    request_id: str


class Order(NamedTuple):
    """A command on its way to the actor of its entity."""

    command: Command
    process: str = ""
    request_id: str = ""


class Forward(NamedTuple):
    """Pass a message on to an entity of this conversation, which answers it."""

    kind: str
    entity: str
    message: object


class Commands:
    """The commands of several kinds, found by kind and name. Built from a list of kinds."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        """Take kinds with commands; `Refused` names a command that cannot work."""
        self.kinds = {kind.name: kind for kind in kinds if kind.commands}
        self._found: dict[tuple[str, str], type[Command]] = {}
        self._kinds: dict[type[Command], Kind] = {}
        for kind in self.kinds.values():
            for command in kind.commands:
                _check_declared(command)
                self._found[kind.name, command.verb()] = command
                if self._kinds.setdefault(command, kind) is not kind:
                    other = self._kinds[command].name
                    msg = f"{command.__name__} is a command of {kind.name} and of {other}: make two"
                    raise Refused(msg)

    def __iter__(self) -> Iterator[tuple[Kind, type[Command]]]:
        """Yield every command with its kind."""
        return ((kind, command) for command, kind in self._kinds.items())

    def get(self, kind: str, verb: str) -> type[Command] | None:
        """Return the command of a kind by its name; None if there is none."""
        return self._found.get((kind, verb))

    def find(self, kind: str, verb: str) -> type[Command]:
        """Return the command of a kind by its name, or refuse a name that is none."""
        found = self.get(kind, verb)
        if found is None:
            known = ", ".join(name for of, name in self._found if of == kind)
            msg = f"{kind!r:.80} has no command {verb!r:.80}; there are: {known or 'none'}"
            if kind not in self.kinds:
                msg = f"{msg}. {_UNKNOWN}"
            raise Refused(msg)
        return found

    def address(self, command: Command, entity: str = "") -> tuple[Kind, str]:
        """Return the kind of a command and the entity that it goes to, after checking both."""
        kind = self._kinds.get(type(command))
        if kind is None:
            msg = f"{type(command).__name__} is a command of no kind that is known here. {_UNKNOWN}"
            raise Refused(msg)
        if kind.single:
            entity = entity or kind.prefix
        if entity or not command.begins:
            check_id(entity, f"{noun(kind, command)} id")
        if command.begins and entity and entity.partition("_")[0] != kind.prefix:
            msg = f"{entity!r:.80} cannot be the id of a {kind.name}: begin it with {kind.prefix}_"
            raise Refused(msg)
        checked(command)
        return kind, entity


def noun(kind: Kind, command: Command | type[Command]) -> str:
    """Return what users call the entity that a command goes to."""
    return command.noun or kind.name


def _check_declared(command: type[Command]) -> None:
    for name in command.__struct_fields__:
        if name in _TAKEN or hasattr(Command, name):
            msg = f"{command.__name__} cannot have a field {name!r}: every command has one already"
            raise Refused(msg)


def checked(command: Command) -> None:
    """Refuse a command whose fields are not what their types say: Python does not look at those."""
    fields = msgspec.structs.asdict(command)
    try:
        found = msgspec.convert(fields, type(command))
    except msgspec.ValidationError as error:
        for field in msgspec.structs.fields(command):
            _check_field(field.name, fields[field.name], field.type)
        msg = f"{command.verb()}: {error}"
        raise Refused(msg) from None
    for name, value in fields.items():
        # What could be read as its type is not of it yet: a law would take a dict for a Struct.
        if getattr(found, name) != value:
            msg = f"{name} is {value!r:.80}: give {getattr(found, name)!r:.80}"
            raise Refused(msg)
    command.check()
    for name, value in fields.items():
        if isinstance(value, str):
            _check_text(name, value)


def _check_text(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        msg = f"{name} is no text that can be stored: it holds {half!r}, half of a character"
        raise Refused(msg) from None


def _check_field(name: str, value: object, wanted: Any) -> None:  # noqa: ANN401 -- a type
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        what = _wanted(msgspec.inspect.type_info(wanted)) or str(error)
        msg = f"{name} is {value!r:.80}: {what}"
        raise Refused(msg) from None


def _wanted(kind: msgspec.inspect.Type) -> str:
    """Return what a field takes, in words."""
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return _wanted(inner)
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(filter(None, map(_wanted, types)))
        case msgspec.inspect.IntType(ge=least):
            return "give a whole number" + ("" if least is None else f", {least} or more")
        case msgspec.inspect.FloatType(ge=least):
            return "give a number" + ("" if least is None else f", {least:g} or more")
        case msgspec.inspect.StrType(max_length=most):
            return "give a text" + ("" if most is None else f", and use up to {most:,} characters")
        case msgspec.inspect.BoolType():
            return "give True or False"
        case msgspec.inspect.LiteralType(values=values):
            return f"give {' or '.join(map(repr, values))}"
        case _:
            return ""
