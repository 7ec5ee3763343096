"""Rules for an app's machines: no end, deadline or question of theirs is lost, whatever happens."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from actors.children import ChildGone
from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted
from actors.scheduling.edge import run
from actors.session.public_commands import Close
from actors.tool.public_commands import Approve, Deny
from runefold.control.offline import OfflineCommands
from runefold.machines import Command, tools
from runefold.observe.history import history
from runefold.open_hook import known_kinds
from runefold.spec import AgentSpec
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused
from runelog.replay import replay
from runelog.rune import SYSTEM, Change
from tests.runefold.favours import FAVOUR, PATIENCE, Ask, Begin, Drop, Try, do

if TYPE_CHECKING:
    from collections.abc import Mapping

CONVERSATION = "conv_a"
ME = "favour_1"
KINDS = known_kinds([FAVOUR])
BOTH = pytest.mark.parametrize("conversation", [CONVERSATION, SYSTEM])
DAY = 24 * 3600.0


class Scene:
    """A favour in a session, or in the system's own conversation."""

    def __init__(
        self,
        conversation: str = CONVERSATION,
        timeouts: Mapping[str, float] | None = None,
        idle_after: float = 60.0,
    ) -> None:
        """Create the session; the favour is for each test to begin."""
        script = Scripted(["Hi."])
        self.id = conversation
        self.stage = Stage(
            kinds=[FAVOUR], tools=[do], providers={"demo": script}, idle_after=idle_after
        )
        if conversation != SYSTEM:
            spec = AgentSpec(role="helper", model="demo")
            self.stage.runtime.create_session(spec, conversation_id=conversation, timeouts=timeouts)

    def do(self, *commands: Command, entity: str = ME) -> None:
        """Give commands to the favour, one after the other, and have them carried out."""
        for command in commands:
            self.stage.runtime.do(self.id, command, entity)
            self.stage.run()

    def away(self) -> OfflineCommands:
        """End the process; return where commands are left meanwhile."""
        self.stage.crash()
        self.stage.log.mend()
        return OfflineCommands(self.stage.log, clock=self.stage.clock, kinds=KINDS)

    def back(self) -> None:
        """Open the runtime again."""
        self.stage.reopen()
        self.stage.run()

    def state(self, entity: str) -> Any:  # noqa: ANN401 -- of whichever law
        """Return what an entity's runes add up to."""
        kind = KINDS.of(entity)
        assert kind is not None
        self.stage.log.flush()
        return replay(self.stage.log, self.id, kind.lifecycle, entity=entity).state

    @property
    def root(self) -> Any:  # noqa: ANN401 -- of either law
        """The state of the conversation's root."""
        return self.state(KINDS.root(self.id).prefix)

    def kinds(self) -> list[str]:
        """Return what happened so far."""
        return [envelope.kind for envelope in self.stage.log.read(self.id)]

    def assert_over(self, result: str) -> None:
        """Check that the favour has ended so, and that its root knows of no child or question."""
        assert self.state(ME).result in {"", result}
        assert history(self.stage.log, self.id, ME, 0, KINDS).phase == "done"
        assert (self.root.children, self.root.approvals) == ((), ())


# -- ends ------------------------------------------------------------------------------------------


def test_a_session_can_close_after_a_child_was_ended_offline() -> None:
    """The end is in the table of the root as well, and the question is withdrawn with it."""
    scene = Scene()
    scene.do(Begin("tea"), Ask())
    scene.away().do(CONVERSATION, Drop(), ME)
    ended = scene.kinds()[-3:]
    scene.back()
    scene.stage.runtime.session(CONVERSATION).close(timeout=10)

    assert ended == ["favour.done", "approval.aborted", "child.ended"]
    scene.assert_over("")


def test_a_session_that_closes_offline_closes() -> None:
    """What has to stop for it stops as soon as there is a runtime."""
    scene = Scene()
    scene.do(Begin("tea"), Ask())
    scene.away().do(CONVERSATION, Close())
    scene.back()

    assert scene.root.phase.value == "closed"
    scene.assert_over("")


def test_a_child_that_is_over_as_soon_as_it_is_born_does_not_stay_in_the_table() -> None:
    """Its end is in the append of its birth: no actor comes that could tell."""
    scene = Scene()
    scene.do(Begin("nothing"))
    scene.stage.runtime.session(CONVERSATION).close(timeout=10)

    assert scene.root.phase.value == "closed"
    scene.assert_over("")


@BOTH
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_append_nothing_of_an_end_is_lost(
    conversation: str,
    after: bool,  # noqa: FBT001 -- a test's parameter
) -> None:
    """Whatever a power cut leaves, the favour ends once, and takes its question with it."""
    cuts = 0
    for cut in range(1, 40):
        scene = Scene(conversation)
        scene.stage.log.cut_at, scene.stage.log.cut_after = scene.stage.log.appends + cut, after
        for command in (Begin("tea"), Ask(), Drop()):
            with contextlib.suppress(PowerCut, Dead, Unanswered):
                scene.do(command)
            if scene.stage.log.is_cut:
                cuts += 1
                scene.stage.reopen()
                # Done before the cut it is the same, or refused where the favour has moved on.
                with contextlib.suppress(Refused):
                    scene.do(command)

        scene.assert_over("")
        if not cuts:
            break
        cuts = 0


def test_a_child_whose_actors_kept_crashing_takes_its_question_with_it() -> None:
    """The root ends it in one append, also if another writer came between."""
    scene = Scene()
    scene.do(Begin("tea"), Ask())
    scene.stage.log.flush()
    strange = Change("session", None, [tools.Result(call_id="call_9", status="success")])
    scene.stage.log.append(CONVERSATION, [strange])
    run(scene.stage.runtime._core.ask(CONVERSATION, ChildGone(ME, "crashed")))
    scene.stage.run()

    assert "session.child_restarted" not in scene.kinds()
    scene.assert_over("")


