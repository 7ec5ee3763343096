"""Keeps the views of all kinds in step with the log, beside the actors.

Views are told of committed runes only. At an open they are brought to the log's head, at once if
its index tells that it has no entity of their kinds; then one job follows the log, and wakes for
runes of these kinds. A view that fails is reported, left where it is and tried again later; the
others and the machine go on. Nothing here runs if no kind has views.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from actors.catalogue import KINDS
from actors.operator_log import log as operator
from actors.units import SECOND
from actors.view import Mark, Move, Step, View
from runefold.observe.history import Path as Course
from runefold.observe.history import born
from runefold.observe.monitoring import Alert
from runefold.view_files import FileView, Record
from runelog.errors import Closed, Gone, IllegalTransition, Refused, UnknownConversation
from runelog.replay import anchor
from runelog.rune import Gap, State, Tombstone, Unknown, kind_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from actors.kind import Kind, Kinds
    from actors.ports import Job
    from actors.shell.conversation import Services
    from runelog.log import Log
    from runelog.rune import Envelope, Rune

CHUNK: Final = 4_096
"""So many runes are taken to the views at a time."""
MAX_FOLDS: Final = 2_048
"""At most so many entities are kept in memory; others are read from the log when they go on."""
_IDLE: Final = 60.0
"""After so many seconds without news the job looks for erased conversations."""
_GATHER: Final = SECOND // 50
"""How long runes that follow each other are gathered for one write."""
_SHORTEST, _LONGEST = SECOND // 2, 60 * SECOND
"""How long a view that failed is left alone, at first and at most."""


class _Fold:
    """One entity: its state and its moves, as far as it was read."""

    def __init__(self, kind: Kind, name: str) -> None:
        self._kind = kind
        self._name = name
        self._course: Course | None = None
        self._state: Any = kind.lifecycle.initial
        self._history: list[Move] = []
        self.event_id = 0

    def take(self, envelope: Envelope, position: int, kinds: Kinds) -> Step | None:
        """Go on by a rune of its stream; None before its birth and if it makes no sense."""
        self.event_id, rune = envelope.event_id, envelope.payload
        if isinstance(rune, Tombstone | Unknown):
            return None
        if self._course is None and envelope.owner == self._name:
            self._course = born(envelope, kinds)
        course = self._course
        if course is None or course.invalid is not None:
            return None
        try:
            state = self._kind.lifecycle.apply(self._state, rune)
        except IllegalTransition:
            course.take(envelope)  # finds it invalid too, which is an alert of its own
            return None
        move = course.take(envelope)
        self._state = state
        if move is not None:
            self._history.append(move)
        return Step(
            envelope.conversation,
            self._name,
            envelope.event_id,
            position,
            envelope.time / SECOND,
            course.began / SECOND,
            state,
            move,
            self._history,
            len(self._history),
        )


class _Folds:
    """The entities of kinds that have views, those that went on last."""

    def __init__(self, log: Log, kinds: Kinds, watched: frozenset[str]) -> None:
        self._log = log
        self._kinds = kinds
        self._watched = watched
        self._found: OrderedDict[tuple[str, str], _Fold] = OrderedDict()

    def take(self, envelope: Envelope, position: int) -> Iterator[tuple[str, Step]]:
        """Yield what a rune means to each entity that has views, with the name of its kind."""
        for name in dict.fromkeys((envelope.owner, *envelope.observers)):
            kind = self._kinds.of(name)
            if kind is None or kind.name not in self._watched:
                continue
            key = envelope.conversation, name
            fold = self._found.pop(key, None)
            if fold is None or fold.event_id >= envelope.event_id:
                fold = _Fold(kind, name)
                until = envelope.event_id - 1
                for before in self._log.stream(*key, until=until) if until else ():
                    fold.take(before, 0, self._kinds)
            self._found[key] = fold
            step = fold.take(envelope, position, self._kinds)
            if step is not None:
                yield kind.name, step
        while len(self._found) > MAX_FOLDS:
            self._found.popitem(last=False)

    def replay(self, conversation: str, entity: str) -> Iterator[Step]:
        """Yield all steps of an entity; none if the log does not have it any more."""
        kind = self._kinds.of(entity)
        if kind is None:
            return
        fold = _Fold(kind, entity)
        try:
            for envelope in self._log.stream(conversation, entity):
                if (step := fold.take(envelope, 0, self._kinds)) is not None:
                    yield step
        except (UnknownConversation, Gone):
            return


@dataclass
class _ViewState:
    """One view, and how far it has come."""

    kind: str
    view: View
    cursor: int | None = None
    """The position up to which it was told; None if it has to be asked, at an open or a failure."""
    counts: dict[str, int] | None = None
    """The last event of each conversation that it was told of, if it began with the first."""
    is_level: bool = False
    """Whether it was told that it has caught up."""
    erased: set[str] = field(default_factory=set)
    error: str = ""
    since: int = 0
    pause: int = _SHORTEST
    retry: int = 0


class Views:
    """All views of one runtime."""

    def __init__(self, kinds: Kinds, log: Log, directory: Path | None, services: Services) -> None:
        """Bring what the kinds declare to the log's head; files are kept in `directory`.

        Without one, our own kinds have none: whoever opens a log in memory did not ask for them.
        """
        self._log = log
        self._kinds = kinds
        self._services = services
        self._lock = threading.RLock()
        self._closed = False
        self._job: Job | None = None
        self._looked = 0
        """When it last looked for erased conversations."""
        self._heard = 0
        """The log's position when the views were last told of what is new."""
        self._record = None if directory is None else Record(directory)
        self._watched = frozenset(kind.name for kind in kinds if kind.views)
        self._folds, self._folds_at = self._new_folds(), 0
        self._feeds = [_ViewState(kind.name, view) for kind in kinds for view in self._bound(kind)]
        self._wakes = frozenset(kind_of(rune) for kind in kinds for rune in self._seen(kind))
        names = [feed.view.name for feed in self._feeds]
        for name in names:
            if not name or names.count(name) > 1:
                msg = f"two views are named {name!r}: give each a name, or a path, of its own"
                raise Refused(msg)
        self.catch_up()

    def _bound(self, kind: Kind) -> Iterator[View]:
        for view in kind.views:
            if isinstance(view, View):
                yield view
            elif self._record is not None:
                yield FileView(kind, view, self._record, self._folds.replay)
            elif kind not in KINDS.all:
                msg = f"{kind.name} has a view in files: say with views= where they are kept"
                raise Refused(msg)

    def _seen(self, kind: Kind) -> Iterable[type[Rune]]:
        """Return the runes that an entity with views may have in its stream: others wake none."""
        if kind.name not in {feed.kind for feed in self._feeds}:
            return ()
        return {*kind.runes, *kind.retired, *kind.lifecycle.runes, *kind.lifecycle.observed}

    def _new_folds(self) -> _Folds:
        return _Folds(self._log, self._kinds, self._watched)

    # -- beside the actors --------------------------------------------------------------------

    def start(self) -> None:
        """Bring the views to the log's head once more, and go on by itself from now on."""
        self.catch_up()
        self.wake()

    def wake(self) -> None:
        """See to it that a job is under way; one that is driven by hand ends when all is told."""
        with self._lock:
            if self._feeds and self._job is None and not self._closed:
                steps = self._follow() if self._services.scheduler.goes_on else self._poll()
                self._job = self._services.scheduler.work("views", steps)

    def _follow(self) -> Generator[int | None, None, None]:
        """Wait for news, gather some, and tell the views of them."""
        clock = self._services.clock
        try:
            while not self._closed:
                wait = _IDLE
                failed = [feed.retry for feed in self._feeds if feed.error]
                if failed:
                    wait = min(max((min(failed) - clock.now()) / SECOND, 0.01), _IDLE)
                for _ in self._log.follow(None, self._heard, kinds=self._wakes, wait=wait):
                    break
                yield clock.now() + _GATHER
                self.catch_up()
        except Closed:
            return
        except Exception as error:  # noqa: BLE001 -- the log's failure: its writers say so too
            operator.error("views_stopped", error=str(error))

    def _poll(self) -> Generator[int | None, None, None]:
        """Tell the views of what is committed until nothing is new for a while."""
        pause = _GATHER
        while not self._closed and pause < SECOND:
            before = self._heard
            try:
                self.catch_up()
            except Closed:
                break
            pause = pause * 2 if self._heard == before else _GATHER
            yield self._services.clock.now() + pause
        with self._lock:
            self._job = None

    def close(self) -> None:
        """Tell the views of all there is, and let go of them. The log must be open."""
        if not self._feeds:
            return
        self.catch_up()
        with self._lock:
            self._closed = True
            for feed in self._feeds:
                with self._trying([feed]):
                    if feed.cursor is not None:
                        feed.view.close()
            if self._record is not None:
                self._record.close()

    def drop(self) -> None:
        """End as a killed process does: what was not told is not told any more."""
        with self._lock:
            self._closed = True
            if self._record is not None:
                self._record.close()

    # -- keeping in step ----------------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring all views that work to the log's head."""
        with self._lock:
            if self._closed or not self._feeds:
                return
            now = self._services.clock.now()
            self._heard = self._log.position
            closed = [feed for feed in self._feeds if feed.cursor is None and feed.retry <= now]
            if closed or now - self._looked >= _IDLE * SECOND:
                self.look_for_erased(closed)
            while self._round():
                pass

    def look_for_erased(self, opening: Iterable[_ViewState] = ()) -> None:
        """Remove from the views what was erased from the log; open those that are not yet."""
        with self._lock:
            self._looked = self._services.clock.now()
            with self._trying(self._feeds):
                gone = {each.id for each in self._log.conversations() if each.state is State.ERASED}
                for feed in self._feeds:
                    if feed.cursor is not None or feed in opening:
                        with self._trying([feed]):
                            self._erase(feed, gone)

    def _erase(self, feed: _ViewState, gone: set[str]) -> None:
        new = sorted(gone - feed.erased)
        for conversation in new:
            feed.view.erase(conversation)
            feed.erased.add(conversation)
        if feed.cursor is not None and not new:
            return
        # If its lines are in one file with those of others, that has to be made anew.
        mark = feed.view.mark()
        if feed.cursor is None or mark is None:
            self._begin(feed, mark)

    def _begin(self, feed: _ViewState, mark: Mark | None) -> None:
        feed.is_level = False
        if mark is None or not self._fits(mark):
            feed.view.reset()
            feed.cursor, feed.counts = 0, {}
            self._skip(feed)
        else:
            feed.cursor, feed.counts = mark.position, None if mark.position else {}

    def _skip(self, feed: _ViewState) -> None:
        """Go to the log's head at once if the index tells that there is nothing for a view."""
        kind, position = self._kinds[feed.kind], self._log.position
        if self._log.may_hold(kind.prefix if kind.single else f"{kind.prefix}_"):
            return
        for last in self._log.read_all(position - 1) if position else ():
            feed.view.take((), mark := Mark(_end(last), _anchor(last)))
            feed.cursor, feed.counts = mark.position, None
            return

    def _fits(self, mark: Mark) -> bool:
        """Return True if the log has, at a mark's position, the rune that was there."""
        if mark.position == 0:
            return True
        if mark.position > self._log.position:
            return False
        found = next(iter(self._log.read_all(mark.position - 1)), None)
        return found is not None and _anchor(found) == mark.anchor

    def _round(self) -> bool:
        """Tell each view of the next runes; return True if there were any."""
        at: dict[int, list[_ViewState]] = {}
        for feed in self._feeds:
            if feed.cursor is not None:
                at.setdefault(feed.cursor, []).append(feed)
        more = False
        for cursor, feeds in at.items():
            more = self._advance(cursor, feeds) or more
        return more

    def _advance(self, cursor: int, feeds: list[_ViewState]) -> bool:
        """Tell views that have come to the same position of what follows."""
        with self._trying(feeds):
            items = [*islice(self._log.read_all(cursor), CHUNK)]
            if not items:
                for feed in feeds:
                    with self._trying([feed]):
                        self._level(feed)
                return False
            steps = self._steps(cursor, feeds, items)
            mark = Mark(_end(items[-1]), _anchor(items[-1]))
            for feed in feeds:
                with self._trying([feed]):
                    if steps is None:
                        self._begin(feed, None)
                    else:
                        feed.view.take(steps.get(feed.kind, ()), mark)
                        feed.cursor = mark.position
            return any(feed.cursor is not None for feed in feeds)
        return False

    def _steps(
        self, cursor: int, feeds: list[_ViewState], items: list[Envelope | Gap]
    ) -> dict[str, list[Step]] | None:
        """Return what runes mean to the entities of each kind; None if some cannot be found."""
        folds = self._new_folds()
        if cursor == max(feed.cursor or 0 for feed in self._feeds):
            # The others are behind, and read once more what these have read.
            if cursor == self._folds_at:
                folds = self._folds
            self._folds_at = _end(items[-1])
            self._folds = folds
        whole = [feed.counts for feed in feeds if feed.counts is not None]
        counts = whole[0] if len(whole) == len(feeds) else None
        found: dict[str, list[Step]] = {}
        for envelope, position in self._filled(items, counts):
            if envelope is None:
                return None
            for kind, step in folds.take(envelope, position):
                found.setdefault(kind, []).append(step)
        for feed in feeds:
            feed.counts = counts
        return found

    def _filled(
        self, items: Iterable[Envelope | Gap], counts: dict[str, int] | None
    ) -> Iterator[tuple[Envelope | None, int]]:
        """Yield runes with their positions, those of gaps too: an archive can still be read.

        None stands for runes of a gap that cannot be told from others: begin with the first then.
        """
        for item in items:
            if not isinstance(item, Gap):
                if counts is not None:
                    counts[item.conversation] = item.event_id
                yield item, item.position
            elif item.conversation is not None and item.reason in {"archived", "moved"}:
                if counts is None:
                    yield None, item.first
                    return
                done = counts.get(item.conversation, 0)
                until = counts[item.conversation] = done + item.last - item.first + 1
                found = self._log.read(item.conversation, done, until)
                for position, envelope in enumerate(found, item.first):
                    yield envelope, position

    # -- those that fail ----------------------------------------------------------------------

    @contextlib.contextmanager
    def _trying(self, feeds: Iterable[_ViewState]) -> Iterator[None]:
        """Let views fail, and not what goes on around them; a log that was closed is no failure."""
        try:
            yield
        except Closed:
            raise
        except Exception as error:  # noqa: BLE001 -- an app's code, a disk, a damaged log
            for feed in feeds:
                self._fail(feed, error)

    def _level(self, feed: _ViewState) -> None:
        """Take notice that a view was told everything."""
        if not feed.is_level:
            feed.view.caught_up()
            feed.is_level, feed.counts = True, None
        if feed.error:
            feed.error = ""
            operator.info("view_recovered", view=feed.view.name)

    def _fail(self, feed: _ViewState, error: Exception) -> None:
        now = self._services.clock.now()
        if not feed.error:
            feed.since, feed.pause = now, _SHORTEST
        if feed.error != (text := f"{type(error).__name__}: {error}"):
            operator.error("view_failed", view=feed.view.name, error=text)
        feed.error, feed.cursor, feed.counts = text, None, None
        feed.retry = now + feed.pause
        feed.pause = min(feed.pause * 2, _LONGEST)

    def alerts(self) -> list[Alert]:
        """Return an alert for each view that fails now."""
        return [
            Alert("view", "", feed.view.name, feed.error, feed.since / SECOND, 0)
            for feed in self._feeds
            if feed.error
        ]


def _end(item: Envelope | Gap) -> int:
    return item.last if isinstance(item, Gap) else item.position


def _anchor(item: Envelope | Gap) -> str:
    return f"gap {item.conversation}" if isinstance(item, Gap) else anchor(item).hex()
