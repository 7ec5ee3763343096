"""Ids from the operating system: no two are alike, wherever they are drawn."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

from runefold.chance import SystemChance

MANY = 1_000


def test_an_id_is_a_prefix_and_sixteen_hex_digits() -> None:
    """They are drawn many at once, and given away one by one."""
    ids = [SystemChance().id("msg") for _ in range(MANY)]

    assert all(re.fullmatch("msg_[0-9a-f]{16}", each) for each in ids)
    assert len({*ids}) == MANY


def test_no_two_threads_are_given_the_same_id() -> None:
    """Also when all of them find that none is left."""
    chance = SystemChance()
    with ThreadPoolExecutor(8) as crew:
        ids = [*crew.map(lambda _: chance.id("msg"), range(8 * MANY))]

    assert len({*ids}) == 8 * MANY


def test_a_forked_child_draws_its_own_ids() -> None:
    """What its parent has drawn already is its parent's."""
    chance = SystemChance()
    chance.id("msg")
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, " ".join(chance.id("msg") for _ in range(MANY)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        drawn = {*said.read().split()}
    os.waitpid(child, 0)

    assert len(drawn) == MANY
    assert drawn.isdisjoint(chance.id("msg") for _ in range(MANY))
