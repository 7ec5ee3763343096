"""Rules about tools that are programs: what they are given, and what becomes of what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from actors.tool.adapters.command import CommandTool, Limits
from actors.tool.context import Call
from actors.tool.outcome import Outcome
from actors.tool.schema import Unfit
from actors.tool.spec import BadTool
from actors.tool.toolbox import BadArguments, Toolbox
from tests.actors.tool.programs import open_files


def python(script: str, *argv: str, **options: Any) -> CommandTool:  # noqa: ANN401 -- passed on
    """Declare a program that is a Python script."""
    options.setdefault("root", "/")
    return CommandTool(
        "t", [sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"), *argv], **options
    )


def run(tool: CommandTool, /, **arguments: object) -> Outcome:
    """Run a tool once."""
    return tool.run(Call(call_id="call_1", arguments=arguments))


SAY_ARGS = "import sys; print(sys.argv[1:])"

# -- what it is given -----------------------------------------------------------------------------


def test_an_argument_is_one_entry_and_no_shell_reads_it() -> None:
    """Quotes, spaces, dollars and lines are text like any other."""
    text = "$(touch x); `y` 'z' \"q\" \n * ~ é"

    assert run(python(SAY_ARGS, "a{it}b"), it=text).output == f"{['a' + text + 'b']}\n"


def test_an_argument_is_not_taken_for_an_option() -> None:
    """What begins with a dash is refused, unless the line says by `--` that options are over."""
    refused = run(python(SAY_ARGS, "{it}"), it="--help")

    assert refused.error == (
        "the arguments do not fit: it: begins with '-', which would be taken for an option"
    )
    assert run(python(SAY_ARGS, "--", "{it}"), it="-x").output == "['--', '-x']\n"
    assert run(python(SAY_ARGS, "--it={it}"), it="-x").output == "['--it=-x']\n"


@pytest.mark.parametrize(
    ("entry", "kinds", "values"),
    [
        ("{a}{b}", {}, {"a": "", "b": "-n"}),
        ("{a}{b}", {}, {"a": "-", "b": "n"}),
        ("{a}-n", {}, {"a": ""}),
        ("{a}", {"a": int}, {"a": -1}),
        ("{a}", {"a": float}, {"a": -0.5}),
        ("{a}", {"a": list[int]}, {"a": [1, -1]}),
    ],
)
def test_no_entry_becomes_an_option_however_it_is_made(
    entry: str, kinds: dict[str, Any], values: dict[str, Any]
) -> None:
    """Joined from several, by one that is empty, or as a number: what counts is the whole entry."""
    bare = python(SAY_ARGS, entry, parameters=kinds)
    after = python(SAY_ARGS, "--", entry, parameters=kinds)
    named = python(SAY_ARGS, "--it=" + entry, parameters=kinds)

    assert "begins with '-', which would be taken for an option" in run(bare, **values).error
    assert run(after, **values).status == "success"
    assert run(named, **values).status == "success"


@pytest.mark.parametrize(
    "entry", ["{file}{text}", "{file}/{text}", "{text}{file}", "{file}:{file2}"]
)
def test_a_path_is_joined_to_nothing_that_varies(entry: str, tmp_path: Path) -> None:
    """What is put before or behind it would lead elsewhere; fixed text may be."""
    kinds = {"file": Path} | ({"file2": Path} if "file2" in entry else {})
    with pytest.raises(
        BadTool, match=r"joins the path file to another place: give \{file\} its own"
    ):
        CommandTool("t", ["cat", entry], root=tmp_path, parameters=kinds)

    (tmp_path / "a.txt").write_text("found")
    fixed = CommandTool("t", ["cat", "{file}.txt"], root=tmp_path, parameters={"file": Path})
    assert run(fixed, file="a").output == "found"


def test_lists_spread_and_nothing_goes_away() -> None:
    """An item of a list is an entry, None takes its entry along, defaults are filled in."""
    tool = python(
        SAY_ARGS,
        "{n}",
        "-x={gone}",
        "{many}",
        parameters={"n": (int, 3), "gone": (str | None, None), "many": list[str]},
    )

    assert run(tool, many=["a b", "c"]).output == "['3', 'a b', 'c']\n"
    assert run(tool, many=[], gone="g").output == "['3', '-x=g']\n"
    assert "many: begins with '-'" in run(tool, many=["a", "-b"]).error


def test_what_no_program_can_be_given_is_refused() -> None:
    """A NUL would end the argument early."""
    assert "it: contains a NUL" in run(python(SAY_ARGS, "{it}"), it="a\0b").error


def test_too_long_a_line_is_an_error_and_not_a_crash() -> None:
    """The operating system takes no entry of that size, and says so."""
    assert "cannot be started" in run(python(SAY_ARGS, "{it}"), it="x" * 500_000).error


def test_the_environment_is_what_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is inherited that is not on the list; what is set is set."""
    monkeypatch.setenv("PRIVATE", "1")
    monkeypatch.setenv("SHARED", "2")
    script = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    tool = python(script, inherit=["SHARED", "NOWHERE"], env={"SET": "3"})

    assert run(tool).output == "['SET', 'SHARED']\n"


