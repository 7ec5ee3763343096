"""Models: what a provider is, and those that come along.

>>> from runefold.providers import Scripted, call
>>> model = Scripted([["Let me see. ", call("add", a=2, b=3)], ["It is five."]])
"""

from actors.model.provider import (
    Asked,
    AsyncProvider,
    Done,
    Event,
    Failure,
    Message,
    Pause,
    Price,
    Provider,
    Request,
    Text,
    ToolCall,
    Used,
)
from actors.model.providers.recorded import Recorded
from actors.model.providers.scripted import Scripted, call, fail, pause

__all__ = [
    "Asked",
    "AsyncProvider",
    "Done",
    "Event",
    "Failure",
    "Message",
    "Pause",
    "Price",
    "Provider",
    "Recorded",
    "Request",
    "Scripted",
    "Text",
    "ToolCall",
    "Used",
    "call",
    "fail",
    "pause",
]
