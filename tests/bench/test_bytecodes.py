"""Bytecodes are counted one by one, on every thread, and each belongs to a part of the work."""

from __future__ import annotations

import dis
import os
import threading
import time
from pathlib import Path

import lmdb
import pytest
from order import ORDER

import actors
import runelog
from actors.model.providers.scripted import Scripted
from bench import bytecodes
from bench.bytecodes import Tracer, of_builtin, part_of
from runefold import AgentSpec, Runtime
from runelog.store import Runelog

ROOT = Path(bytecodes.__file__).parent.parent


def straight(number: int) -> int:
    """Run each of its instructions once."""
    return number + 1


STRAIGHT = len([*dis.get_instructions(straight)]) - 1
"""Its instructions, but for RESUME: that is where the tracer comes in."""


def test_each_instruction_of_a_function_is_counted_once_for_each_call() -> None:
    """A function without branches costs as many bytecodes as it has, each time it is called."""
    tracer = Tracer()
    with tracer.everywhere():
        straight(1)
        with tracer.counting():
            straight(2)
            straight(3)
        straight(4)

    assert tracer.codes[straight.__code__] == 2 * STRAIGHT


def test_other_threads_are_counted_too() -> None:
    """What a thread does that began under the tracer counts."""
    tracer = Tracer()
    with tracer.everywhere(), tracer.counting():
        thread = threading.Thread(target=straight, args=(1,))
        thread.start()
        thread.join()

    assert tracer.codes[straight.__code__] == STRAIGHT


def test_code_of_others_counts_for_the_module_that_called_it() -> None:
    """The standard library works for whoever calls it."""
    tracer = Tracer()
    with tracer.everywhere(), tracer.counting():
        os.path.join("a", "b")  # noqa: PTH118 -- it is written in Python

    assert {caller for _, caller in tracer.inside} >= {"tests/bench/test_bytecodes.py"}


@pytest.mark.parametrize("package", [actors, runelog])
def test_every_module_of_the_runtime_has_a_part(package: object) -> None:
    """No module of the runtime's is counted as the caller's."""
    folder = Path(str(package.__file__)).parent  # type: ignore[attr-defined]  # it is a module
    modules = [path.relative_to(ROOT).as_posix() for path in folder.rglob("*.py")]

    assert modules
    assert not [module for module in modules if part_of(module) == bytecodes.REST]


def test_commits_puts_and_syncs_are_told_from_other_calls(tmp_path: Path) -> None:
    """Only what LMDB or the system is asked for is counted, by what it is."""
    path = str(tmp_path / "env")
    with lmdb.open(path, subdir=False, lib_version=0) as env, env.begin(write=True) as txn:
        functions: list[object] = [txn.put, txn.commit, txn.get, txn.delete, env.sync]
        functions += [os.fsync, os.fdatasync, {}.get, len]
        names = [of_builtin(each) for each in functions]

    assert names == [
        "calls of lmdb to put, of one entry or many",
        "commits",
        None,
        "lmdb deletes",
        "lmdb syncs",
        "syncs of files",
        "syncs of files",
        None,
        None,
    ]


def bytecodes_of_views(directory: Path, *, used: bool, told: bool = False) -> int:
    """Return how many bytecodes of views a turn takes, with a kind that has one or without.

    If they are `told` they are brought to the log's head in that time.
    """
    tracer = Tracer()
    kinds = [ORDER] if used else []
    model = Scripted(["Hi."])
    with (
        tracer.everywhere(),
        Runtime.open(directory, kinds=kinds, providers={"demo": model}) as runtime,
    ):
        session = runtime.create_session(AgentSpec(role="bot", model="demo"))
        # Their job has taken in what there was, and waits for more.
        while used and not waits_for_news(runtime):
            time.sleep(0)
        with tracer.counting():
            session.send("hi").result(timeout=60)
            if told:
                runtime.views.catch_up()
            elif used:
                assert waits_for_news(runtime)
    return sum(
        count
        for code, count in tracer.codes.items()
        if Path(code.co_filename).name in {"views.py", "view_files.py"}
    )


def waits_for_news(runtime: Runtime) -> bool:
    """Return True if the job of the views sleeps until a rune comes that is for one of them."""
    assert isinstance(runtime.log, Runelog)
    listening = runtime.log._reader.subscriptions.listening
    return any(each._marks is not None and each.waits for each in listening)


def test_views_cost_a_turn_nothing_where_no_kind_has_any(tmp_path: Path) -> None:
    """Not a bytecode of theirs is executed: what they cost is paid by those who have them."""
    assert bytecodes_of_views(tmp_path / "none", used=False) == 0
    assert bytecodes_of_views(tmp_path / "some", used=True, told=True) > 0


def test_views_cost_a_turn_nothing_where_nothing_is_for_them(tmp_path: Path) -> None:
    """A kind has one, and the turn appends no rune that is in the stream of such an entity."""
    assert bytecodes_of_views(tmp_path / "log", used=True) == 0
