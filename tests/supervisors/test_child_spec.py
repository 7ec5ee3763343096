"""What makes no sense is refused where it is written, by the name of the child and the field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from supervisors.child_spec import Backoff, ChildSpec, ChildType, Flags, Shutdown
from supervisors.errors import BadSpec
from supervisors.strategy import AutoShutdown, Restart, Strategy
from tests.supervisors.cast import Manual, Worker


def nobody() -> None:
    """Start nobody."""


def test_the_defaults() -> None:
    """One for one, 3 restarts in 5 s, 5 s to stop; supervisors get the time they need."""
    flags = Flags()
    worker, supervisor = ChildSpec("a", nobody), ChildSpec("s", nobody, type=ChildType.SUPERVISOR)

    assert flags == Flags(Strategy.ONE_FOR_ONE, 3, 5.0, AutoShutdown.NEVER)
    assert (worker.restart, worker.type, worker.significant) == ("permanent", "worker", False)
    assert worker.backoff is None
    assert worker.patience == 5.0
    assert supervisor.patience == Shutdown.INFINITY


@pytest.mark.parametrize(
    ("field", "value", "detail"),
    [
        ("restart", "sometimes", "invalid_restart_type"),
        ("shutdown", -1, "invalid_shutdown"),
        ("shutdown", 0, "invalid_shutdown"),
        ("shutdown", True, "invalid_shutdown"),
        ("shutdown", math.nan, "invalid_shutdown"),
        ("shutdown", math.inf, "invalid_shutdown"),
        ("shutdown", "later", "invalid_shutdown"),
        ("type", "boss", "invalid_child_type"),
        ("significant", "very", "invalid_significant"),
        ("significant", True, "bad_combination"),
        ("start", None, "missing_start"),
    ],
)
def test_a_child_that_makes_no_sense_is_refused(field: str, value: object, detail: str) -> None:
    """The error names the child and the field, and has OTP's word for it."""
    options: dict[str, Any] = {"start": nobody, field: value}

    with pytest.raises(BadSpec, match=f"^child a: {field} ") as refused:
        ChildSpec("a", **options)

    assert (refused.value.field, refused.value.detail) == (field, detail)


@pytest.mark.parametrize("id_", ["", None, 7])
def test_a_child_needs_a_name(id_: Any) -> None:  # noqa: ANN401 -- wrong on purpose
    """An id is a word."""
    with pytest.raises(BadSpec) as refused:
        ChildSpec(id_, nobody)

    assert refused.value.detail == "missing_id"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strategy", "two_for_one"),
        ("intensity", -1),
        ("intensity", 1.5),
        ("intensity", True),
        ("period", 0),
        ("period", -1),
        ("auto_shutdown", "maybe"),
    ],
)
def test_flags_that_make_no_sense_are_refused(field: str, value: object) -> None:
    """The error names the field, and has OTP's word for it."""
    options: dict[str, Any] = {field: value}

    with pytest.raises(BadSpec, match=f"^supervisor: {field} ") as refused:
        Flags(**options)

    assert refused.value.detail == f"invalid_{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [("first", -1), ("factor", 0.5), ("most", math.inf), ("jitter", 1.1), ("calm", math.nan)],
)
def test_pauses_that_make_no_sense_are_refused(field: str, value: float) -> None:
    """The error names the field."""
    options: dict[str, Any] = {field: value}

    with pytest.raises(BadSpec, match=f"^back-off: {field} "):
        Backoff(**options)


def test_children_have_to_go_with_each_other_and_their_supervisor() -> None:
    """No id twice, one template, significance where it counts, chance where pauses need it."""
    manual = Manual()
    simple = Flags(Strategy.SIMPLE_ONE_FOR_ONE)
    significant = manual.spec("b", restart=Restart.TRANSIENT, significant=True)

    for children, flags, detail in [
        ([manual.spec("a"), manual.spec("a")], None, "duplicate_child_name"),
        ([manual.spec("a"), manual.spec("b")], simple, "bad_start_spec"),
        ([], simple, "bad_start_spec"),
        ([significant], None, "bad_combination"),
        ([manual.spec("a", backoff=Backoff())], None, "invalid_backoff"),
    ]:
        with pytest.raises(BadSpec) as refused:
            manual.supervisor(*children, flags=flags)
        assert refused.value.detail == detail
    assert not manual.made


def test_plain_words_are_as_good_as_their_names() -> None:
    """A spec may be written with OTP's words."""
    manual = Manual()
    spec = manual.spec("a", Worker, restart="temporary", shutdown="brutal_kill", type="worker")
    top = manual.supervisor(spec).launch()
    manual.tell("a", "crash")

    assert spec.patience == Shutdown.BRUTAL_KILL
    assert top.is_alive()
    assert len(manual.made["a"]) == 1
