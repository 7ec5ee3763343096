"""The kit that runefold is tested with, for testing what is built on it."""

from actors.process.process import Process
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.tool.context import Call, Cancellation
from runefold.testing.crash.app import CrashApp
from runefold.testing.crash.effects import Effects
from runefold.testing.crash.report.report import Report as CrashReport
from runefold.testing.crash.sweep import Options as SweepOptions
from runefold.testing.crash.sweep import sweep

__all__ = [
    "Call",
    "Cancellation",
    "CrashApp",
    "CrashReport",
    "Effects",
    "ManualClock",
    "ManualScheduler",
    "Process",
    "SweepOptions",
    "sweep",
]
