"""Rules about commands: each is declared once, and every front has it from there."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
import typer

from actors.catalogue import CLI_VERBS, COMMANDS, MACHINES_TO_COME, RESERVED
from actors.catalogue import KINDS as OURS
from actors.children import CreateChild
from actors.public_command import Command, Commands, CommandTarget, Forward, Order
from actors.scheduling import edge
from actors.session.public_commands import Pause, Send
from runefold.cli.app import app
from runefold.control import wire
from runefold.control.client import Remote
from runefold.control.offline import OfflineCommands
from runefold.control.server import Control, carrier
from runefold.runtime import Runtime
from runefold.sessions import Session
from runelog.errors import Refused
from runelog.rune import Change
from runelog.store import Runelog
from tests.architecture.commands_page import described, page
from tests.runefold.cli_scenes import ROOT, run
from tests.runefold.control_app import SESSION, options, spec
from tests.runefold.parcels import ALL, KINDS, KNOWN, PARCEL, Labelled, Packed, ShipOut, Weigh

if TYPE_CHECKING:
    from actors.kind import Kind, Kinds
    from actors.redaction.redactor import Redactor
    from runelog.log import Log

APP: Final = ["--app", "tests.runefold.parcels:KINDS"]
TOP: Final = {"session", "tool"}
"""Kinds whose verbs need no kind before them."""
TYPED: Final = {"session", "tool", "agent"}
"""Kinds whose commands are methods of a `Session`; those of others are given by `entity(KIND)`."""
EACH: Final = pytest.mark.parametrize(
    ("kind", "command"),
    [pytest.param(kind, each, id=f"{kind.name} {each.verb()}") for kind, each in ALL],
)


def example(command: type[Command]) -> Command:
    """Return a command with a value in each field that has to be given."""
    known = {"verdict": "happened", "to": "agt_1", "content": "Hi", "weight": 5, "cents": 5}
    needed = [each for each in msgspec.structs.fields(command) if each.required]
    found = command(**{each.name: known.get(each.name, value_of(each.type)) for each in needed})
    return msgspec.structs.replace(found, tokens=5) if hasattr(found, "tokens") else found


def value_of(wanted: Any) -> Any:  # noqa: ANN401 -- a type, and a value of it
    """Return a value of a type that is a text, or a Struct, or several of these."""
    inspect_ = msgspec.inspect
    found = inspect_.type_info(wanted)
    while isinstance(found, inspect_.Metadata):
        found = found.type
    match found:
        case inspect_.VarTupleType(item_type=inspect_.StructType(cls=cls)):
            return (value_of(cls),)
        case inspect_.StructType(cls=cls, fields=fields):
            return cls(**{each.name: "x" for each in fields if each.required})
        case _:
            return "x"


def words(kind: Kind, command: type[Command]) -> list[str]:
    """Return how a command is called on the command line."""
    verb = command.verb().replace("_", "-")
    return [verb] if kind.name in TOP else [kind.name, verb]


# -- every command, every front --------------------------------------------------------------------


@EACH
def test_a_command_goes_through_the_socket(kind: Kind, command: type[Command]) -> None:
    """What comes out of a frame is what went in, with its address."""
    entity = "" if kind.single else f"{kind.prefix}_1"
    ask = wire.Ask("conv_a", example(command), entity)
    data = wire.encode_command(ALL, ask)

    assert wire.request_from(data, ALL) == ask._replace(entity=entity or kind.prefix)
    assert (
        msgspec.msgpack.decode(data).items()
        >= {
            "do": command.verb(),
            "kind": kind.name,
            "conversation": "conv_a",
        }.items()
    )


@EACH
def test_a_command_is_a_verb_whose_help_says_what_its_class_says(
    kind: Kind, command: type[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole docstring and every field, in words; and it can answer in JSON."""
    monkeypatch.setenv("COLUMNS", "400")
    result = run(*words(kind, command), "--help", *([] if kind in OURS.all else APP))
    shown = " ".join(result.stdout.replace("│", " ").split())

    assert result.exit_code == 0
    for line in (inspect.getdoc(command) or "").split("\n\n"):
        assert " ".join(line.split()) in shown
    for field in msgspec.structs.fields(command):
        off = msgspec.inspect.type_info(field.type).extra or {}  # type: ignore[attr-defined]  # described
        assert off.get("off", ("", described(field.type)))[1] in shown
    assert "--json" in shown
    takes_id = not kind.single and not command.begins
    assert (f"Id of the {command.noun or kind.name}." in shown) is takes_id
    assert (f"Id of the new {command.noun or kind.name};" in shown) is command.begins


