"""The report as JUnit XML: one case a point, for whatever shows test results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.testing.crash.report.report import Report
    from runefold.testing.crash.running.trial import Result

_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_UNMET = "no run came by this point"
_BROKEN_OFF = "interrupted: nothing is known of the points that are not here"


def junit(report: Report) -> str:
    """Return the report as JUnit XML."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    cases = len(report.results) + bool(report.wrong) + report.interrupted
    skipped = 0 if report.too_many_missed else len(report.missed)
    failures = len(report.failed) + bool(report.wrong) + len(report.missed) - skipped
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield (
        f"<testsuite name={_attribute(f'crash {report.app}')} tests='{cases}' "
        f"failures='{failures}' errors='{int(report.interrupted)}' skipped='{skipped}' "
        f"time='{report.seconds:.3f}'>"
    )
    yield "  <properties>"
    for name, value in (("seed", report.seed), ("mode", report.mode), ("runes", report.runes)):
        yield f"    <property name='{name}' value='{value}'/>"
    yield "  </properties>"
    if report.wrong:
        yield f"  <testcase classname={_attribute(report.app)} name='undisturbed'>"
        yield from _failure("the undisturbed run is not well", map(str, report.wrong))
        yield "  </testcase>"
    for result in report.results:
        yield from _case(report, result)
    if report.interrupted:
        yield f"  <testcase classname={_attribute(report.app)} name='the rest'>"
        yield f"    <error message='{_BROKEN_OFF}'/>"
        yield "  </testcase>"
    yield "</testsuite>"


def _case(report: Report, result: Result) -> Iterator[str]:
    yield (
        f"  <testcase classname={_attribute(report.app)} name={_attribute(result.point)} "
        f"time='{result.seconds:.3f}'>"
    )
    if result.status == "missed" and report.too_many_missed:
        yield from _failure(_UNMET, [_UNMET])
    elif result.status == "missed":
        yield f"    <skipped message='{_UNMET}'/>"
    elif result.status == "failed":
        more = [f"again: {report.rerun(result)}"] if report.again else []
        log = [f"its log: {result.shown}"] if result.shown else []
        told = [*map(str, result.wrong), *filter(None, [result.stacks]), *log, *more]
        yield from _failure(str(result.wrong[0]) if result.wrong else "failed", told)
    yield "  </testcase>"


def _failure(message: str, told: Iterator[str] | list[str]) -> Iterator[str]:
    first = message.partition("\n")[0][:200]
    yield f"    <failure message={_attribute(first)}>"
    yield escape(_printable("\n".join(told)))
    yield "    </failure>"


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
