"""What the fixture `crash_sweep` gives to a test."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runefold.testing.crash.app import CrashApp
from runefold.testing.crash.report.html import page
from runefold.testing.crash.sweep import (
    BESIDE,
    PATIENCE,
    Interrupted,
    Options,
    left_out,
    sweep,
)
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from runefold.runtime import Runtime
    from runefold.testing.crash.effects import Effects
    from runefold.testing.crash.report.report import Report

_FLAGS = {
    "mode": "--crash-mode",
    "seed": "--crash-seed",
    "sample": "--crash-sample",
    "jobs": "--crash-jobs",
    "order": "--crash-order",
    "patience": "--crash-patience",
}


class Sweeper:
    """Sweeps an app, and fails the test if it does not survive."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Belong to a test."""
        self._request = request
        self._config = request.config
        self._count = 0

    def __call__(
        self,
        build: Callable[[Path], Runtime],
        scenario: Callable[[Runtime], Any],
        check: Callable[[Runtime, Effects], Any] | None = None,
        **options: Any,  # noqa: ANN401 -- those of Options
    ) -> Report:
        """Sweep; options of the command line go before those that are given here."""
        report = self.report(build, scenario, check, **options)
        if not report.ok:
            pytest.fail("\n".join(report.lines()), pytrace=False)
        return report

    def report(
        self,
        build: Callable[[Path], Runtime],
        scenario: Callable[[Runtime], Any],
        check: Callable[[Runtime, Effects], Any] | None = None,
        **options: Any,  # noqa: ANN401 -- those of Options
    ) -> Report:
        """Sweep, and return what came of it, whatever that is."""
        self._count += 1
        chosen = self._chosen(Options(**options))
        app = CrashApp(build, scenario, check, name=self._request.node.nodeid)
        if self._config.getoption("--crash-point") and self._count != self._wanted:
            return left_out(app.name, chosen)
        line = _Line(self._config)
        try:
            with line:
                report = sweep(app, chosen, line.show)
        except Refused as refusal:
            pytest.fail(str(refusal), pytrace=False)
        except Interrupted as interrupted:
            # No test is told of any more then: it is said here, or nowhere.
            line.tell(interrupted.report)
            self._write(interrupted.report)
            raise
        self._request.node.user_properties.append(("crash_sweep", report.summary()))
        self._write(report)
        return report

    @property
    def _wanted(self) -> int:
        """Which sweep of the test a point of the command line is of."""
        return int(self._config.getoption("--crash-sweep", None) or 1)

    def _chosen(self, options: Options) -> Options:
        if self._config.getoption("--crash-point") == "":
            msg = "--crash-point is empty: give a point, as a failure prints it"
            pytest.fail(msg, pytrace=False)
        given = {
            name: value
            for name, flag in _FLAGS.items()
            if (value := self._config.getoption(flag)) is not None
        }
        if self._config.getoption("--crash-in-process"):
            given["in_process"] = True
        if self._config.getoption("--crash-from-the-top", False):  # noqa: FBT003 -- as pytest has it
            given["warm"] = "fork"
        options = options._replace(**given)
        return options._replace(
            point=self._config.getoption("--crash-point") or options.point,
            jobs=options.jobs or self._jobs(options),
            keep=self._kept(options),
            again=options.again or self._again(options),
        )

    @staticmethod
    def _jobs(options: Options) -> int:
        """Return how many at once, if others test beside us."""
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        beside = 1 if options.in_process else BESIDE
        return max(1, beside * (os.cpu_count() or 1) // workers)

    def _kept(self, options: Options) -> str:
        place = self._config.getoption("--crash-keep") or options.keep
        if place:
            # Tests of one name in two modules keep theirs apart.
            more = f"-{self._count}" if self._count > 1 else ""
            return str(Path(place).absolute() / f"{_slug(self._request.node.nodeid)}{more}")
        factory: pytest.TempPathFactory = self._request.getfixturevalue("tmp_path_factory")
        return str(factory.mktemp("crash"))

    def _again(self, options: Options) -> str:
        """Return the command that runs this test again, but for the point."""
        # As seen from where pytest was started, which is where the line is pasted.
        file, colons, name = self._request.node.nodeid.partition("::")
        started = self._config.invocation_params.dir
        file = os.path.relpath(self._config.rootpath / file, started)
        parts = ["pytest", shlex.quote(f"{file}{colons}{name}")]
        if options.in_process:
            parts.append("--crash-in-process")
        if options.order is not None:
            parts.append(f"--crash-order={options.order}")
        if options.patience != PATIENCE:
            parts.append(f"--crash-patience={options.patience:g}")
        if self._count > 1:
            parts.append(f"--crash-sweep={self._count}")
        return " ".join([*parts, "--crash-point"])

    def _write(self, report: Report) -> None:
        place = self._config.getoption("--crash-report")
        if place:
            directory = Path(place)
            directory.mkdir(parents=True, exist_ok=True)
            name = _slug(self._request.node.nodeid)
            more = f"-{self._count}" if self._count > 1 else ""
            (directory / f"{name}{more}.html").write_text(page(report), encoding="utf-8")


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:100]


class _Line:
    """How far a sweep has come, in one line on a terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        self._shown = False

    def show(self, done: int, total: int, failed: int) -> None:
        if self._reporter is None or not self._reporter.isatty:
            return
        width = 30
        full = width * done // max(1, total)
        bar = "█" * full + "░" * (width - full)
        wrong = f", {failed} failed" if failed else ""
        self._shown = True
        self._write(f"\r  {bar} {done} of {total} points{wrong} ")

    def tell(self, report: Report) -> None:
        """Say at once all that a person has to know."""
        if self._reporter is not None:
            self._write("\n" + "".join(f"{line}\n" for line in report.lines()))

    def _write(self, text: str) -> None:
        assert self._reporter is not None
        if self._capture is None:
            self._reporter.write(text, flush=True)
            return
        with self._capture.global_and_fixture_disabled():
            self._reporter.write(text, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown:
            self._write("\r\x1b[K")