@EACH
def test_a_command_is_a_method_of_a_handle(kind: Kind, command: type[Command]) -> None:
    """With its docstring, wherever the handle comes from; what it gives is the command."""
    given: list[tuple[str, Command, str]] = []

    class Recorder(Remote):
        def do(self, conversation: str, command: Command, entity: str = "") -> None:
            given.append((conversation, command, entity))

    handle = Recorder(Path(), commands=ALL).entity(kind.name, "conv_a", "it")
    wanted = example(command)
    method = getattr(handle, command.verb())
    method(**msgspec.structs.asdict(wanted))

    assert given == [("conv_a", wanted, "it")]
    assert method.__doc__ == command.__doc__
    assert command.verb() in dir(handle)


@EACH
def test_a_command_is_ordered_from_its_entity_or_does_more(
    kind: Kind, command: type[Command]
) -> None:
    """By default the entity decides on it: the session itself, or another by way of the session."""
    asked: list[Any] = []

    class Deaf:
        log: Log
        redactor: Redactor
        kinds: Kinds

        async def ask(self, conversation: str, message: object, *_how: object) -> None:
            asked.append((conversation, message))

        async def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
            raise NotImplementedError

        async def archive(self, conversation: str) -> None:
            raise NotImplementedError

        def new_id(self, prefix: str) -> str:
            return f"{prefix}_1"

    if command.execute is not Command.execute:
        return
    wanted = example(command)
    if command.begins:
        edge.run(wanted.execute(CommandTarget(Deaf(), kind, "conv_a", "it", "process 7", None)))
        assert asked == [("conv_a", CreateChild(kind.name, "it", wanted))]
        return
    edge.run(wanted.execute(CommandTarget(Deaf(), kind, "conv_a", "it", "process 7", None)))
    order = Order(wanted, "process 7", "cmd_1" if command.numbered else "")

    assert asked == [("conv_a", order if kind.single else Forward(kind.name, "it", order))]


@EACH
def test_a_command_is_recorded_offline_or_refused_by_name(
    kind: Kind, command: type[Command], tmp_path: Path
) -> None:
    """With a way out; and what a law refuses offline it would refuse online too."""
    make(tmp_path)
    with Runelog.open(tmp_path, KNOWN.codec) as log:
        offline = OfflineCommands(log, kinds=KNOWN)
        entity = {"parcel": "parcel_1", "session": ""}.get(kind.name, "none_1")
        if command.begins:
            entity = f"{kind.prefix}_new"
        before = log.position
        if command.offline == "no":
            with pytest.raises(Refused, match=f"{command.verb()} needs one: {command.way_out}"):
                offline.do(SESSION, example(command), entity)
        elif entity == "none_1":
            with pytest.raises(
                Refused, match=f"there is no {command.noun or kind.name} none_1 in {SESSION}"
            ):
                offline.do(SESSION, example(command), entity)
        elif command.verb() in {"interrupt", "resume", "unsuspend"}:
            offline.do(SESSION, example(command), entity)  # nothing to do
        elif command.verb() == "hand_over":
            with pytest.raises(Refused, match="no agent agt_1"):
                offline.do(SESSION, example(command), entity)
        else:
            offline.do(SESSION, example(command), entity)
            assert log.position > before


