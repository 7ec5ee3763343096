"""Tools that are programs.

    count = CommandTool(
        "count_lines",
        ["wc", "-l", "--", "{file}"],
        description="Count the lines of a file.",
        parameters={"file": Path},
        root="/srv/texts",
        side_effects=False,
    )

What holds for the program, and how:

* **Arguments** fill places of the command line, each as one entry, with no shell in between. None
  is taken for an option: what would begin an entry with `-` is refused, unless `--` comes before.
* **Paths** (parameters of type `Path`) are followed to where they really lead and must end up in
  `paths`, the working directory in `root`. A path has its entry to itself, but for fixed text.
* **Isolation**: where bubblewrap works (`bwrap`, 0.7 or later, on Linux), the program has its own
  processes, its own network without a way out unless `network=True`, and sees only the system's
  files and `reads`, both read-only, `root` and `paths`, and an empty `/tmp` of its own. It never
  sees the log's directory, nor the control socket in it. Elsewhere the network is taken away if it
  can be, and the program sees what the user sees that runs us. `CommandTool.isolation` says which
  of it holds; with `strict=True` a tool for which not all of it holds cannot be declared.
* **Privileges**: it has none and gets none, also as root: it can use files as their owner, and
  those of others only as their permissions allow every user.
* **Its end**: a *watchdog* process (`sandbox/watchdog.py`) runs it. When the program ends, takes
  more than its limits, is out of time or cancelled (SIGTERM, then SIGKILL after `grace`), or when
  we die, everything it started is killed with it.
* **Limits**: CPU time, address space, open files, processes, bytes per file and in all, no core
  dumps; see `Limits`.
* **Environment**: only the variables listed in `inherit`, and those in `env`. Standard input is
  empty. Secrets are given through `env`, never on the command line, which others can read.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from actors.tool import secrets as secret
from actors.tool.outcome import Outcome, in_words
from actors.tool.runes import SANDBOX
from actors.tool.sandbox import child_process, isolation
from actors.tool.sandbox.argv import Template, inside
from actors.tool.sandbox.streams import Streams
from actors.tool.schema import Parameter, Parameters, Unfit
from actors.tool.spec import BadTool, Declared, ToolSpec, reported
from runelog.files import path_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Unpack

    from actors.tool.context import Call

INHERITED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""The environment variables that a program inherits unless its tool says otherwise."""
GRACE: Final = 5.0
"""Seconds between SIGTERM and SIGKILL unless its tool says otherwise."""

REAPED: Final = 1.0
"""Seconds after SIGKILL in which everything is gone."""

_LAST_WORDS = 4 << 10


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a program may use; None is no limit of ours.

    >>> Limits(memory=1 << 30).files
    256
    """

    cpu: int | None = None
    """Seconds of CPU time of one process; if not said, the tool's time limit."""
    memory: int | None = 4 << 30
    """Bytes of address space of one process; some runtimes reserve far more than they use."""
    file_size: int | None = 1 << 30
    """Bytes of any one file that it writes."""
    written: int | None = 2 << 30
    """Bytes that all of it writes to disks and to its own `/tmp`, as the kernel counts them.

    Looked at many times a second: a program that writes fast gets somewhat further.
    """
    files: int | None = 256
    """Files open at a time in one process."""
    processes: int | None = 512
    """Processes of all of it at a time.

    An ordinary user's program in namespaces of its own cannot start more; its threads count there
    too. Elsewhere a program that is found to be more is killed, and is looked at many times a
    second. As root and without bubblewrap, one that forks without end can be faster than that.
    """

    def __post_init__(self) -> None:
        """Refuse what is not positive."""
        for name, value in vars(self).items():
            if value is not None and (not isinstance(value, int) or value <= 0):
                msg = f"limits: {name} is {value!r}: give a positive whole number, or None"
                raise BadTool(msg)

    def listed(self, timeout: float) -> dict[str, int]:
        """Return those of one process by the names that the operating system has for them."""
        largest = [size for size in (self.file_size, self.written) if size]
        limits = {
            "RLIMIT_CPU": self.cpu or math.ceil(timeout),
            "RLIMIT_AS": self.memory,
            "RLIMIT_FSIZE": min(largest, default=None),
            "RLIMIT_NOFILE": self.files,
        }
        return {"RLIMIT_CORE": 0} | {key: value for key, value in limits.items() if value}


