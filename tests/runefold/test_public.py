"""Rules about what the front door offers."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import runefold
from actors import errors as actor_errors
from actors.tool import spec as tool_spec
from runefold.control import client, wire
from runelog import errors

PUBLIC = {
    "AgentSpec",
    "AgentTool",
    "Approval",
    "AsyncRuntime",
    "AsyncSession",
    "AsyncTurn",
    "Budget",
    "CallId",
    "CommandTool",
    "Context",
    "Envelope",
    "Gap",
    "HandOver",
    "Happened",
    "InDoubt",
    "Isolation",
    "Limits",
    "Policy",
    "Runtime",
    "Secret",
    "Session",
    "ToolSpec",
    "Turn",
    "TurnResult",
    "Visibility",
    "__version__",
    "cancelled",
    "progress",
    "stop_if_cancelled",
    "tool",
}


def test_the_public_names_are_these() -> None:
    """A name is added or taken away on purpose, here too, or not at all."""
    assert set(runefold.__all__) == PUBLIC
    assert all(hasattr(runefold, name) for name in PUBLIC)
    assert {*dir(runefold)} >= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typing error in a name is told as Python tells it for any module."""
    with pytest.raises(AttributeError, match="'runefold' has no attribute 'Runtme'"):
        _ = getattr(runefold, "Runtme")  # noqa: B009 -- a type checker knows that it is not there


def test_errors_are_in_a_module_of_their_own() -> None:
    """Every error that a user can meet is in `runefold.errors`, and none is at the top."""
    homes = [errors, actor_errors, tool_spec, client, wire]
    met = {
        name
        for home in homes
        for name, value in vars(home).items()
        if isinstance(value, type)
        and issubclass(value, errors.RunefoldError)
        and value.__module__ == home.__name__
    }

    assert met | {"BrokenLaw"} == {*runefold.errors.__all__}
    assert not any(
        isinstance(found := getattr(runefold, name), type) and issubclass(found, BaseException)
        for name in PUBLIC
    )


def test_importing_the_package_alone_is_cheap() -> None:
    """A program that only shows a log does not wait for runtimes, models and tools."""
    program = "import sys, runefold; print(sorted({'lmdb', 'pykka', 'actors'} & {*sys.modules}))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "[]"


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
