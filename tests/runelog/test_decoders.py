"""However many threads read a type for the first time at once, the process lives."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Final

import msgspec
import pytest

from runelog.decoders import from_json, from_msgpack, get_to_know

ROUNDS: Final = 150
_STORM: Final = """
    from __future__ import annotations

    import sys
    import threading
    import types

    import msgspec

    from {module} import {name}

    SOURCE = '''
    from __future__ import annotations

    import msgspec

    class Inner(msgspec.Struct, frozen=True):
        a: int | str | None = None
        b: tuple[int, ...] | None = None

    class Outer(msgspec.Struct, frozen=True):
        x: tuple[Inner, ...] = ()
        y: dict[str, Inner] | None = None
        z: list[Inner | None] | None = None
    '''

    def storm(read):
        start = threading.Barrier(3)
        found = []

        def go():
            start.wait()
            found.append(read())

        threads = [threading.Thread(target=go) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    # As often as can be: that another thread comes in between is what it takes.
    sys.setswitchinterval(1e-6)
    read = 0
    for number in range({rounds}):
        module = types.ModuleType("kinds_%d" % number)
        sys.modules[module.__name__] = module
        exec(SOURCE, module.__dict__)
        Outer, Inner = module.Outer, module.Inner
        value = Outer(x=(Inner(1, (1, 2)),), y={{"a": Inner("s")}}, z=[None, Inner()])
{body}
    print(read)
"""


def storm(module: str, name: str, body: str) -> subprocess.CompletedProcess[str]:
    """Have three threads read each of many new types at once, in a process of their own."""
    indented = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    code = _STORM.format(module=module, name=name, body=indented, rounds=ROUNDS)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_threads_may_read_a_type_for_the_first_time_at_once() -> None:
    """What is stored is read by whichever threads come first, and each gets it whole."""
    ended = storm(
        "runelog.decoders",
        "from_msgpack",
        """
        stored = msgspec.msgpack.encode(value)
        found = storm(lambda: from_msgpack(Outer)(stored))
        read += found == [value] * 3
        """,
    )

    assert (ended.returncode, ended.stdout.strip()) == (0, str(ROUNDS)), ended.stderr


def test_tools_may_be_declared_and_called_at_once() -> None:
    """Threads may each have a tool of their own that takes the same type."""
    ended = storm(
        "actors.tool.schema",
        "Parameter, Parameters",
        """
        takes = [Parameter("value", Outer)]
        given = {"value": msgspec.json.decode(msgspec.json.encode(value))}
        found = storm(lambda: Parameters(takes).fit(given))
        read += found == [{"value": value}] * 3
        """,
    )

    assert (ended.returncode, ended.stdout.strip()) == (0, str(ROUNDS)), ended.stderr


class Noted(msgspec.Struct, frozen=True):
    """Something to read."""

    text: str


def test_a_decoder_reads_its_type_and_nothing_else() -> None:
    """From either format; what is of another shape is refused."""
    get_to_know(Noted)

    assert from_msgpack(Noted)(msgspec.msgpack.encode(Noted("a"))) == Noted("a")
    assert from_json(Noted)(b'{"text": "b"}') == Noted("b")
    with pytest.raises(msgspec.ValidationError):
        from_msgpack(Noted)(msgspec.msgpack.encode({"text": 1}))
    with pytest.raises(msgspec.ValidationError):
        from_json(Noted)(b"[]")


def test_a_thread_that_is_at_it_keeps_nobody_in_a_child_waiting() -> None:
    """Whoever forks while a decoder is made can make its own in the child."""
    code = """
    import os, threading
    from runelog import decoders

    held, done = threading.Event(), threading.Event()

    def hold():
        with decoders._bench.lock:
            held.set()
            done.wait()

    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    if (child := os.fork()) == 0:
        os._exit(0 if decoders.from_json(list[int])(b"[1]") == [1] else 3)
    _, status = os.waitpid(child, 0)
    done.set()
    raise SystemExit(os.waitstatus_to_exitcode(status))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], timeout=60, check=False, capture_output=True
    )

    assert ended.returncode == 0, ended.stderr
