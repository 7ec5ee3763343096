"""Rules about the loop that every actor runs."""

from __future__ import annotations

from tests.runefold.talks import NAME, talk


def test_what_was_folded_is_not_folded_again() -> None:
    """An actor that hears once more of what it knows believes what it believed, the last too."""
    there = talk(["hi", "there"])
    there.session.send("one").result(10)
    running = there.stage.runtime.tree_of_actors.running(NAME)
    assert running is not None
    session = running.ctx._members["session"]
    before = session.state, session.version
    for envelope in there.stage.log.stream(NAME, "session"):
        session.hear(envelope.event_id, envelope.payload)
        there.stage.run()

    assert before == (session.state, session.version)
    assert session.version == there.stage.log.version(NAME, "session")
    assert there.session.send("two").result(10).output == "there"
