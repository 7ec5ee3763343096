"""The contract on erasing conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    A,
    B,
    Base,
    C,
    NoteAttached,
    facts,
    merged,
    notes,
    picture,
    some,
    texts,
)
from runelog.errors import Corrupt, Gone
from runelog.rune import Change, Conversation, Gap, State

if TYPE_CHECKING:
    from runelog.log import Log


class Erasing(Base):
    """Erasing: gone for good, and said so."""

    def test_an_erased_conversation_is_gone(self, log: Log) -> None:
        """Nothing can be read from it or appended to it, and each call says at once why."""
        some(log)
        log.erase(A)

        with pytest.raises(Gone):
            log.read(A)
        with pytest.raises(Gone):
            log.stream(A, "note_1")
        with pytest.raises(Gone):
            log.version(A, "note_1")
        with pytest.raises(Gone):
            log.follow(A)
        with pytest.raises(Gone):
            log.append(A, [notes("note_1", "x", version=0)])
        with pytest.raises(Gone):
            log.archive(B, A)
        with pytest.raises(Gone):
            log.restore(A)
        assert log.conversation(B).state is State.LIVE

    def test_a_tombstone_is_left(self, log: Log) -> None:
        """It stays listed as erased, and not even how much there was or when can be told."""
        some(log)
        log.erase(A)

        assert log.conversation(A) == Conversation(A, 0, 0, 0, 0, State.ERASED)
        assert [conversation.id for conversation in log.conversations()] == [A, B, C]

    def test_others_are_not_touched(self, log: Log) -> None:
        """Other conversations, positions and open work stay what they were."""
        some(log)
        log.append(B, [notes("note_1", "b3", open=True)])
        before = {name: [facts(rune) for rune in log.read(name)] for name in (B, C)}
        log.erase(A)

        assert {name: [facts(rune) for rune in log.read(name)] for name in (B, C)} == before
        assert [work.conversation for work in log.open_work()] == [B]
        assert log.append(C, [notes("note_1", "c2")]).position == 8

    def test_a_gap_stands_where_runes_were_erased(self, log: Log) -> None:
        """In the order of the log, erased runes are gaps that name conversation and reason."""
        some(log)
        log.erase(A)

        assert texts(log.read_all()) == ["[erased]", "b1", "c1", "[erased]", "b2"]
        gaps = [gap for gap in merged(log.read_all()) if isinstance(gap, Gap)]
        assert gaps == [Gap(1, 2, "erased", A), Gap(5, 5, "erased", A)]

    def test_open_work_is_erased_too(self, log: Log) -> None:
        """Erasing asks nobody: what was left to do is not listed any more."""
        log.append(A, [notes("note_1", "a", open=True)])
        log.erase(A)

        assert list(log.open_work()) == []
        assert list(log.open_work(A)) == []

    def test_erasing_again_does_nothing(self, log: Log) -> None:
        """Erasing what is erased changes nothing."""
        some(log)
        log.erase(A, A)
        before = picture(log)
        log.erase(A)

        assert picture(log) == before

    def test_what_is_archived_can_be_erased(self, log: Log) -> None:
        """Cold storage keeps nothing of an erased conversation, restored in between or not."""
        some(log)
        log.archive(A, B)
        log.restore(B)
        log.append(B, [notes("note_1", "b3")])
        log.erase(A, B)

        assert merged(log.read_all()) == [
            Gap(1, 2, "erased", A),
            Gap(3, 3, "erased", B),
            *merged(log.read(C)),
            Gap(5, 5, "erased", A),
            Gap(6, 6, "erased", B),
            Gap(9, 9, "erased", B),
        ]
        with pytest.raises(Gone):
            log.restore(A)

    def test_blobs_are_erased_too(self, log: Log) -> None:
        """Large fields go with their conversation; the same content elsewhere stays."""
        rune = NoteAttached(content=bytes(2 << 20))
        for name in (A, B):
            log.append(name, [Change("note_1", None, [rune])])
        (envelope,) = log.read(A)
        ((_, digest, _),) = envelope.blobs
        log.erase(A)

        assert log.codec.blobs is not None
        with pytest.raises(Corrupt):
            log.codec.blobs.get(A, digest)
        assert [envelope.payload for envelope in log.read(B)] == [rune]

    def test_what_did_not_wait_is_erased_too(self, log: Log) -> None:
        """An append that returned before an erase does not come back after it."""
        log.append(A, [notes("note_1", "a")])
        log.append(A, [notes("note_1", "b")], durable=False)
        log.erase(A)
        log.flush()

        assert merged(log.read_all()) == [Gap(1, 2, "erased", A)]
