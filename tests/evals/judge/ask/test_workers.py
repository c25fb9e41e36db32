import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future

import pytest

from evals.judge.ask.workers import Workers
from tests.support.child import environment

# interrupts itself while it waits for a call that takes a minute, as a second Ctrl-C does
LEAVES = """
import os, signal, threading, time
from evals.judge.ask.workers import Workers
workers = Workers(2, "calls")
workers.submit(lambda: time.sleep(60))
threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    workers.finish()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_calls_are_made_side_by_side_by_no_more_threads_than_allowed() -> None:
    workers, meeting = Workers(3, "side by side"), threading.Barrier(3, timeout=20)
    names: set[str] = set()

    def call() -> int:
        names.add(threading.current_thread().name)
        return meeting.wait()

    found = [workers.submit(call) for _ in range(6)]
    assert sorted(one.result(20) for one in found) == [0, 0, 1, 1, 2, 2]
    workers.finish()
    assert names == {"side by side_0", "side by side_1", "side by side_2"}
    assert not names & {thread.name for thread in threading.enumerate()}


def test_what_a_call_raises_is_raised_to_who_waits() -> None:
    workers = Workers(1, "raising")
    failing: Future[float] = workers.submit(lambda: 1 / 0)
    after = workers.submit(lambda: 2)
    with pytest.raises(ZeroDivisionError):
        failing.result(20)
    assert after.result(20) == 2
    workers.finish()


def test_at_the_end_calls_that_were_begun_are_waited_for_and_the_others_dropped() -> None:
    workers, begun, go = Workers(1, "ending"), threading.Event(), threading.Event()

    def call() -> str:
        begun.set()
        go.wait(20)
        return "done"

    first, second = workers.submit(call), workers.submit(call)
    cancelled = workers.submit(call)
    assert cancelled.cancel()
    assert begun.wait(20)
    threading.Timer(0.2, go.set).start()
    workers.finish()
    assert first.result(0) == "done"
    with pytest.raises(CancelledError):
        second.result(0)


def test_without_calls_there_is_nothing_to_wait_for() -> None:
    before = threading.active_count()
    Workers(4, "idle").finish()
    assert threading.active_count() == before


def test_a_process_that_is_interrupted_while_it_waits_ends_at_once() -> None:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LEAVES], env=environment({}), capture_output=True, text=True, timeout=50, check=True
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
    assert time.monotonic() - start < 40


def test_a_call_that_is_abandoned_gives_its_place_to_another_and_is_not_waited_for() -> None:
    workers, begun, go = Workers(1, "leaving"), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        go.wait(20)

    hanging = workers.submit(call)
    assert begun.wait(20)
    workers.abandon(hanging)
    assert workers.submit(lambda: 2).result(20) == 2
    workers.finish()
    assert not hanging.done()
    go.set()
    hanging.result(20)


def test_the_end_waits_no_longer_than_told() -> None:
    workers, begun, go = Workers(1, "patient"), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        go.wait(20)

    hanging = workers.submit(call)
    assert begun.wait(20)
    start = time.monotonic()
    workers.finish(0.1)
    assert time.monotonic() - start < 5 and not hanging.done()
    go.set()