# -- questions -------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("answer", "result"), [(Approve("ann"), "yes"), (Deny("ann"), "no")])
def test_a_human_answers_a_machine_wherever_it_lives(
    conversation: str, answer: Command, result: str
) -> None:
    """Its root lists the question, and passes the answer on."""
    scene = Scene(conversation)
    scene.do(Begin("tea"), Ask())
    (asked,) = scene.root.approvals
    scene.do(answer)

    assert (asked.call_id, asked.reason) == (ME, "tea")
    assert scene.state(ME).result == result
    scene.assert_over(result)


@BOTH
def test_a_question_outlives_the_process(conversation: str) -> None:
    """It is answered after a crash, and withdrawn if it is not wanted any more."""
    scene = Scene(conversation)
    scene.do(Begin("tea"), Ask())
    scene.do(Begin("milk"), Ask(), entity="favour_2")
    scene.away()
    scene.back()
    scene.do(Approve("ann"))
    scene.do(Drop(), entity="favour_2")

    scene.assert_over("yes")
    assert scene.kinds().count("approval.executed") == scene.kinds().count("approval.aborted") == 1


@BOTH
@pytest.mark.parametrize(("answer", "result"), [(Approve("ann"), "yes"), (Deny("ann"), "no")])
def test_a_machine_is_answered_offline(conversation: str, answer: Command, result: str) -> None:
    """The answer is recorded, and its law goes on with it when a runtime opens the log."""
    scene = Scene(conversation)
    scene.do(Begin("tea"), Ask())
    offline = scene.away()
    before = scene.kinds()
    offline.do(conversation, answer, ME)
    recorded = scene.kinds()[len(before) :]
    with pytest.raises(Refused, match="favour_1 asks for no approval now"):
        offline.do(conversation, answer, ME)
    scene.back()

    assert recorded == [
        "approval.approved" if result == "yes" else "approval.rejected",
        *(["session.rested"] if conversation == CONVERSATION else []),
    ]
    assert scene.state(ME).result == result
    scene.assert_over(result)


@BOTH
def test_a_call_of_a_machine_is_approved_wherever_it_lives(conversation: str) -> None:
    """The root of its conversation lists it, be it a session or not."""
    scene = Scene(conversation)
    scene.do(Begin("tea"), Try())
    (asked,) = scene.root.approvals
    scene.do(Approve("ann"), entity=asked.call_id)

    assert scene.state(ME).result == "success"
    scene.assert_over("success")


# -- time-outs -------------------------------------------------------------------------------------


def late(scene: Scene, seconds: float) -> tuple[str, str]:
    """Return the phase of the favour just before and just after so many seconds have passed."""
    found = []
    for step in (seconds - 1, 2):
        scene.stage.advance(step)
        scene.stage.log.flush()
        found.append(history(scene.stage.log, scene.id, ME, 0, KINDS).phase)
    return found[0], found[1]


@pytest.mark.parametrize("timeouts", [None, {"favour.asked": 600}])
def test_a_timeout_counts_from_an_offline_command_that_enters_the_phase(
    timeouts: dict[str, float] | None,
) -> None:
    """The rune stores the deadline, by the law or as the session was created."""
    scene = Scene(timeouts=timeouts)
    scene.do(Begin("tea"))
    scene.away().do(CONVERSATION, Ask(), ME)
    scene.back()

    assert late(scene, PATIENCE if timeouts is None else 600) == ("asked", "done")
    scene.assert_over("")


@pytest.mark.parametrize("crashes", [False, True])
def test_a_session_has_timeouts_of_its_own(crashes: bool) -> None:  # noqa: FBT001 -- a parameter
    """Also for a phase that has none by law, and also after a crash or asleep."""
    scene = Scene(timeouts={"favour.asked": 600, "favour.tried": 3 * DAY}, idle_after=5)
    scene.do(Begin("tea"))
    if crashes:
        scene.away()
        scene.back()
    scene.do(Ask())
    scene.do(Begin("milk"), Try(), entity="favour_2")
    if crashes:
        scene.away()
        scene.back()
    asked = late(scene, 600)

    assert asked == ("asked", "done")
    assert scene.state("favour_2").phase.value == "tried"


def test_a_phase_without_a_limit_by_law_gets_one_from_the_session() -> None:
    """Without it, nothing ends the phase."""
    limited, free = Scene(timeouts={"favour.tried": 10}), Scene()
    for scene in (limited, free):
        scene.do(Begin("tea"), Try())

    assert late(limited, 10) == ("tried", "done")
    assert late(free, 10) == ("tried", "tried")


@pytest.mark.parametrize(
    ("timeouts", "why"),
    [
        ({"flavour.asked": 5}, "no kind 'flavour'"),
        ({"favour.begged": 5}, "favour has no phase 'begged'"),
        ({"favour.new": 5}, "no time-out that can be set; give favour.asked, favour.tried"),
        ({"turn.streaming": 5}, "no time-out that can be set"),
        ({"favour.asked": 0}, "give a positive number"),
        ({"favour.asked": "5"}, "give a positive number"),
        ({"favour": 5}, "favour has no phase ''"),
        (["favour.asked"], "in a dict"),
    ],
)
def test_a_timeout_that_would_not_be_kept_is_refused_by_name(
    timeouts: dict[str, float], why: str
) -> None:
    """A session is not created with one that would do nothing."""
    with pytest.raises(Refused, match=why):
        Scene(timeouts=timeouts)
