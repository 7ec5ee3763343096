"""The verbs of the command line that give a command to an entity: each is built from its class.

Arguments are the log's directory, the session, the entity if the kind has several, and the fields
without a default; the other fields are options. A command goes to the runtime that has the log
open, through its socket; if none has, it is recorded and carried out by the next one.
"""

from __future__ import annotations

import enum
import getpass
import inspect
import json as plain_json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import inspect as kinds

from actors.public_command import noun
from runefold.cli.commands.deliver import deliver, say_later
from runefold.cli.terminal.options import App, Directory, Json, Session, argument, flag, option
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.kind import Kind, Kinds
    from actors.public_command import Command

STDIN: Final = "-"
_PLAIN: Final = {kinds.StrType: str, kinds.IntType: int, kinds.FloatType: float}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command as it was typed."""

    kinds: Kinds
    directory: Path
    session: str
    entity: str
    command: Command
    json: bool

    def deliver(self) -> tuple[Any, bool]:
        """Give the command; return the answer, and whether a runtime carried it out."""
        return deliver(
            self.directory, self.kinds, lambda to: to.do(self.session, self.command, self.entity)
        )

    def report(self, answer: Any, *, runs: bool) -> None:  # noqa: ANN401 -- of whichever command
        """Print what was done."""
        screen = Screen()
        if self.json:
            whose = {"entity": self.entity} if self.entity else {}
            told = answer if isinstance(answer, dict) else {"answer": answer}
            screen.json({"session": self.session, **whose, **told, "running": runs})
        else:
            begun = answer.get("entity", "") if isinstance(answer, dict) else ""
            about = self.entity or begun or self.session
            line = self.command.report(about, answer, later=not runs)
            done, _, rest = line.partition(" ")
            screen.line((done, "green"), f" {safe(rest)}")
        if not runs:
            say_later(screen, self.directory)


def with_app(*, app: App = "") -> None:
    """Declare the option that names an app: it is read before the verb is known."""


def carry(call: Call, app: str = "") -> None:
    """Give a command and show what was done."""
    del app
    answer, runs = call.deliver()
    call.report(answer, runs=runs)


def verb(
    kinds: Kinds,
    kind: Kind,
    command: type[Command],
    act: Callable[..., None] = carry,
    more: Callable[..., None] | None = None,
) -> Callable[..., None]:
    """Return a command as typer takes it; `act` has the further options that `more` declares."""
    fields = [_Field(each) for each in msgspec.structs.fields(command)]

    def run(**given: Any) -> None:  # noqa: ANN401 -- as the signature says
        values = {each.name: each.value(given.pop(each.name)) for each in fields}
        left = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        call = Call(
            kinds=kinds,
            directory=given.pop("directory"),
            session=given.pop("session"),
            entity=given.pop("entity", ""),
            command=command(**left),
            json=given.pop("json"),
        )
        act(call, **given)

    called = noun(kind, command)
    own = {} if more is None else inspect.signature(more, eval_str=True).parameters
    parameters = [
        _parameter("directory", Directory),
        _parameter("session", Session),
        *([] if kind.single or command.begins else [_parameter("entity", _entity(called))]),
        # A field without a default is an argument, and these come in order.
        *(each.parameter() for each in fields if each.is_argument),
        *(each.parameter() for each in fields if not each.is_argument),
        *([_parameter("entity", _new(called), default="")] if command.begins else []),
        *own.values(),
        _parameter("json", Json, default=False),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__name__, run.__doc__ = command.verb(), command.__doc__
    return run


def _parameter(name: str, of: Any, *, default: Any = inspect.Parameter.empty) -> inspect.Parameter:  # noqa: ANN401 -- a type, a value
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=of, default=default)


def _entity(name: str) -> Any:  # noqa: ANN401 -- a type
    return Annotated[str, argument(name.upper(), f"Id of the {name}.")]


def _new(name: str) -> Any:  # noqa: ANN401 -- a type
    about = f"Id of the new {name}; a command repeated with the same id counts once."
    return Annotated[str, option("ID", about, "--id")]


class _Field:
    """A field of a command, as an argument or an option."""

    def __init__(self, field: msgspec.structs.FieldInfo) -> None:
        self.name = field.name
        self.default = field.default
        self._wanted = field.type
        found = kinds.type_info(field.type)
        self._extra: dict[str, Any] = {}
        self._help = ""
        while isinstance(found, kinds.Metadata):
            # The outermost comes last: it says more than the type that it is made of.
            self._extra = (found.extra or {}) | self._extra
            self._help = self._help or (found.extra_json_schema or {}).get("description", "")
            found = found.type
        if isinstance(found, kinds.UnionType):
            found, *_ = [each for each in found.types if not isinstance(each, kinds.NoneType)]
        self._type = found

    @property
    def is_argument(self) -> bool:
        """Return True if it is required."""
        return self.default is msgspec.NODEFAULT and "who" not in self._extra

    def parameter(self) -> inspect.Parameter:
        """Return it as a parameter of the verb."""
        metavar = self._extra.get("metavar")
        if self.is_argument:
            shown = metavar or self.name.upper()
            return _parameter(self.name, Annotated[self._asked(), argument(shown, self._help)])
        if isinstance(self._type, kinds.BoolType):
            name = f"--{_hyphened(self.name)}"
            both = f"{name}/--no-{_hyphened(self.name)}" if self.default else name
            shown, told = self._extra.get("off") or (both, self._help)
            value = bool(self.default) and "off" not in self._extra
            return _parameter(self.name, Annotated[bool, flag(told, shown)], default=value)
        shown = self._extra.get("option") or f"--{_hyphened(self.name)}"
        about = option(metavar, self._help, shown)
        return _parameter(self.name, Annotated[self._asked() | None, about], default=None)

    def _asked(self) -> Any:  # noqa: ANN401 -- a type
        if isinstance(self._type, kinds.LiteralType):
            words = {str(each): _hyphened(str(each)) for each in self._type.values}
            return enum.StrEnum(self.name, words)
        return _PLAIN.get(type(self._type), str)

    def value(self, given: Any) -> Any:  # noqa: ANN401 -- as it was typed, and as it is meant
        """Return what was typed as a value of the field; UNSET if nothing was."""
        if given is None:
            return me() if "who" in self._extra else msgspec.UNSET
        match self._type:
            case kinds.BoolType():
                return given != ("off" in self._extra)
            case kinds.LiteralType():
                return given.name
            case kinds.StrType():
                return sys.stdin.read() if "stdin" in self._extra and given == STDIN else given
            case kinds.IntType() | kinds.FloatType():
                return given
            case _:
                return self._read(given)

    def _read(self, given: str) -> Any:  # noqa: ANN401 -- of whichever type
        """Return what was typed as the field takes it, such as a Struct that is typed as JSON."""
        try:
            return msgspec.convert(_parsed(given), self._wanted)
        except msgspec.ValidationError as error:
            msg = f"{self.name} cannot be read as JSON of what it takes: {error}".replace("`", "")
            raise Refused(msg) from None


def _hyphened(name: str) -> str:
    return name.replace("_", "-")


def _parsed(given: str) -> object:
    """Return what was typed: as JSON if it is that, else as text."""
    try:
        given.encode()
        return plain_json.loads(given)
    except UnicodeEncodeError:
        msg = "that is not valid text in the encoding of this terminal"
        raise Refused(msg) from None
    except ValueError:
        return given


def me() -> str:
    """Return the name of this user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name.
        return f"user {os.getuid()}"
