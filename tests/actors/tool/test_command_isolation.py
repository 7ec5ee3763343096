"""Rules about what a program is kept from: files, networks, processes, privileges."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from actors.tool.adapters.command import CommandTool
from actors.tool.context import Call
from actors.tool.sandbox.isolation import Isolation
from actors.tool.spec import BadTool
from tests.actors.tool.programs import python

ROOT = Path(__file__).parents[3]


def said(script: str, root: Path, hidden: tuple[str, ...] = (), **options: object) -> list[str]:
    """Run a Python script as a program; return what it said."""
    outcome = python(script, root=root, **options).run(Call(call_id="c", hidden=hidden))
    assert outcome.status == "success", outcome
    return str(outcome.output).split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a directory for a program, with a log and a stranger's file beside it."""
    for name in ("root", "log", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "root"


# -- what it sees ---------------------------------------------------------------------------------

READ = """
import sys
for path in PATHS:
    try:
        print(open(path).read())
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_sees_only_what_is_declared(root: Path) -> None:
    """Its root as it is, what it may read read-only, and nothing else of the user's."""
    around = root.parent
    paths = [str(around / name / "file") for name in ("root", "log", "other")]
    read = READ.replace("PATHS", repr(paths))
    write = f"""
for path in {paths}:
    try:
        open(path, "a").write("!")
        print("written")
    except OSError as error:
        print(type(error).__name__)
"""

    assert said(read, root) == ["root", "FileNotFoundError", "FileNotFoundError"]
    assert said(read, root, reads=[around / "other"]) == ["root", "FileNotFoundError", "other"]
    assert said(write, root, reads=["../other"]) == ["written", "FileNotFoundError", "OSError"]
    assert [Path(path).read_text() for path in paths] == ["root!", "log", "other"]


@pytest.mark.usefixtures("bubblewrap")
def test_the_log_is_hidden_also_within_what_is_declared(root: Path) -> None:
    """Whether it lies in the root, or everything there is was declared; a link does not help."""
    around = root.parent
    (around / "link").symlink_to(around / "log")
    read = READ.replace("PATHS", repr([str(around / name / "file") for name in ("log", "link")]))
    hidden = (str(around / "link"),)
    write = f"""
try:
    open({str(around / "log" / "new")!r}, "w")
except OSError as error:
    print(type(error).__name__)
"""

    assert said(read, around) == ["log", "log"]
    assert said(read, around, hidden) == ["FileNotFoundError"] * 2
    assert said(read, Path("/"), hidden) == ["FileNotFoundError"] * 2
    assert said(write, around, hidden) == ["OSError"]
    assert not (around / "log" / "new").exists()


@pytest.mark.usefixtures("bubblewrap")
def test_what_a_program_leaves_in_tmp_is_gone(root: Path) -> None:
    """It has a `/tmp` of its own, which is empty each time, and no other place to write to."""
    script = """
import os, tempfile
print(len(os.listdir("/tmp")))
tempfile.NamedTemporaryFile(delete=False).write(b"x")
open("/dev/shm/x", "w"); open("/var/tmp/y", "w")
for path in ("/x", "/usr/x", "/etc/x", "/dev/x", "/home/x", "/run/x"):
    try:
        open(path, "w")
        print(path)
    except OSError:
        pass
"""
    first, second = said(script, root), said(script, root)

    assert first == second
    assert len(first) == 1


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_may_lie_anywhere(root: Path) -> None:
    """Its own file is seen, though nothing beside it is."""
    tool = root.parent / "other" / "tool"
    tool.write_text("#!/bin/sh\nls " + str(tool.parent) + "\n")
    tool.chmod(0o755)
    outcome = CommandTool("t", [str(tool)], root=root).run(Call(call_id="c"))

    assert outcome.output == "tool\n"


# -- whom it meets --------------------------------------------------------------------------------

LOOK_AROUND = """
import os
def tried(path):
    try:
        return open(path, "rb").read() and "read"
    except OSError:
        return "no"
pids = [name for name in os.listdir("/proc") if name.isdigit()]
others = {tried(f"/proc/{pid}/environ") for pid in pids if pid != str(os.getpid())}
print(len(pids), sorted(others), tried("/proc/RUNTIME/environ"), tried("/proc/1/mem"))
"""


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_sees_no_process_but_its_own(root: Path) -> None:
    """Two there are, itself and its watchdog, into which it cannot look."""
    script = LOOK_AROUND.replace("RUNTIME", str(os.getpid()))

    assert said(script, root) == ["2", "['no']", "no", "no"]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's processes can see each other")
@pytest.mark.usefixtures("guard_alone")
def test_without_bubblewrap_root_reads_no_environment_of_ours(root: Path) -> None:
    """A program without privileges may not look into one that has some."""
    script = LOOK_AROUND.replace("RUNTIME", str(os.getpid()))

    assert said(script, root)[-2] == "no"


ESCAPE = """
import ctypes, os, re
libc = ctypes.CDLL(None, use_errno=True)
status = open("/proc/self/status").read()
print(*re.findall("(?:CapPrm|CapEff|CapInh|CapAmb|NoNewPrivs):\\\\s*(\\\\w+)", status))
before = os.readlink("/proc/self/ns/net")
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        libc.setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), 0)
    except OSError:
        pass
print(os.readlink("/proc/self/ns/net") == before)
"""


@pytest.mark.usefixtures("way")
def test_a_program_has_no_privileges_and_does_not_get_out(root: Path) -> None:
    """Also as root it has no capabilities, and finds no process whose network it can join."""
    found = said(ESCAPE, root)

    assert found == ["0" * 16] * 4 + ["1", "True"]


KNOCK = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", PORT), timeout=5).close()
    print("open")
except OSError:
    print("closed")
"""


@pytest.mark.usefixtures("way")
def test_the_network_is_there_only_if_asked_for(root: Path) -> None:
    """Where it cannot be blocked that is said: at the declaration, and in each call."""
    notes: list[str] = []

    def hear(stream: str, chunk: str, /) -> None:
        if stream == "sandbox":
            notes.append(chunk)

    with socket.create_server(("127.0.0.1", 0)) as server:
        script = KNOCK.replace("PORT", str(server.getsockname()[1]))
        tool = python(script, root=root)
        outcome = tool.run(Call(call_id="c", progress=hear))
        opened = said(script, root, network=True)

    assert opened == ["open"]
    assert outcome.output == ("closed\n" if tool.isolation.network else "open\n")
    assert bool(notes) is not tool.isolation.network


# -- what is said of it ---------------------------------------------------------------------------


def test_what_cannot_be_had_is_said_and_can_be_required(root: Path, way: str) -> None:
    """At the declaration, with what is missing and the way out."""
    tool = CommandTool("t", ["true"], root=root)
    if way == "bubblewrap":
        assert CommandTool("t", ["true"], root=root, strict=True).isolation == tool.isolation
        assert tool.isolation.missing == ()
        assert tool.isolation.reason == ""
        return

    assert tool.isolation.by == "watchdog"
    assert {"files", "processes"} <= {*tool.isolation.missing}
    with pytest.raises(
        BadTool, match=r"files.* cannot be isolated here, as bwrap is not inst.*apt"
    ):
        CommandTool("t", ["true"], root=root, strict=True)


def test_a_bubblewrap_that_does_not_work_is_not_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that allows no namespaces: what it says is the reason."""
    broken = root.parent / "other" / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))
    tool = python("print('ran')", root=root)

    assert tool.isolation == Isolation(
        by="watchdog",
        network=tool.isolation.network,
        reason="bwrap does not work here: bwrap: No permissions to create new namespace",
    )
    assert tool.run(Call(call_id="c")).output == "ran\n"


