"""What goes through a control socket: one request, one answer, each a frame.

A frame is four bytes of length, big-endian, and so many bytes of msgpack. The reader of one says
how long it may be and how long it may take, so that half a frame, or a hostile one, costs little.
A command is `{"do": name, "kind": kind, "conversation": id, "entity": id, ...}` and its own fields.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from actors import errors as actor_errors
from actors.public_command import ADDRESS, DECIDE
from actors.session.lifecycle import Create
from actors.session.members import Spawn, Update
from actors.session.messages import Interrupt, Send
from runelog import errors as log_errors
from runelog.codec import check_depth
from runelog.errors import Fault, Refused, RunefoldError, TooLarge

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from actors.public_command import Command, Commands

NAME: Final = "control"
"""The socket's name in the log's directory."""
MAX_REQUEST: Final = 1 << 20
MAX_ANSWER: Final = 64 << 20
MAX_DEPTH: Final = 32
CHUNK: Final = 1 << 16
LENGTH: Final = struct.Struct(">I")


class Broken(Fault):
    """The other side of a socket went away, was too slow, or said something that is no frame."""


# -- requests --------------------------------------------------------------------------------------


class Look(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """A request that is no command."""


class Tree(Look, frozen=True, kw_only=True, tag="tree"):
    """Answered with the tree of actors as it is now."""


class Tell(Look, frozen=True, kw_only=True, tag="tell"):
    """A message for the root of a conversation as it is, by the name of its class."""

    conversation: str
    type: str
    message: Any


MESSAGES: Final = {each.__name__: each for each in (Create, Spawn, Update, Send, Interrupt)}
"""What another process may send as it is: each has the ids that make it harmless to repeat it."""


def tell(conversation: str, message: object) -> Tell:
    """Return a request to send a message as it is."""
    return Tell(conversation=conversation, type=type(message).__name__, message=message)


class Ask(NamedTuple):
    """A command, and the entity that it goes to."""

    conversation: str
    command: Command
    entity: str
    request: str | None = None
    """If given, the entity decides on it under this id, or on one without, and that is all: what
    else the command does, such as to wait, is done by the process that asks."""


AnyLook: TypeAlias = Tree | Tell
Request: TypeAlias = Ask | AnyLook


class Reply(msgspec.Struct, frozen=True):
    """What was answered, or why there is no answer."""

    value: Any = None
    error: str = ""
    """The name of the error's class; empty if there is none."""
    message: str = ""


_encoder: Final = msgspec.msgpack.Encoder()
_messages: Final = msgspec.msgpack.Decoder(dict[str, Any])
_replies: Final = msgspec.msgpack.Decoder(Reply)


def encode(message: Look | Reply) -> bytes:
    """Return a look or a reply as the content of a frame."""
    return _encoder.encode(message)


def encode_command(commands: Commands, ask: Ask) -> bytes:
    """Return a command as the content of a frame: its address and its fields, side by side."""
    kind, entity = commands.address(ask.command, ask.entity)
    values = (ask.command.verb(), kind.name, ask.conversation, entity)
    fields = msgspec.structs.asdict(ask.command)
    if ask.request is not None:
        fields[DECIDE] = ask.request
    return _encoder.encode(dict(zip(ADDRESS, values, strict=True)) | fields)


def request_from(data: bytes, commands: Commands) -> Request:
    """Return the request in a frame, or refuse what is none."""
    try:
        check_depth(data, MAX_DEPTH)
        fields = _messages.decode(data)
        if "kind" not in fields:
            return _look_from(fields)
        request = msgspec.convert(fields.pop(DECIDE, None), str | None)
        verb, kind, conversation, entity = (fields.pop(name, "") for name in ADDRESS)
        command = commands.find(_text(kind), _text(verb))
        found = msgspec.convert(fields, command, builtin_types=(bytes,))
        return Ask(_text(conversation), found, _text(entity), request)
    except TooLarge as error:
        msg = f"that is no request: {error}"
        raise Refused(msg) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        msg = f"that is no request that this version knows: {error}"
        raise Refused(msg) from None


def _look_from(fields: dict[str, Any]) -> AnyLook:
    found: AnyLook = msgspec.convert(fields, AnyLook, builtin_types=(bytes,))
    if not isinstance(found, Tell):
        return found
    if found.type not in MESSAGES:
        msg = f"{found.type!r:.80} is no message for a session; there are: {', '.join(MESSAGES)}"
        raise Refused(msg)
    message = msgspec.convert(found.message, MESSAGES[found.type], builtin_types=(bytes,))
    return msgspec.structs.replace(found, message=message)


def _text(value: object) -> str:
    return msgspec.convert(value, str)


def reply_from(data: bytes) -> Reply:
    """Return the reply in a frame."""
    try:
        return _replies.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        msg = f"the runtime answered something that this version does not understand: {error}"
        raise Broken(msg) from None


# -- errors ----------------------------------------------------------------------------------------

_KNOWN: Final[dict[str, type[RunefoldError]]] = {
    name: found
    for module in (log_errors, actor_errors)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, RunefoldError)
}


def failed(error: BaseException) -> Reply:
    """Return an error as it is answered: by the name of the nearest class that is known."""
    for cls in type(error).__mro__:
        if _KNOWN.get(cls.__name__) is cls:
            return Reply(error=cls.__name__, message=str(error))
    # A bug of ours, or the app's: its text is not meant for the client.
    message = f"the runtime could not do that ({type(error).__name__}): its own log says more"
    return Reply(error=Fault.__name__, message=message)


def raised(reply: Reply, conversation: str) -> RunefoldError:
    """Return the error that a reply is about, as the class it was."""
    cls = _KNOWN.get(reply.error, Fault)
    # Not through its own `__init__`: that would put the message together once more.
    error = cls.__new__(cls, reply.message)
    if isinstance(error, log_errors.UnknownConversation):
        error.conversation = conversation
    return error


# -- frames ----------------------------------------------------------------------------------------


def receive(
    peer: socket.socket,
    limit: int,
    seconds: float,
    progress: Callable[[int], object] = lambda _: None,
) -> bytes:
    """Read one frame of at most `limit` bytes within `seconds`; `progress` is told its size."""
    until = time.monotonic() + seconds
    (length,) = LENGTH.unpack(_exactly(peer, LENGTH.size, until))
    if length > limit:
        msg = f"a frame of {length:,} bytes is too large: at most {limit:,} are taken"
        raise TooLarge(msg)
    return _exactly(peer, length, until, progress)


def _exactly(
    peer: socket.socket,
    length: int,
    until: float,
    progress: Callable[[int], object] = lambda _: None,
) -> bytes:
    # Room is made as it comes, not as it is announced.
    found = bytearray()
    while len(found) < length:
        peer.settimeout(_left(until))
        chunk = peer.recv(min(CHUNK, length - len(found)))
        if not chunk:
            msg = f"the other side ended after {len(found)} of {length} bytes"
            raise Broken(msg)
        found += chunk
        progress(len(found))
    return bytes(found)


def transmit(peer: socket.socket, data: bytes, limit: int, seconds: float) -> None:
    """Write one frame, all of it within so many seconds."""
    if len(data) > limit:
        msg = f"{len(data):,} bytes are too many for one frame: at most {limit:,} are sent"
        raise TooLarge(msg)
    # The time-out of `sendall` is for all of it.
    peer.settimeout(seconds)
    peer.sendall(LENGTH.pack(len(data)) + data)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
