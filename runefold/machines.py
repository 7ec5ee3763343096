"""What an app needs for a machine of its own: see docs/your-own-machine.md.

A machine is a law (phases, a table, `decide`, `evolve`, `due`), the runes that record what happened
to one, and a `Kind` that names both. `Runtime.open(..., kinds=[KIND])` runs it.
"""

from __future__ import annotations

from actors import children
from actors.approval import runes as approvals
from actors.audit import Audit, Found
from actors.calls import (
    Answered,
    BearChild,
    CallModel,
    CallTool,
    EndChild,
    NotAnswered,
    Request,
    StopCall,
    StopRequest,
)
from actors.children import Child, keeps_children
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.entity import Moved, Routing, Timed
from actors.kind import Kind
from actors.machine import Machine
from actors.model.provider import Message
from actors.model.runes import AskedCall
from actors.public_command import Command, about
from actors.questions import AskHuman
from actors.request import runes as requests
from actors.tool import runes as tools
from actors.view import LineFile, Mark, Move, StateFile, Step, View
from runelog.lifecycle import ByField, Lifecycle, Table, Timeout, refusal
from runelog.rune import Rune

__all__ = [
    "Abandon",
    "Answered",
    "AskHuman",
    "AskedCall",
    "Audit",
    "BearChild",
    "ByField",
    "CallModel",
    "CallTool",
    "Cancel",
    "Child",
    "Command",
    "EndChild",
    "Found",
    "Kind",
    "Lifecycle",
    "LineFile",
    "Machine",
    "Mark",
    "Message",
    "Move",
    "Moved",
    "NotAnswered",
    "Recover",
    "Request",
    "Routing",
    "Rune",
    "StateFile",
    "Step",
    "StopCall",
    "StopRequest",
    "Table",
    "TimeUp",
    "Timed",
    "Timeout",
    "View",
    "about",
    "approvals",
    "children",
    "keeps_children",
    "refusal",
    "requests",
    "tools",
]
