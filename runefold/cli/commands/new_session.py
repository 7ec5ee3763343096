"""`runefold new-session`: begins a session in the runtime that has the log open."""

from typing import Annotated

from runefold.cli.terminal.options import Directory, Json, find, option
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runelog.errors import Refused

Model = Annotated[str, option("NAME", "Model of its agent, as the app names it.", "--model")]
Role = Annotated[str, option("TEXT", "What its agent is, in a word or two.", default=True)]
Instructions = Annotated[str, option("TEXT", "What its model is told before everything else.")]
Tools = Annotated[
    list[str] | None,
    option("NAME", "A tool that it may use; may be repeated.", "--tool"),
]
Labels = Annotated[
    list[str] | None, option("KEY=VALUE", "A label to find it by; may be repeated.", "--label")
]
Id = Annotated[str | None, option("SESSION", "Its id; without one it gets a new one.", "--id")]
Tokens = Annotated[int | None, option("N", "How many tokens all its agents may use.", least=0)]


def new_session(
    directory: Directory,
    *,
    model: Model,
    role: Role = "assistant",
    instructions: Instructions = "",
    tool: Tools = None,
    label: Labels = None,
    id_: Id = None,
    tokens: Tokens = None,
    json: Json = False,
) -> None:
    """Begin a session with one agent, and print its id.

    Models and tools are those of the app, so its runtime has to have the log open: see `serve`.
    Refused if there is a session of this id already.
    """
    # Not before it is needed: other commands start faster without.
    from runefold.runtime import Runtime  # noqa: PLC0415 -- as above
    from runefold.spec import AgentSpec, Budget  # noqa: PLC0415 -- as above

    labels = dict(_label(each) for each in label or ())
    spec = AgentSpec(role=role, model=model, instructions=instructions, tools=tool or ())
    find(directory)
    with Runtime.connect(directory) as runtime:
        session = runtime.create_session(
            spec, conversation_id=id_, budget=Budget(tokens=tokens), labels=labels
        )
    screen = Screen()
    if json:
        screen.json({"session": session.id})
    else:
        screen.line(("begun", "green"), f" {safe(session.id)}")


def _label(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        msg = f"the label {given!r:.80} has no value: give NAME=VALUE"
        raise Refused(msg)
    return name, value
