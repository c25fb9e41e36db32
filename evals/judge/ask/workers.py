"""Threads that make calls, and that do not block the end of the process."""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
Job = tuple[Future[Any], Callable[[], Any]]


class Workers:
    """A pool of daemon threads.

    Before it ends, the interpreter waits for the threads of a `ThreadPoolExecutor`, as long as their calls take; these
    it leaves behind.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._busy: dict[Future[Any], threading.Thread] = {}

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Run a call as soon as a thread is free."""
        future: Future[Result] = Future()
        self._jobs.put((future, call))
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Wait for a call no longer: its thread ends when the call does, if ever, and another takes its place."""
        thread = self._busy.pop(future, None)
        if thread in self._threads:
            self._threads.remove(thread)

    def finish(self, patience_s: float = math.inf) -> None:
        """Drop the calls that no thread has begun, and wait so long for the others.

        Raises:
            KeyboardInterrupt: It was interrupted; the calls go on, unless the process ends first.
        """
        for job in self._not_begun():
            job[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        end = time.monotonic() + patience_s
        for thread in self._threads:
            thread.join(min(threading.TIMEOUT_MAX, max(0.0, end - time.monotonic())))

    def _not_begun(self) -> list[Job]:
        jobs: list[Job] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def _work(self) -> None:
        thread = threading.current_thread()
        while thread in self._threads and (job := self._jobs.get()) is not None:
            future, call = job
            # Registered before the start, so that `abandon` always finds the thread of a running call.
            self._busy[future] = thread
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # the waiting task gets it
                future.set_exception(error)
            self._busy.pop(future, None)
            # The next answer may take long.
            del job, future, call
