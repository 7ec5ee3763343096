"""A scene that cannot run is a missed bar that says why; one that can tells what it measured."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bench import busy, streams, web

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_scene_that_crashes_says_so_and_does_not_crash_the_bench(tmp_path: Path) -> None:
    """There is no such scene, so its process ends badly."""
    found = streams._ran("there_is_none", tmp_path)

    assert found["reason"].startswith("it ended with")


def test_the_lag_of_a_fragment_is_the_time_since_it_was_given_away() -> None:
    """Each word of a text is a moment; gathered ones are told one by one."""
    now = time.perf_counter_ns()
    lags = [*streams._lags(f"{now - 5_000_000} {now - 3_000_000} ")]

    assert len(lags) == 2
    assert 5 <= lags[0] < 5 + 1_000
    assert 3 <= lags[1] < lags[0]


def test_what_reads_streams_without_a_runtime_hears_every_fragment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The program beside which ours is held reads all of them, at their pace."""
    streams.bare("10", "0.5")
    found = json.loads(capsys.readouterr().out)

    assert found["heard"] == 10 * 5
    assert found["p50"] >= 0
    assert found["cpu"] > 0


def test_turns_are_timed_in_quiet_and_while_others_are_busy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sessions go on all the time, and each piece of heavy work has its figure."""
    for name, less in {"ARCHIVED": 3, "TALKERS": 2, "IDLE_AFTER": 0.1, "AFTER": 0.1}.items():
        monkeypatch.setattr(busy, name, less)
    busy.disturbed(str(tmp_path), "600", "0.2")
    found = json.loads(capsys.readouterr().out)

    assert {*found} == {"quiet", "it wakes", "it is sealed", "they are archived", "busy"}
    assert all(each > 0 for each in found.values())


def test_a_web_app_is_asked_by_another_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it is answered, with a runtime as with a thread that burns what that took."""
    web.measured("ours", str(tmp_path), "1", "0")
    ours = json.loads(capsys.readouterr().out)
    web.measured("burning", "", "1", str(ours["cpu"]))
    burning = json.loads(capsys.readouterr().out)

    assert all(each > 0 for each in (*ours.values(), *burning.values()))
