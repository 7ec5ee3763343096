"""What `import runelog` offers to a program that uses only the log."""

from __future__ import annotations

import subprocess
import sys

import pytest

import runelog


@pytest.mark.parametrize("name", runelog.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each name in `__all__` can be imported, and is what its own module calls by that name."""
    found = getattr(runelog, name)

    assert getattr(found, "__name__", name).rpartition(".")[2] in {name, "Mapping"}
    assert name in dir(runelog)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typing error in a name is told as Python tells it for any module."""
    with pytest.raises(AttributeError, match="'runelog' has no attribute 'Runlog'"):
        _ = getattr(runelog, "Runlog")  # noqa: B009 -- a type checker knows that it is not there


def test_importing_the_package_alone_is_cheap() -> None:
    """Child processes import it each time a log was not closed cleanly: without LMDB or the log."""
    program = "import sys, runelog; print(sorted({'lmdb', 'runelog.store'} & sys.modules.keys()))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "[]"
