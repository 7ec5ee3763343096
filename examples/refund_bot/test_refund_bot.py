"""Killed at any boundary, the bot pays back once."""

from bot import build, check, scenario


def test_refund_bot_survives(crash_sweep) -> None:
    """Every boundary: from what SIGKILL leaves there, and one in ten by a real one as well."""
    crash_sweep(build, scenario, check)
