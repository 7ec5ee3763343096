"""Rules about what the front door offers."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import runefold
from runelog import errors

PUBLIC = {
    "AgentSpec",
    "AgentTool",
    "Appended",
    "Approval",
    "BadId",
    "BadStream",
    "BrokenLaw",
    "Budget",
    "Busy",
    "ByField",
    "CallId",
    "Change",
    "Closed",
    "Codec",
    "Cold",
    "CommandTool",
    "Conversation",
    "Corrupt",
    "Crashed",
    "Dead",
    "Envelope",
    "Fault",
    "Fenced",
    "Forked",
    "Gap",
    "Gone",
    "HandOver",
    "Happened",
    "Held",
    "IllegalTransition",
    "Isolation",
    "Lifecycle",
    "Limits",
    "LogFailed",
    "LogFull",
    "MemoryLog",
    "NewerFormat",
    "NotALog",
    "OldManifest",
    "Overloaded",
    "Policy",
    "ReadOnly",
    "Refused",
    "Rune",
    "RunefoldError",
    "Runelog",
    "Runtime",
    "Secret",
    "Session",
    "StartFailed",
    "Table",
    "Timeout",
    "Tombstone",
    "TooLarge",
    "ToolSpec",
    "Turn",
    "TurnResult",
    "Unanswered",
    "Unknown",
    "UnknownConversation",
    "Visibility",
    "Work",
    "WrongVersion",
    "__version__",
    "cancelled",
    "fold",
    "progress",
    "refusal",
    "replay",
    "step",
    "stop_if_cancelled",
    "tool",
}


def test_the_public_names_are_these() -> None:
    """A name is added or taken away on purpose, here too, or not at all."""
    assert set(runefold.__all__) == PUBLIC
    assert all(hasattr(runefold, name) for name in PUBLIC)


def test_every_error_is_public() -> None:
    """Whoever is told of an error can name it."""
    named = {name for name, value in vars(errors).items() if isinstance(value, type)}

    assert named <= PUBLIC


def test_every_error_of_ours_has_one_base() -> None:
    """One `except` at the edge of a program can take everything that is raised on purpose."""
    for name in dir(errors):
        value = getattr(errors, name)
        if isinstance(value, type):
            assert issubclass(value, errors.RunefoldError)


def test_bugs_and_corruption_are_assertions_and_nothing_else_is() -> None:
    """A refusal can be caught without hiding a bug."""
    bugs = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, AssertionError)
    }

    assert bugs == {"Corrupt", "IllegalTransition", "OldManifest"}


def test_the_version_is_the_distributions() -> None:
    """What is installed and what says it is are one."""
    assert runefold.__version__ == importlib.metadata.version("runefold")


def test_the_command_line_says_what_it_needs() -> None:
    """Without its extra, `runefold` ends with 2 and one line that says what to install."""
    program = "import sys; sys.modules['rich'] = None; from runefold.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == ("runefold: the command line needs rich: pip install 'runefold[cli]'\n")