def test_a_tool_does_not_weaken_by_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch, bubblewrap: None
) -> None:
    """If bubblewrap goes away after the declaration, the program does not run without it."""
    del bubblewrap
    bwrap = root.parent / "other" / "bwrap"
    bwrap.symlink_to(str(shutil.which("bwrap")))
    monkeypatch.setenv("PATH", str(bwrap.parent))
    tool = python("print('ran')", root=root)
    ran = tool.run(Call(call_id="c"))
    bwrap.unlink()
    outcome = tool.run(Call(call_id="c"))

    assert ran.output == "ran\n"
    assert outcome.status == "error"
    assert "cannot be started" in outcome.error


# -- ordinary users -------------------------------------------------------------------------------

NOBODY = 65_534


def _python_of(user: list[str], environment: dict[str, str]) -> str | None:
    """Return an interpreter that another user can run, with all that these tests need."""
    check = "import os, sys, pytest, msgspec; open(os.path.realpath(sys.executable)).close()"
    for program in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run(
            [*user, program, "-c", check], env=environment, capture_output=True, check=False
        )
        if done.returncode == 0:
            return program
    return None


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs privileges to give up"
)
@pytest.mark.parametrize("module", [Path(__file__).name, "test_command_limits.py"])
def test_the_same_holds_for_an_ordinary_user(module: str) -> None:
    """All rules of these modules, as a user without any privileges."""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{site}"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    program = _python_of(user, environment)
    if program is None:
        pytest.skip("no interpreter that an ordinary user can run")
    place = Path("/var/tmp") / f"runefold-{os.getpid()}-{module}"
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    try:
        done = subprocess.run(
            [
                *(*user, program, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("-p", "pytest_timeout"),
                *(f"--basetemp={place / 'tmp'}", str(Path(__file__).with_name(module))),
            ],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(place)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