class Options(Declared, total=False):
    """What a command tool can be told beside what is its own; `ToolSpec` says what each means."""

    network: bool


class CommandTool:
    r"""A program that a model can run.

    >>> from actors.tool.context import Call
    >>> echo = CommandTool("echo", ["echo", "{text}"], root="/", side_effects=False)
    >>> echo.run(Call(call_id="call_1", arguments={"text": "$HOME; ls"})).output
    '$HOME; ls\n'
    """

    def __init__(  # noqa: PLR0913 -- all by name, and most left as they are
        self,
        name: str,
        argv: Sequence[str],
        *,
        root: str | Path,
        parameters: Mapping[str, Any] | None = None,
        cwd: str = ".",
        paths: Sequence[str | Path] | None = None,
        reads: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        inherit: Sequence[str] = INHERITED,
        limits: Limits | None = None,
        success: Collection[int] = (0,),
        grace: float = GRACE,
        strict: bool = False,
        **options: Unpack[Options],
    ) -> None:
        """Declare a program.

        `parameters` gives each place of `argv` and `cwd` its type, or (type, default); one that is
        left out is text. `cwd` is seen from `root`, `paths` are `root` unless given. The program
        may read `reads` as well. Values of `env` may be `secret:NAME`. Exit codes in `success` are
        no errors. With `strict`, it cannot be declared where it cannot be isolated in full.
        """
        given: dict[str, Any] = {"network": False, **options}
        lists = {"paths": paths, "reads": reads, "inherit": inherit}
        _check_types(name, lists, env=env, limits=limits, options=options)
        self._root = path_of(root, f"the root of tool {name}").absolute()
        below = [self._root] if paths is None else paths
        self._paths = [self._root / path_of(path, f"a path of tool {name}") for path in below]
        read = [path_of(path, f"a path that tool {name} reads") for path in reads]
        self._reads = [self._root / path.expanduser() for path in read]
        try:
            self._argv, self._cwd = Template(argv), Template([cwd])
            takes, self._is_path = _declared(argv, parameters or {}, self._argv, self._cwd)
            self._parameters: Final = Parameters(takes)
            if not self._cwd.names:
                inside("cwd", self._cwd.fill({})[0], self._root, [self._root])
        except (TypeError, ValueError, Unfit) as error:
            msg = f"tool {name}: {error}"
            raise BadTool(msg) from None
        self._defaults = {one.name: one.default for one in takes if not one.required}
        self._env, self._inherit = dict(env or {}), tuple(inherit)
        self._limits, self._success = limits or Limits(), frozenset(success)
        if not grace > 0:
            msg = f"tool {name}: grace is {grace!r}: give a positive number of seconds"
            raise BadTool(msg)
        self._grace = grace
        named = (secret.named(value) for value in self._env.values())
        self.spec: Final = ToolSpec(
            name=name,
            parameters=self._parameters.schema,
            paths=tuple(str(path) for path in self._paths),
            secrets=tuple(one for one in named if one is not None),
            grace=grace + REAPED,
            **given,
        )
        self.isolation: Final = isolation.found(network=self.spec.network)
        """What the program is kept from on this machine."""
        if strict and self.isolation.missing:
            missing = " and ".join(self.isolation.missing)
            msg = (
                f"tool {name} is strict, and its {missing} cannot be isolated here, as "
                f"{self.isolation.reason}: {isolation.INSTALL}, or declare it without strict=True"
            )
            raise BadTool(msg)
        self._bubblewrap = shutil.which("bwrap") if self.isolation.by == "bubblewrap" else None

    def __repr__(self) -> str:
        """Name the tool."""
        return f"<tool {self.spec.name}>"

    def keep_out_of(self, directory: Path) -> None:
        """Refuse to work in the directory of a log, which no program sees.

        >>> CommandTool("list", ["ls"], root="/srv/texts").keep_out_of(Path("/srv/log"))
        """
        for path in [self._root, *self._paths, *self._reads]:
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory)):
                msg = (
                    f"tool {self.spec.name} works in {path}, a part of the log's {directory}: "
                    "give it another directory"
                )
                raise BadTool(msg)

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the program gets them, or raise `Unfit`."""
        return self._filled(arguments)[0]

    def _filled(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], Path]:
        values = self._defaults | self._parameters.fit(arguments)
        cwd = inside("cwd", self._cwd.fill(values)[0], self._root, [self._root])
        for name in self._is_path:
            value = values[name]
            if isinstance(value, list | tuple):
                values[name] = [str(inside(name, str(one), cwd, self._paths)) for one in value]
            elif value is not None:
                values[name] = str(inside(name, str(value), cwd, self._paths))
        return values, self._argv.fill(values), cwd

    def run(self, call: Call) -> Outcome:
        """Run the program and wait for its end. Never raises."""
        if call.cancellation.cancelled:
            return Outcome("cancelled", error="it was cancelled before it began")
        try:
            _, argv, cwd = self._filled(call.arguments)
            env, known = self._environment(call)
            timeout = self.spec.timeout if call.timeout is None else max(call.timeout, 0.0)
            order = child_process.Order(
                argv=argv,
                cwd=cwd,
                env=env,
                limits=self._limits.listed(timeout),
                processes=self._limits.processes,
                written=self._limits.written,
                bubblewrap=self._bubblewrap,
                world=self._world(argv[0], env, call.hidden),
                block=self._bubblewrap is None and self.isolation.network and not self.spec.network,
                timeout=timeout,
                grace=self._grace,
            )
            if not self.isolation.network:
                call.progress(SANDBOX, "network access could not be blocked here")
            mask, most = secret.SecretMask(known), self.spec.max_output_bytes
            streams = Streams(most, call.progress, mask, call.redactor)
            ended = child_process.run(order, call.cancellation, streams)
        except Unfit as unfit:
            return Outcome("error", error=f"the arguments do not fit: {unfit}")
        except BaseException as error:  # noqa: BLE001 -- nothing may end the thread it runs on
            frames = reported("tool_failed", self.spec, call, error)
            return Outcome("error", error=in_words(error, call.redactor), frames=frames)
        return self._outcome(ended, streams, timeout)

    def _world(
        self, program: str, env: Mapping[str, str], hidden: Sequence[str]
    ) -> isolation.World:
        """Return what the program sees, its own file included."""
        own = shutil.which(program, path=env.get("PATH"))
        tmp = env.get("TMPDIR", "")
        return isolation.World(
            writable=[self._root, *self._paths],
            reads=[*self._reads, *([] if own is None else [Path(own).absolute()])],
            hidden=[Path(path) for path in hidden],
            scratch=[Path(tmp)] if tmp.startswith("/") else [],
            room=self._limits.written,
            network=self.spec.network,
        )

    def _environment(self, call: Call) -> tuple[dict[str, str], dict[str, str]]:
        env = {name: os.environ[name] for name in self._inherit if name in os.environ}
        known = {}
        for variable, value in self._env.items():
            env[variable] = value
            if (name := secret.named(value)) is not None:
                known[name] = env[variable] = secret.revealed(name, call.secret)
        return env, known

    def _outcome(self, ended: child_process.Ended, streams: Streams, timeout: float) -> Outcome:
        output, dropped = streams.kept.text(), streams.kept.dropped
        if ended.stopped:
            said = f"it was stopped after {timeout:g} s"
            error = said if ended.stopped == "timeout" else "it was cancelled, and stopped"
            if ended.failed:
                error += f"; {ended.failed}"
            return Outcome(ended.stopped, output, error=error, truncated=dropped)
        if ended.excess:
            error = f"it was killed: over its limit of {ended.excess}"
            return Outcome("error", output, error=error, truncated=dropped)
        if ended.failed or ended.code is None:
            return Outcome("error", output or None, error=ended.failed, truncated=dropped)
        if ended.code in self._success:
            return Outcome("success", output, truncated=dropped)
        error = f"it exited with code {ended.code}"
        if ended.code < 0:
            error = f"it was killed by {_signal(-ended.code)}"
        if last := streams.kept.tail(_LAST_WORDS).strip():
            error += f"; its last words: {last}"
        return Outcome("error", output, error=error, truncated=dropped)


def _check_types(
    name: str,
    lists: Mapping[str, object],
    *,
    env: object,
    limits: object,
    options: Mapping[str, object],
) -> None:
    """Refuse what would be taken for something else, or only be noticed when the program runs."""
    if unknown := sorted(options.keys() - Options.__annotations__.keys()):
        known = ", ".join(Options.__annotations__)
        msg = f"tool {name} takes no option {unknown[0]!r}; beside those of a program: {known}"
        raise BadTool(msg)
    for what, value in lists.items():
        # The letters of one string would be so many paths, and its slashes all there is.
        if isinstance(value, str | Path):
            msg = f"tool {name}: {what} is {str(value)!r:.80}: give a list"
            raise BadTool(msg)
    match env:
        case None:
            pass
        case Mapping() if all(isinstance(one, str) for pair in env.items() for one in pair):
            pass
        case _:
            # Not shown: it may well hold secrets.
            msg = f"tool {name}: env is no dict of texts: give each variable's value by its name"
            raise BadTool(msg)
    if limits is not None and not isinstance(limits, Limits):
        msg = f"tool {name}: limits is {limits!r:.80}: give Limits(...)"
        raise BadTool(msg)


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    limits = {"SIGXCPU": "CPU time", "SIGXFSZ": "file size"}
    return f"{name}: over its limit of {limits[name]}" if name in limits else name


def _declared(
    argv: Sequence[str], types: Mapping[str, Any], line: Template, cwd: Template
) -> tuple[list[Parameter], list[str]]:
    """Return the parameters, and the names of those that are paths."""
    if isinstance(argv, str) or not argv or not argv[0] or Template(argv[:1]).names:
        msg = f"argv is {argv!r:.80}: give a list that begins with the program, ['wc', '{{file}}']"
        raise ValueError(msg)
    if unused := sorted(types.keys() - line.names - cwd.names):
        msg = f"the parameter {unused[0]} has no place: write {{{unused[0]}}} in argv"
        raise ValueError(msg)
    takes, paths = [], []
    for name in sorted(line.names | cwd.names):
        declared = types.get(name, str)
        kind, *default = declared if isinstance(declared, tuple) else (declared,)
        plain, is_path = _without_path(kind)
        if is_path:
            paths.append(name)
        if default and isinstance(default[0], Path):
            default = [str(default[0])]
        takes.append(Parameter(name, plain, *default))
    for entry, names in zip(argv, line.together, strict=True):
        # Whatever is put before or behind a path makes it another, that was not looked at.
        if len(names) > 1 and (found := names & set(paths)):
            name = min(found)
            msg = f"{entry!r} joins the path {name} to another place: give {{{name}}} its own entry"
            raise ValueError(msg)
    return takes, paths


def _without_path(kind: Any) -> tuple[Any, bool]:  # noqa: ANN401 -- types, of whatever kind
    """Return a type with text in the place of paths, and whether there were any."""
    if kind is Path:
        return str, True
    if get_origin(kind) is list and get_args(kind) == (Path,):
        return list[str], True
    if get_origin(kind) in {Union, UnionType} and set(get_args(kind)) == {Path, type(None)}:
        return str | None, True
    return kind, False
