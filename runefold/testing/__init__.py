"""The kit that runefold is tested with, for testing what is built on it."""

from runefold.testing.crash.app import CrashApp
from runefold.testing.crash.effects import Effects
from runefold.testing.crash.report.report import Report as CrashReport
from runefold.testing.crash.sweep import Options as SweepOptions
from runefold.testing.crash.sweep import sweep

__all__ = ["CrashApp", "CrashReport", "Effects", "SweepOptions", "sweep"]
