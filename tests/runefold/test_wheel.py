"""The wheel is the product: built, installed where nothing else is, and used as a user would.

The environment has what the wheel says that it needs, and nothing else of ours: no sources, and no
packages that only our tests have. They are linked from the environment of the tests, by what the
built wheel and its dependencies declare: that takes a second, where a download takes a minute.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "runefold", "runelog", "supervisors")
CRASH_APP = '''
"""An app that pays once, whatever crashes."""

from runefold import AgentSpec, Runtime, tool
from runefold.providers import Scripted, call
from runefold.testing import CrashApp


@tool(idempotent=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


def build(directory):
    return Runtime.open(
        directory, tools=[pay], providers={"demo": Scripted([[call("pay", cents=5)], "Done."])}
    )


def scenario(runtime):
    ids = [session.id for session in runtime.sessions()]
    if "conv_shop" in ids:
        session = runtime.session("conv_shop")
    else:
        spec = AgentSpec(role="clerk", model="demo", tools=["pay"])
        session = runtime.create_session(spec, conversation_id="conv_shop")
    assert session.send("Pay.", message_id="first").result(timeout=30)


app = CrashApp(build, scenario)
'''
TEST = '''
"""The plugin gives its fixture to whoever has the wheel."""

from shop import build, scenario


def test_it_survives(crash_sweep) -> None:
    """Killed at some boundaries, it comes to the same end."""
    crash_sweep(build, scenario)
'''


def needed(wheel: Path, extra: str, *also: str) -> set[str]:
    """Return what a wheel needs with an extra and others beside it, and all that those need."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [each for each in packed.namelist() if each.endswith(".dist-info/METADATA")]
        lines = packed.read(name).decode().splitlines()
    ahead = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    found: set[str] = set()
    wanted: list[tuple[Requirement, tuple[str, ...]]]
    wanted = [(Requirement(each), (extra,)) for each in (*ahead, *also)]
    while wanted:
        requirement, chosen = wanted.pop()
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": each}) for each in ("", *chosen)):
            continue
        if requirement.name not in found:
            found.add(requirement.name)
            theirs = importlib.metadata.requires(requirement.name) or []
            wanted += [(Requirement(each), tuple(requirement.extras)) for each in theirs]
    return found


def link(name: str, site: Path) -> None:
    """Put a distribution of the tests' environment into another one."""
    found = importlib.metadata.distribution(name)
    for file in found.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        place = site / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.symlink_to(str(found.locate_file(file)))


class Installed:
    """An environment in which the wheel is installed, and a directory to work in."""

    def __init__(self, place: Path) -> None:
        """Build the wheel, and install it where nothing else is."""
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        (self.wheel,) = place.glob("*.whl")
        venv.create(place / "env", with_pip=False)
        self.bin = place / "env" / "bin"
        (site,) = (place / "env" / "lib").glob("python*/site-packages")
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        subprocess.run(
            [*pip, "--quiet", "--no-deps", "--no-index", str(self.wheel)],
            check=True,
            capture_output=True,
        )
        for name in sorted(needed(self.wheel, "cli", "pytest")):
            link(name, site)
        self.work = place / "work"
        self.work.mkdir()

    def run(self, *command: str, expected: int = 0) -> str:
        """Run a program of the environment in its directory; return what it printed."""
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.work,
            env={**kept, "PATH": f"{self.bin}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Provide the wheel, installed once for all tests of this module."""
    del memory
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_what_it_promises(installed: Installed) -> None:
    """Types for checkers, the pages of reports, the plugin; and no test, no bench, no CI."""
    with zipfile.ZipFile(installed.wheel) as packed:
        names = packed.namelist()
    ours = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    moved = {"runefold/testing/_runefold_pytest.py"}

    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert ours - moved <= set(names)
    assert "_runefold_pytest.py" in names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        *PACKAGES,
        "_runefold_pytest.py",
    }


def test_it_runs_without_our_sources(installed: Installed) -> None:
    """What is imported is what was installed, with what the wheel says that it needs."""
    told = installed.run("python", "-c", "import runefold, actors; print(runefold.__file__)")

    assert Path(told.strip()).is_relative_to(installed.bin.parent)
    assert installed.run("runefold", "--version").startswith("runefold ")


@pytest.mark.timeout(120)
def test_the_demo_of_the_wheel_ends_well(installed: Installed) -> None:
    """`runefold demo` kills a team and has it finish, where only the wheel is."""
    assert "nothing lost, nothing run twice" in installed.run("runefold", "demo")


def test_the_examples_of_the_readme_run_where_only_the_wheel_is(installed: Installed) -> None:
    """Each block is pasted; the commands below it show what the first one left."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for number, block in enumerate(blocks):
        (installed.work / f"pasted{number}.py").write_text(block, encoding="utf-8")
        installed.run("python", "-W", "error", f"pasted{number}.py")
    session = installed.run("runefold", "sessions", "data", "--json")
    name = re.findall(r"conv_[0-9a-f]{16}", session)[0]

    assert "turn.completed" in installed.run("runefold", "log", "show", "data", name)
    assert "sound" in installed.run("runefold", "verify", "data")


@pytest.mark.timeout(120)
def test_the_crash_kit_of_the_wheel_sweeps_an_app(installed: Installed) -> None:
    """By `runefold crash-test`, and by the plugin of pytest, which is found by itself."""
    (installed.work / "shop.py").write_text(CRASH_APP, encoding="utf-8")
    (installed.work / "test_shop.py").write_text(TEST, encoding="utf-8")
    swept = installed.run("runefold", "crash-test", "shop:app", "--in-process", "--sample", "6")
    tested = installed.run(
        "python", "-m", "pytest", "-q", "test_shop.py", "--crash-in-process", "--crash-sample", "6"
    )

    assert "0 failed" in swept
    assert "1 passed" in tested
