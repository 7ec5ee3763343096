"""An app's own machines in a simulation: begun, given commands, answered, and cut off anywhere.

An app is described by its kinds, the tools that they call and the models that they ask. Commands
and their values are drawn from what the kinds declare.
"""

from __future__ import annotations

import enum
import types
import typing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Union

import msgspec

from actors.model.provider import ToolCall
from actors.tool.public_commands import Approve, Deny
from runefold.naming import imported
from runefold.testing.simulation.plan.plans import ToolPlan
from runefold.testing.simulation.world.models import Model
from runefold.testing.simulation.world.tools import PlannedTool
from runelog.errors import Refused
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.kind import Kind
    from actors.model.provider import Request
    from actors.public_command import Command
    from actors.tool.context import Call
    from actors.tool.outcome import Outcome
    from actors.tool.spec import Tool, ToolSpec
    from runefold.testing.simulation.plan.plans import Act, Round
    from runefold.testing.simulation.world.tools import ToolContext
    from runefold.testing.simulation.world.users import Users

TEXTS: Final = ("bread", "a", "two words", SYSTEM)
NUMBERS: Final = (1, 0, 99, 20_000, 10_000_000)
"""Values of commands' fields: small ones, and ones beyond most limits."""


class App(NamedTuple):
    """An app whose machines a simulation plays.

    Each tool is replaced by one of the same name and parameters that fails as the plan says, and
    whose effects are counted. Each model answers as the plan says.
    """

    kinds: Sequence[Kind]
    tools: Sequence[Tool] = ()
    models: Sequence[str] = ()


NO_APP: Final = App(())


def app_named(reference: str) -> App:
    """Return the app that `package.module:name` names; none at all if nothing is named."""
    if not reference:
        return NO_APP
    found = imported(reference, "app")
    if not isinstance(found, App):
        msg = f"{reference} is no runefold.testing.simulation.App: make it one of its kinds"
        raise Refused(msg)
    return found


# -- what machines use ---------------------------------------------------------------------------


class AppTool(PlannedTool):
    """A tool of an app: called as the app declares it, and as reliable as the plan says."""

    def __init__(self, number: int, tool: Tool, hand: ToolContext) -> None:
        """Stand in for a tool of the app."""
        plans = hand.world.app_tools or (ToolPlan(),)
        super().__init__(number, plans[number % len(plans)], hand)
        own = tool.spec
        self._fit = tool.fit
        self._name = own.name
        self._spec = replace(
            self._spec, name=own.name, description=own.description, parameters=own.parameters
        )

    @property
    def spec(self) -> ToolSpec:
        """What is declared of it."""
        return self._spec

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the app's tool takes them."""
        return self._fit(arguments)

    def run(self, call: Call) -> Outcome:
        """Run it as the plan says; its effect does not depend on its arguments."""
        return super().run(replace(call, arguments={"n": 1}))


class AppModel(Model):
    """A model that machines ask: it answers with the plan's next word, whatever it is asked."""

    def _word(self, request: Request) -> int:
        words = max(len(self._context.world.words), 1)
        key = f"{request.conversation}/{request.call_id}"
        return sum(key.encode()) % words

    def _script(self, word: int, request: Request) -> Round | None:
        del request
        words = self._context.world.words
        rounds = words[word].rounds if word < len(words) else ()
        return rounds[0] if rounds else None

    def _call(self, number: int, word: int, request: Request) -> ToolCall:
        del word
        if not request.tools:
            return ToolCall("no_such_tool", "{}")
        asked = request.tools[number % len(request.tools)]
        properties = asked.get("parameters", {}).get("properties", {})
        arguments = {
            name: number if each.get("type") in {"integer", "number"} else TEXTS[number % 3]
            for name, each in properties.items()
        }
        return ToolCall(asked["name"], msgspec.json.encode(arguments).decode())


# -- what users do with machines -----------------------------------------------------------------


class Begun(NamedTuple):
    """An entity that a user began, or tried to."""

    conversation: str
    entity: str
    command: Command


