"""The proof for `desks.py`: chats are spread over directories, and found again."""

from pathlib import Path

from desks import Desks, place
from helpdesk import build

from runefold import AgentSpec

HELPER = AgentSpec(role="helper", model="demo")
CHATS = [f"chat_{number}" for number in range(12)]


def test_a_chat_is_where_its_id_says(tmp_path: Path) -> None:
    """Each is in one directory, none of them has all, and whoever connects later finds it there."""
    directories = [str(tmp_path / name) for name in ("a", "b")]
    with build(tmp_path / "a"), build(tmp_path / "b"):
        with Desks(directories) as desks:
            for name in CHATS:
                session = desks.of(name).create_session(HELPER, conversation_id=name)
                assert session.send("Hi").result(timeout=60).output == "You said: Hi"
        with Desks(directories) as desks:
            found = {name: desks.of(name).session(name).state.stats.turns for name in CHATS}
            each = [len([*desks.of(name).sessions()]) for name in ("chat_0", "chat_1")]

    assert found == dict.fromkeys(CHATS, 1)
    assert each == [7, 5]


def test_the_place_of_a_chat_never_changes() -> None:
    """It is a function of the id alone, the same in every process and in every version."""
    assert [place(name, 4) for name in ("chat_0", "chat_1", "chat_2", "ada")] == [0, 3, 2, 3]
