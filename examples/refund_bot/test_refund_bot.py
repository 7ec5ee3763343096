"""The bot is killed at every boundary, with SIGKILL, and pays back once."""

from bot import build, check, scenario


def test_refund_bot_survives(crash_sweep) -> None:
    """Every boundary, each in a process that is really killed."""
    crash_sweep(build, scenario, check)