class MachineUsers:
    """The users of an app's machines. They remember what they began."""

    def __init__(self, users: Users) -> None:
        """Begin with nothing begun."""
        self._users = users
        self._sim = users.sim
        self._begun: list[Begun] = []
        self.unsure: dict[tuple[str, str], Begun] = {}
        """What a user tried to begin, and was not told of whether it was."""
        self.doings: dict[str, Callable[[Act], str]] = {
            "begin": self._begin,
            "begin_again": self._begin_again,
            "command": self._command,
        }

    def _commands(self, *, begin: bool) -> list[tuple[Kind, type[Command]]]:
        own = {kind.name for kind in self._sim.app.kinds}
        found = self._sim.kinds.commands
        return [each for each in found if each[0].name in own and each[1].begins is begin]

    def _begin(self, act: Act) -> str:
        known = self._commands(begin=True)
        if not known:
            return "no machine that a user can begin"
        kind, command = known[act.what % len(known)]
        conversation = SYSTEM if not kind.parents and act.who % 2 else self._users.name(act)
        entity = f"{kind.prefix}_{len(self._begun) + 1:016x}"
        begun = Begun(conversation, entity, filled(command, act.how))
        self._begun.append(begun)
        return self.begin(begun)

    def begin(self, begun: Begun) -> str:
        """Begin an entity, and hold it against the log that this was answered."""
        conversation, entity, command = begun
        if conversation != SYSTEM:
            self._users.session(conversation)
        self.unsure[conversation, entity] = begun
        try:
            self._sim.runtime.do(conversation, command, entity)
        except Refused:
            self.unsure.pop((conversation, entity), None)
            raise
        self.unsure.pop((conversation, entity), None)
        if (conversation, entity) not in self._sim.checker.folds:
            told = f"the app was told that {entity} of {conversation} has begun; it is not on disk"
            self._sim.truth.complain("never lost", told)
        return f"begins {entity} of {conversation}: {command}"

    def _begin_again(self, act: Act) -> str:
        if not self._begun:
            return "nothing to begin again"
        return "again " + self.begin(self._begun[act.what % len(self._begun)])

    def _command(self, act: Act) -> str:
        if not self._begun:
            return "nothing to give a command to"
        conversation, entity, _ = self._begun[act.what % len(self._begun)]
        kind = self._sim.kinds.of(entity)
        known = [each for of, each in self._commands(begin=False) if of is kind]
        if not known:
            return f"no command for {entity}"
        command = filled(known[act.who % len(known)], act.how)
        self._sim.runtime.do(conversation, command, entity)
        return f"gives {entity} of {conversation} the command {command}"

    def say(self, conversation: str, asker: str, verdict: str) -> str:
        """Answer a machine's question, and hold it against the log that the answer counts."""
        asked = [each for each in self._users.asked(conversation) if each.call_id == asker]
        yes = verdict == "approve"
        command = Approve("ada") if yes else Deny("ada", "better not")
        self._sim.runtime.do(conversation, command, asker)
        for each in asked:
            fold = self._sim.checker.folds[conversation, each.approval_id]
            if not fold.state.approver and fold.state.phase.value == "awaiting_human":
                told = f"a human was told that the answer to {asker} counts; it is not on disk"
                self._sim.truth.complain("never lost", told)
        return f"{'approves' if yes else 'denies'} what {asker} of {conversation} asks"


def filled(command: type[Command], how: int) -> Command:
    """Return a command with values for its fields; each `how` gives others.

    >>> from actors.tool.public_commands import Deny
    >>> filled(Deny, 1)
    Deny(approver='a', reason='')
    """
    hints = typing.get_type_hints(command)
    values = {
        field.name: _value(hints[field.name], how)
        for number, field in enumerate(msgspec.structs.fields(command))
        if field.required or (how + number) % 3 == 0
    }
    return command(**values)


def _value(hint: Any, how: int) -> Any:  # noqa: ANN401, PLR0911 -- one for each form
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return given[how % len(given)]
    if origin in {Union, types.UnionType}:
        return _value(given[how % len(given)], how)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [*hint][how % len(hint)]
    if hint is bool:
        return how % 2 == 0
    if hint in {int, float}:
        return hint(NUMBERS[how % len(NUMBERS)])
    if hint is str:
        return TEXTS[how % len(TEXTS)]
    if hint is type(None):
        return None
    if origin in {tuple, list}:
        return origin([_value(given[0], how)])
    if origin is dict:
        return {"one": _value(given[1], how)}
    msg = f"a simulation cannot make values of {hint}: use simpler fields in commands"
    raise Refused(msg)
