"""What simulations have found, as short as it gets. Each is played again with every test run."""

from __future__ import annotations

from typing import Final


def _order(chosen: dict[int, int]) -> str:
    """Return an order: who goes at some choices, by number in line; at all others the first."""
    return str([chosen.get(number, 0) for number in range(max(chosen) + 1)])


FOUND: Final = {
    # The session had the turn stopped, heard of its end without writing anything, and slept. The
    # index said for ever that it had work left: three opens later it was suspended for nothing.
    "a session that slept does not know what the index says of it": """
        {"world": {"words": [{"rounds": [{"lines": [{}, {"kind": "pause", "n": 300}, {}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "pause", "after": 20, "how": 1},
                  {"kind": "doze", "what": 2}]}""",
    # Its first append found no room: the log never heard of it, and it could not go to sleep.
    "a conversation that was never written goes to sleep": """
        {"acts": [{"kind": "send"}, {"kind": "turn_away"}]}""",
    # Suspended after three opens in vain it does nothing, also not about its turn's deadline. It
    # was woken for that deadline, did nothing, slept, was woken again, without an end.
    "a deadline that nobody sees to wakes a conversation once": """
        {"world": {"agents": [{"turn_timeout": 3}], "idle_after": 1,
                   "words": [{"rounds": [{"lines": [{}, {"kind": "pause", "n": 300}, {}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "cut", "after": 20}, {"kind": "cut", "after": 20},
                  {"kind": "cut", "after": 20}]}""",
    # An agent observes its budget. Raised before its actor was there, it began with an old state,
    # and its first append cost everybody in the conversation what they had decided.
    "a newborn begins with what it observed before its actor was there": """
        {"world": {"words": [{"rounds": [{"lines": [{}, {"kind": "pause", "n": 300}, {}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "spawn", "after": 10},
                  {"kind": "replenish", "after": 6, "who": 1}]}""",
    # The word to end was in the agent's mailbox when it crashed. Its successor never heard it, and
    # the session closed for ever.
    "what an actor was told before it crashed is told again": """
        {"world": {"words": [{"rounds": [{"lines": [{}, {"kind": "pause", "n": 300}, {}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "close", "after": 24},
                  {"kind": "crash", "after": 7, "who": 1}]}""",
    # The agent behind a tool always had the same id. Once it was gone, to ask it again took the
    # session down.
    "an agent that is asked and is gone is replaced": """
        {"world": {"agents": [{"tools": [0]}, {}], "tools": [{"kind": "agent", "agent": 1}],
                   "words": [{"rounds": [{"lines": [{"kind": "call"}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "wait", "after": 100},
                  {"kind": "dismiss", "after": 1}, {"kind": "send", "after": 30}]}""",
    # The turn's time was up, and its last tool came back before it looked: its words were dropped.
    "a turn that is late as its last tool returns keeps what was said": """
        {"world": {"agents": [{"tools": [0]}], "tools": [{"runs": ["hangs_after"]}],
                   "words": [{"rounds": [{"lines": [{"kind": "call"}, {}]}]}]},
         "acts": [{"kind": "send"}, {"kind": "jump", "after": 24, "what": 3}]}""",
    # A conversation that fell is roused some seconds later. By a clock that was set back meanwhile,
    # that was a day later.
    "a conversation that fell comes back although the clock is set back": """
        {"acts": [{"kind": "send"}, {"kind": "turn_away", "after": 21},
                  {"kind": "jump", "after": 199, "what": 4, "how": 1}]}""",
    # It fell asleep before its last decisions were on disk, and then there was no room for them.
    # Asleep, it did not hear of that, and nobody woke it for the turn that was running again.
    "a conversation that falls asleep on a full disk is woken once there is room": """
        {"world": {"agents": [], "words": [], "idle_after": 5, "stalls": 3},
         "acts": [{"kind": "send"}, {"kind": "no_room", "after": 24, "what": 2}],
         "order": ORDER}""".replace(
        "ORDER",
        _order(
            {18: 1, 24: 1, 27: 1, 32: 2, 33: 1, 34: 2, 85: 1, 95: 1, 98: 1, 118: 1, 119: 1, 131: 1}
        ),
    ),
    # It was falling asleep when the time was up for a human to agree. The call said so; the turn
    # that had to go on had stopped by then, and nothing was left that would have woken it.
    "a deadline that comes while a conversation falls asleep is seen to": """
        {"world": {"agents": [{"tools": [0]}], "tools": [{"approval": true}, {}], "stalls": 5,
                   "words": [{"rounds": [{"lines": [{"kind": "call", "n": 1}, {"kind": "pause"},
                                                    {"kind": "pause"}, {"kind": "call"}]}]}]},
         "acts": [{"kind": "send"}],
         "order": ORDER}""".replace(
        "ORDER", _order({16: 1, 17: 2, 33: 1, 36: 1, 50: 1, 56: 1, 60: 1, 62: 1})
    ),
    # While a session closes nobody starts its agents again. Opened again in the middle of that, the
    # turn's tool was settled, and the turn went on to ask its model before it heard that it is to
    # stop: it crashed for want of its agent.
    "a turn that is to be stopped waits for that if its agent is gone": """
        {"world": {"agents": [{"tools": [0]}], "tools": [{"kind": "blind", "runs": ["slow"]}],
                   "words": [{"rounds": [{"lines": [{"kind": "call"}]}]}], "lazy_disk": true},
         "acts": [{"kind": "send"}, {"kind": "send", "after": 7}, {"kind": "forget", "after": 13},
                  {"kind": "kill", "who": 1}, {"kind": "close"},
                  {"kind": "cut_at_append", "after": 2}, {"kind": "kill"},
                  {"kind": "kill", "after": 8, "who": 5}]}""",
}
"""Plans in which something was wrong once, by what must hold."""