def test_a_secret_is_given_through_the_environment_and_hidden_in_output() -> None:
    """Also where it is said in two pieces, and in what is shown on the way."""
    said: list[str] = []
    script = (
        "import os, sys; key = os.environ['KEY']\n"
        "for part in (key[:3], key[3:] + '|', 'x' + key):\n"
        "    os.write(1, part.encode())\n"
        "sys.exit(key)"
    )
    tool = python(script, env={"KEY": "secret:TOKEN"})

    def hear(_stream: str, chunk: str, /) -> None:
        said.append(chunk)

    outcome = tool.run(Call(call_id="c", secret=lambda _: "hunter2", progress=hear))

    assert outcome.status == "error"
    assert "secret:TOKEN|xsecret:TOKEN" in outcome.output
    assert "hunter2" not in repr(outcome)
    assert "hunter2" not in "".join(said)
    assert tool.spec.secrets == ("TOKEN",)
    assert "no secret is named 'TOKEN'" in run(tool).error


def test_standard_input_is_empty() -> None:
    """A program that asks gets no answer, and does not wait for one."""
    assert run(python("import sys; print(repr(sys.stdin.read()))")).output == "''\n"


def test_no_file_of_ours_is_open_in_it() -> None:
    """Only its three streams: neither the log nor the watchdog's socket."""
    script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])"

    assert run(python(script)).output == "[0, 1, 2]\n"


# -- where it may go ------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make a root with a file, a folder and links, some of which lead out."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "file").write_text("inside")
    (tmp_path / "rootless").mkdir()
    (tmp_path / "secret").write_text("outside")
    (root / "out").symlink_to(tmp_path)
    (root / "sub" / "up").symlink_to("..")
    (root / "leak").symlink_to("../secret")
    (root / "round").symlink_to("round")
    return root


CAT = ["cat", "{file}"]


@pytest.mark.parametrize("path", ["file", "./sub/../file", "sub/up/file"])
def test_a_path_inside_is_followed(place: Path, path: str) -> None:
    """The program is given where it really leads."""
    tool = CommandTool("cat", CAT, root=place, parameters={"file": Path})

    assert tool.fit({"file": path}) == {"file": str(place / "file")}
    assert run(tool, file=path).output == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "leak",
        "out/secret",
        "/etc/passwd",
        "sub/up/../secret",
        "../rootless/x",
        "round/x",
        "a\0b",
    ],
    ids=range(8),
)
def test_a_path_that_leads_out_is_refused(place: Path, path: str) -> None:
    """By dots, by links, by its beginning or by any mixture; also before it is ever run."""
    tool = CommandTool("cat", CAT, root=place, parameters={"file": Path})
    many = CommandTool("cat", CAT, root=place, parameters={"file": list[Path]})

    for one, given in ((tool, path), (many, ["file", path])):
        with pytest.raises(Unfit, match="file: "):
            one.fit({"file": given})
        assert run(one, file=given).status == "error"
    assert isinstance(Toolbox([tool]).check("cat", {"file": path}), BadArguments)


def test_a_link_that_is_changed_after_the_check_is_checked_again(place: Path) -> None:
    """An approval may take a day; what counts is where it leads when it runs."""
    tool = CommandTool("cat", CAT, root=place, parameters={"file": Path})
    tool.fit({"file": "file"})
    (place / "file").unlink()
    (place / "file").symlink_to(place.parent / "secret")

    assert "leads outside" in run(tool, file="file").error


def test_paths_may_be_allowed_elsewhere(place: Path) -> None:
    """Seen from the working directory, and nowhere but where it was said."""
    tool = CommandTool(
        "cat", CAT, root=place, paths=[place.parent], parameters={"file": Path | None}
    )

    assert run(tool, file="../secret").output == "outside"
    assert "leads outside" in run(tool, file="/etc/passwd").error


def test_the_working_directory_stays_in_its_root(place: Path) -> None:
    """It may be an argument; links are followed before it is judged."""
    tool = CommandTool("pwd", ["pwd"], root=place, cwd="{where}")

    assert run(tool, where="sub").output == f"{place / 'sub'}\n"
    for where in ("..", "out", "/", "sub/up/.."):
        assert "leads outside" in run(tool, where=where).error
    assert "cannot be started" in run(tool, where="nowhere").error


# -- what it says ---------------------------------------------------------------------------------


