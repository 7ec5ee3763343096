"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# How long an example takes depends on what else the machine does, and proves nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell without job control has whatever it starts in the background ignore Ctrl-C, and children
# inherit that. Tests that interrupt their children would wait for them in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