@EACH
def test_a_session_has_a_typed_method_for_each_of_our_commands(
    kind: Kind, command: type[Command]
) -> None:
    """With the command's fields, so that nothing can be asked from outside alone."""
    if kind.name not in TYPED:
        return
    method = getattr(Session, command.verb())
    takes = {*inspect.signature(method).parameters} - {"self", "timeout", "process"}

    assert takes - {"call_id", "agent"} == {*command.__struct_fields__} - {"agent"}
    assert ("call_id" in takes) is (kind.name == "tool")


def test_the_page_lists_every_command() -> None:
    """It is made from them: `python -m tests.architecture.commands_page > docs/COMMANDS.md`."""
    assert (ROOT / "docs" / "COMMANDS.md").read_text() == page(COMMANDS)


def test_the_page_says_what_a_command_goes_to() -> None:
    """An entity by its id, or one that it begins; the session needs none."""
    heads = {line for line in page(ALL).splitlines() if line.startswith("###")}

    assert heads >= {
        "### `pause`",
        "### `ship_out`, of a parcel by its id",
        "### `place`, which begins an order",
    }


# -- a kind of an app ------------------------------------------------------------------------------


def make(directory: Path) -> None:
    """Leave a log with a session and a parcel in it."""
    with Runtime.open(directory, **options(directory, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION).send("Hi").result(30)
    with Runelog.open(directory, KNOWN.codec) as log:
        log.append(SESSION, [Change("parcel_1", 0, [Packed("parcel_1")])])


def shipped(directory: Path) -> list[Any]:
    """Return how the parcel was shipped."""
    with Runelog.open(directory, KNOWN.codec, readonly=True) as log:
        return [each.payload for each in log.read(SESSION, kinds={"parcel.shipped"})]


@pytest.mark.parametrize("app", ["KINDS", "build"])
def test_an_apps_command_is_given_on_the_command_line(tmp_path: Path, app: str) -> None:
    """Offline, by the law of its kind; a list of kinds is named, or what opens a runtime."""
    make(tmp_path)
    named = ["--app", f"tests.runefold.parcels:{app}"]
    done = run(
        *("parcel", "ship-out", tmp_path, SESSION, "parcel_1", "900", "--by", "by-air"),
        *("--note", '{"fragile": true}', "--no-insured", "--json", *named),
    )
    again = run("parcel", "ship-out", tmp_path, SESSION, "parcel_1", "900", *named)
    [rune] = shipped(tmp_path)

    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "session": SESSION,
        "entity": "parcel_1",
        "answer": None,
        "running": False,
    }
    assert (rune.weight, rune.by, rune.note) == (900, "by_air", {"fragile": True})
    assert not rune.insured
    assert again.exit_code == 2
    assert "parcel is shipped: it cannot take ShipOut now" in again.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("parcel_1", "-5"), "No such option"),
        (("parcel_1", "--", "-5"), "weight is -5: give a whole number, 0 or more"),
        (("parcel_2", "5"), f"there is no parcel parcel_2 in {SESSION}"),
        (("a/b", "5"), "is not a valid parcel id"),
        (("parcel_1", "5", "--by", "by-sea"), "'by-sea' is not one of"),
    ],
)
def test_a_mistake_in_an_apps_command_is_named(
    tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    """By the types of its fields; and nothing is shipped."""
    make(tmp_path)
    result = run("parcel", "ship-out", *APP, tmp_path, SESSION, *given)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert shipped(tmp_path) == []


def labelled(directory: Path) -> list[tuple[str, ...]]:
    """Return the texts of all labels that were stuck on the parcel."""
    with Runelog.open(directory, KNOWN.codec, readonly=True) as log:
        runes = [each.payload for each in log.read(SESSION)]
    return [rune.texts for rune in runes if isinstance(rune, Labelled)]


def test_a_field_that_holds_structs_is_typed_as_json(tmp_path: Path) -> None:
    """One or several: the law is given what it declares."""
    make(tmp_path)
    labels = '[{"text": "up", "size": 2}, {"text": "down"}]'
    first = ("--first", '{"text": "this "}')
    done = run("parcel", "stick", *APP, tmp_path, SESSION, "parcel_1", labels, *first)

    assert done.exit_code == 0, done.stderr
    assert labelled(tmp_path) == [("this ", "upup", "down")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["up"], "labels cannot be read as JSON of what it takes: Expected array, got str"),
        (['[{"text": "up"'], "labels cannot be read as JSON of what it takes: Expected array"),
        (['[{"size": 1}]'], "missing required field text - at $[0]"),
        (['[{"text": 5}]'], "Expected str, got int - at $[0].text"),
        (["[]", "--first", "[]"], "first cannot be read as JSON of what it takes: Expected object"),
    ],
)
def test_a_struct_that_is_mistyped_is_refused_in_plain_words(
    tmp_path: Path, given: list[str], said: str
) -> None:
    """With the place of what is wrong; nothing is shown as Python writes it."""
    make(tmp_path)
    result = run("parcel", "stick", *APP, tmp_path, SESSION, "parcel_1", *given)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "Label(" not in result.stderr
    assert labelled(tmp_path) == []


