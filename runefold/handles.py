"""Commands in Python: one way to give any command, and handles that have them as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.public_command import Command, Commands


class Commander:
    """Gives commands: a runtime, a client of one, or a log that no runtime has open."""

    commands: Commands
    """Those that it knows, of all kinds."""

    def do(self, conversation: str, command: Command, entity: str = "") -> Any:  # noqa: ANN401 -- the answer
        """Give a command to an entity of a conversation, the session itself if none is named."""
        raise NotImplementedError

    def entity(self, kind: str, conversation: str, entity: str = "") -> Handle:
        """Return a handle of an entity, with the commands of its kind as methods."""
        return Handle(self, kind, conversation, entity)


class Handle:
    """An entity of any kind: `handle.pause(reason="lunch")` gives the kind's command `Pause`."""

    def __init__(self, to: Commander, kind: str, conversation: str, entity: str = "") -> None:
        """Refer to an entity; nothing is asked yet."""
        self._to = to
        self.kind = kind
        self.conversation = conversation
        self.id = entity

    def __repr__(self) -> str:
        """Show which one it is."""
        return f"<{self.kind} {self.id or self.conversation}>"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a command of the kind as a method, which takes its fields by name."""
        found = None if name.startswith("__") else self._to.commands.get(self.kind, name)
        if found is None:
            there = ", ".join(self.__dir__()) or "none: its kind is not known here"
            msg = f"{self.kind} has no command {name}; there are: {there}"
            raise AttributeError(msg)

        def give(*positional: Any, **fields: Any) -> Any:  # noqa: ANN401 -- the command's own fields
            return self._to.do(self.conversation, found(*positional, **fields), self.id)

        give.__name__, give.__doc__ = name, found.__doc__
        return give

    def __dir__(self) -> list[str]:
        """Name the commands of the kind."""
        return [command.verb() for kind, command in self._to.commands if kind.name == self.kind]
