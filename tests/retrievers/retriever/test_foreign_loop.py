import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import active_count

import pytest

from retrievers.retriever.foreign import BackgroundLoop


async def running() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


async def fail() -> None:
    raise ValueError("inside")


def test_all_threads_share_one_loop() -> None:
    loop = BackgroundLoop()
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: loop.run(running()), range(20)))
    loop.close()
    assert len(found) == 1
    assert found.pop().is_closed()


def test_what_is_raised_inside_comes_out() -> None:
    loop = BackgroundLoop()
    with pytest.raises(ValueError, match="inside"):
        loop.run(fail())
    loop.close()


def test_closing_ends_the_thread_and_what_still_runs() -> None:
    before, loop, ended = active_count(), BackgroundLoop(), []

    async def wait() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def begin() -> None:
        asyncio.get_running_loop().begun = asyncio.create_task(wait())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    loop.run(begin())
    loop.close()
    assert (active_count(), ended) == (before, [True])


def test_a_loop_that_was_not_needed_is_closed_and_a_closed_one_begins_anew() -> None:
    loop = BackgroundLoop()
    loop.close()
    assert loop.run(running()).is_running()
    loop.close()
    loop.close()