def test_kinds_that_are_none_are_refused(tmp_path: Path) -> None:
    """Without the app's code a kind is unknown; what is named has to be kinds."""
    unknown = run("parcel", "ship-out", tmp_path, SESSION, "parcel_1", "5")
    wrong = run("parcel", "ship-out", tmp_path, "--app", "tests.runefold.parcels:PARCEL")

    assert unknown.exit_code == wrong.exit_code == 2
    assert "No such command 'parcel'" in unknown.stderr
    assert "names no kinds" in wrong.stderr


def test_an_app_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its error and where that is, in a sentence; what it made before is not left behind."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    wrong = run("parcel", "ship-out", tmp_path, "--app", "tests.runefold.parcels:build_in_vain")

    assert wrong.exit_code == 2
    assert "failed before it opened a runtime: LookupError: there is no key" in wrong.stderr
    assert "parcels.py" in wrong.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_apps_command_goes_through_the_socket(tmp_path: Path) -> None:
    """Its answer comes back, and its refusals; to a runtime without the app it is unknown."""
    with Runtime.open(tmp_path / "a", kinds=KINDS, **options(tmp_path, "plain")) as shop:
        shop.create_session(spec(), conversation_id=SESSION)
        control = Control(tmp_path, carrier(shop), shop.commands)
        remote = Remote(tmp_path, commands=ALL)
        answer = remote.entity("parcel", SESSION, "parcel_1").weigh()
        inside = shop.session(SESSION).entity("parcel", "parcel_1").weigh()
        with pytest.raises(Refused, match="there is no parcel parcel_1"):
            remote.do(SESSION, ShipOut(5), "parcel_1")
        control.close()
    with (
        Runtime.open(tmp_path / "a", **options(tmp_path, "plain")),
        pytest.raises(Refused, match="'parcel' has no command 'weigh'; there are: none"),
    ):
        Remote(tmp_path / "a", commands=ALL).do(SESSION, Weigh(), "parcel_1")

    assert answer == inside == {"weighed": "parcel_1", "in": SESSION}


# -- declaring -------------------------------------------------------------------------------------


def test_a_field_that_every_command_has_is_refused() -> None:
    """It would be mistaken for the address, or for what a command says of itself."""

    class Bad(Command, frozen=True):
        """Be bad."""

        kind: str = ""

    with pytest.raises(Refused, match="Bad cannot have a field 'kind'"):
        Commands([with_commands(Bad)])


def test_a_command_belongs_to_one_kind() -> None:
    """By its class it is found, and so is where it goes."""
    with pytest.raises(Refused, match="Pause is a command of parcel and of session: make two"):
        Commands([*COMMANDS.kinds.values(), with_commands(Pause)])
    with pytest.raises(Refused, match="ShipOut is a command of no kind that is known here"):
        COMMANDS.address(ShipOut(5), "parcel_1")


