"""What the long sweeps went through, told when all is over: `pytest -p tests.crash.tally`.

A sweep says how much it tried by `record_property(SWEPT, …)`, wherever it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

SWEPT: Final = "swept"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what each sweep said."""
    told = {
        report.nodeid.partition("::")[2]: said
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, said in getattr(report, "user_properties", ())
        if name == SWEPT
    }
    if told:
        terminalreporter.section("what was swept")
        for test, said in sorted(told.items()):
            terminalreporter.line(f"{test}: {said}")
