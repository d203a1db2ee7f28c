"""What is under way is said on standard error, also by stages that call nobody."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable

import pytest

from sightline.report import streams
from sightline.report.streams import Ticker


class Screen(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def wait_for(condition: Callable[[], bool]) -> None:
    """Until the thread has done it; a test that waits for nothing fails by the clock of the whole run."""
    for _ in range(24_000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("the thread never did it")


def test_the_share_is_told_while_a_stage_is_under_way() -> None:
    ticker = Ticker()
    assert ticker.under_way == "working"
    ticker("finding who is exposed", 0.0)
    assert ticker.under_way == "finding who is exposed"
    ticker("records", 0.25)
    assert ticker.under_way == "records 25 %"


def test_a_stage_that_is_done_gives_way_to_the_one_it_is_a_part_of() -> None:
    ticker = Ticker()
    ticker("finding who is exposed", 0.0)
    ticker("records", 1.0)
    assert ticker.under_way == ticker.stage == "finding who is exposed"


def test_the_time_that_is_left_is_that_of_the_rest_at_the_same_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.0, 110.0, 200.0, 209.0, 209.0])  # the ticker begins, then five reports
    monkeypatch.setattr(streams.time, "monotonic", lambda: next(clock))
    ticker = Ticker(patience=3.0)
    ticker("choosing the noise", 0.2)
    assert ticker.seconds_left(110.0) is None, "nothing was done yet"
    ticker("choosing the noise", 0.4)
    assert ticker.seconds_left(102.0) is None, "too early to tell"
    assert ticker.seconds_left(110.0) == pytest.approx(30.0)
    ticker("choosing the noise", 0.1)  # another problem of the same kind
    ticker("choosing the noise", 0.55)
    assert ticker.seconds_left(209.0) == pytest.approx(9.0)
    ticker("choosing the noise", 1.0)
    assert ticker.seconds_left(209.0) is None


def test_the_time_that_is_left_does_not_grow_while_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 0.0, 10.0])
    monkeypatch.setattr(streams.time, "monotonic", lambda: next(clock))
    ticker = Ticker(patience=3.0)
    ticker("deciding who can be told apart", 0.0)
    ticker("deciding who can be told apart", 0.5)
    left = [ticker.seconds_left(float(now)) for now in range(10, 40)]
    assert left[0] == pytest.approx(10.0)
    assert left == sorted(left, reverse=True)  # type: ignore[type-var]
    monkeypatch.setattr(streams.time, "monotonic", lambda: 35.0)
    assert ticker._line(0.0) == "deciding who can be told apart 50 % … 35 s, time left of this step unknown"


def test_a_silent_stage_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(streams, "LOOK", 0.001)
    with Ticker(patience=0.0) as ticker:
        ticker("first", 0.0)
        wait_for(lambda: "first …" in written.getvalue())
        ticker("second", 0.5)
        wait_for(lambda: "second 50 % …" in written.getvalue())
        ticker("second", 0.6)
    lines = [line.partition(" …")[0] for line in written.getvalue().splitlines()]
    assert [line for line in lines if line != "working"] == ["first", "second 50 %"], "a line for each stage"


def test_a_long_stage_says_again_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(streams, "LOOK", 0.001)
    monkeypatch.setattr(streams, "_REPEAT", 0.0)
    with Ticker(patience=0.0) as ticker:
        ticker("records", 0.1)
        wait_for(lambda: written.getvalue().count("records 10 % …") > 1)
        ticker("records", 0.2)
        wait_for(lambda: "records 20 % …" in written.getvalue())


@pytest.mark.slow
def test_a_terminal_has_a_spinner_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(streams, "LOOK", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    with Ticker(patience=0.0) as ticker:
        ticker("[records]", 0.0)
        wait_for(lambda: "[records] … 0 s" in screen.getvalue())
        ticker("[records]", 0.5)
        wait_for(lambda: "[records] 50 %" in screen.getvalue())
    assert screen.getvalue().endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K")), "the line is cleared"


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker(patience=math.inf) as ticker:  # nothing outlasts it
        ticker("records", 0.5)
    assert capsys.readouterr().err == ""


def test_it_ends_with_what_it_watched(capsys: pytest.CaptureFixture[str]) -> None:
    ticker = Ticker(patience=math.inf)
    with pytest.raises(KeyboardInterrupt), ticker:
        raise KeyboardInterrupt
    assert not ticker._thread.is_alive()
    assert capsys.readouterr().err == ""