def test_words_of_ours_are_kept_from_apps() -> None:
    """The names of all machines to come, and the verbs of the command line, each with why."""
    law = dataclasses.replace(PARCEL.lifecycle, name="serve")

    with pytest.raises(Refused, match="'tree': it is taken by a verb of the command line; use"):
        OURS.plus([dataclasses.replace(PARCEL, prefix="tree")], RESERVED)
    with pytest.raises(Refused, match="kind serve cannot use the name 'serve': it is taken by a v"):
        OURS.plus([dataclasses.replace(PARCEL, lifecycle=law)], RESERVED)
    with pytest.raises(Refused, match="'plan': it is taken by a machine that will be added to run"):
        OURS.plus([dataclasses.replace(PARCEL, prefix="plan")], RESERVED)


def test_the_verbs_of_the_command_line_are_listed() -> None:
    """Each word that begins a command there, but the names of kinds, which have verbs below them.

    A verb and the commands of a kind of the same name would hide each other.
    """
    words = set(typer.main.get_group(app).commands)
    grouped = {kind.name for kind, _ in COMMANDS if kind.name not in {"session", "tool"}}

    assert grouped
    assert words == CLI_VERBS | grouped
    assert not CLI_VERBS & grouped


def test_no_machine_of_ours_is_named_like_a_verb() -> None:
    """Neither one there is nor one to come: `runefold KIND VERB` has to reach all of them."""
    machines = {
        *("session", "agent", "turn", "tool", "plan", "channel", "participant", "run"),
        *("approval", "research", "hypothesis", "task", "health", "worker", "resource"),
        *("episode", "memory", "provider"),
    }
    ours = {name for kind in OURS for name in (kind.name, kind.prefix, *kind.streams)}

    assert machines <= MACHINES_TO_COME | ours
    assert not (machines | MACHINES_TO_COME | ours) & CLI_VERBS


def with_commands(*commands: type[Command]) -> Kind:
    """Return the kind of parcels with other commands."""
    return dataclasses.replace(PARCEL, commands=commands)


def test_a_handle_has_no_other_methods() -> None:
    """A misspelt command is an error that names those there are."""
    handle = Remote(Path(), commands=ALL).entity("parcel", "conv_a", "parcel_1")

    with pytest.raises(AttributeError, match="has no command ship; there are: ship_out, stick, w"):
        handle.ship()


class Box(msgspec.Struct, frozen=True):
    """A part of a command."""

    size: int


class Pack(Command, frozen=True):
    """Pack boxes."""

    boxes: tuple[Box, ...] = ()


def test_what_only_could_be_read_as_its_type_is_refused() -> None:
    """A law would meet a dict where it expects a Struct; the refusal shows what to give."""
    commands = Commands([with_commands(Pack)])

    assert commands.address(Pack((Box(1),)), "parcel_1")[1] == "parcel_1"
    for wrong in ([{"size": 1}], ({"size": 1},), [Box(1)]):
        with pytest.raises(Refused, match=r"boxes is .*: give \(Box\(size=1\),\)"):
            commands.address(Pack(wrong), "parcel_1")  # type: ignore[arg-type]  # the point


def test_types_are_looked_at_before_anything_is_done() -> None:
    """In every front alike: what Python does not check, the command does."""
    for wrong, said in (
        (Send("Hi", mode="now"), "mode is 'now': give 'queue' or 'steer'"),  # type: ignore[arg-type]  # the point
        (Pause("x" * 10_001), "use up to 10,000 characters"),
        (Pause(finish="no"), "finish is 'no': give True or False"),  # type: ignore[arg-type]  # the point
        (Send("\ud800"), "half of a character"),
    ):
        with pytest.raises(Refused, match=said):
            COMMANDS.address(wrong)