def test_what_it_says_is_shown_and_kept() -> None:
    """Both streams, under their names."""
    said: dict[str, str] = {}

    def hear(stream: str, chunk: str, /) -> None:
        said[stream] = said.get(stream, "") + chunk

    script = "import sys; print('one', flush=True); print('two', file=sys.stderr)"
    outcome = python(script).run(Call(call_id="c", progress=hear))

    assert said == {"stdout": "one\n", "stderr": "two\n"}
    assert sorted(outcome.output.split()) == ["one", "two"]


def test_a_flood_is_cut_in_the_middle() -> None:
    """However much it says, little is kept and shown, and all of it is counted."""
    shown: list[int] = []

    def hear(_stream: str, chunk: str, /) -> None:
        shown.append(len(chunk))

    size = 50_000_000
    script = f"import sys; sys.stdout.write('<' + 'x' * {size} + '>')"
    tool = python(script, max_output_bytes=10_000)
    outcome = tool.run(Call(call_id="c", progress=hear))

    assert outcome.status == "success"
    assert outcome.output.startswith("<xxx")
    assert outcome.output.endswith("xxx>")
    assert outcome.truncated == size + 2 - 10_000
    assert f"[... {outcome.truncated:,} bytes left out ...]" in outcome.output
    assert sum(shown) < 11_000


def test_many_lines_are_few_pieces() -> None:
    """A rune for each of a hundred thousand lines would be a flood of its own."""
    pieces: list[str] = []

    def hear(_stream: str, chunk: str, /) -> None:
        pieces.append(chunk)

    script = "import os\nfor n in range(20_000): os.write(1, b'%d\\n' % n)"
    outcome = python(script).run(Call(call_id="c", progress=hear))

    assert "".join(pieces) == outcome.output == "".join(f"{n}\n" for n in range(20_000))
    assert len(pieces) < 500


def test_bytes_that_are_no_text_are_replaced() -> None:
    """What comes out can be stored, whatever it was; a character in two pieces is one."""
    script = (
        "import os\n"
        "os.write(1, bytes(range(256)) * 100 + b'\\xc3'); os.write(1, b'\\xa9\\xe2\\x82')"
    )
    outcome = run(python(script))

    assert outcome.output.endswith("\ufffdé\ufffd")
    assert "\0" in outcome.output
    assert outcome.output.encode()


def test_a_failure_has_its_last_words() -> None:
    """The exit code, and the end of what it said, which is where programs say why."""
    outcome = run(python("import sys; print('x' * 9000); sys.exit('because')"))

    assert outcome.status == "error"
    assert outcome.error.startswith("it exited with code 1; its last words: xxx")
    assert outcome.error.endswith("because")
    assert len(outcome.error) < 5_000
    assert outcome.output.startswith("x" * 9000)


def test_an_exit_code_may_be_no_failure() -> None:
    """Some programs answer by it."""
    tool = CommandTool("t", ["sh", "-c", "exit 1"], root="/", success=(0, 1))

    assert run(tool) == Outcome("success", "")


def test_a_program_that_is_not_there_is_named() -> None:
    """So is one that may not be run."""
    missing = run(CommandTool("t", ["no-such-program"], root="/"))
    barred = run(CommandTool("t", ["/etc/hostname"], root="/"))

    assert missing.error.startswith(
        "there is no program 'no-such-program': install it, or mend PATH"
    )
    assert "'/etc/hostname' cannot be started: " in barred.error


def test_a_listener_that_fails_ends_the_program() -> None:
    """What cannot be recorded must not go on; the error is an outcome."""

    def deaf(_stream: str, _chunk: str, /) -> None:
        msg = "the log is closed"
        raise RuntimeError(msg)

    script = "import signal; print('here', flush=True); signal.pause()"
    before = open_files()
    outcome = python(script).run(Call(call_id="c", progress=deaf))

    assert outcome.error == "RuntimeError: the log is closed"
    assert open_files() == before


# -- declaring ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ([], {}, "begins with the program"),
        ("ls -l", {}, "begins with the program"),
        (["{program}"], {}, "begins with the program"),
        (["ls", "{a.b}"], {}, "not just a name"),
        (["ls", "{a!r}"], {}, "not just a name"),
        (["ls", "{0}"], {}, "not just a name"),
        (["ls", "{a"], {}, "tool t: "),
        (["ls"], {"parameters": {"a": str}}, "the parameter a has no place"),
        (["ls", "{a}"], {"parameters": {"a": complex}}, "JSON cannot describe the parameter a"),
        (["ls"], {"grace": 0}, "grace is 0"),
        (["ls"], {"timeout": 0}, "timeout is 0"),
    ],
)
def test_what_cannot_be_run_is_refused_when_declared(
    argv: list[str], options: dict[str, Any], message: str
) -> None:
    """A model never chooses the program, and a place is a name."""
    with pytest.raises(BadTool, match=message):
        CommandTool("t", argv, root="/", **options)


def test_a_limit_is_positive() -> None:
    """One that is not is refused by name."""
    with pytest.raises(BadTool, match="memory is 0"):
        Limits(memory=0)
