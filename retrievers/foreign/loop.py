"""One event loop in its own thread: asynchronous clients stay bound to the first loop they meet."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")
PATIENCE_S = 2.0


class BackgroundLoop:
    """Runs coroutines of any number of threads on one event loop, begun with the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for a coroutine; its errors are raised here."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def close(self) -> None:
        """Cancel running tasks and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_others(), loop)
        # Code that ignores its cancellation ends with the process.
        with suppress(TimeoutError):
            ending.result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="foreign-retriever", daemon=True)
                self._thread.start()
            return self._loop


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
