import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evals.judge.ask.cache import Stored, VerdictStore
from evals.judge.ask.leases import LEASE_S

KEY, OTHER = b"k" * 32, b"o" * 32
VERDICT = Stored(model="m", kind="k", answer="{}", tokens_in=1, tokens_out=1)


class World:
    """A store's file and its time."""

    def __init__(self, file: Path) -> None:
        self.now = 1_000.0
        self.file = file
        self.opened: list[VerdictStore] = []

    def open(self) -> VerdictStore:
        store = VerdictStore(self.file, clock=lambda: self.now)
        self.opened.append(store)
        return store


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "verdicts.sqlite")
    yield made
    for store in made.opened:
        store.close()


def test_a_key_is_claimed_by_one_and_again_by_the_same(world: World) -> None:
    one, other = world.open(), world.open()
    assert one.claim(KEY) and one.claim(KEY)
    assert not other.claim(KEY)
    assert other.claim(OTHER)


@pytest.mark.parametrize(
    "end", [lambda store: store.release(KEY), lambda store: store.put(KEY, VERDICT), VerdictStore.close]
)
def test_a_claim_ends_with_its_verdict_or_without(world: World, end: Callable[[VerdictStore], None]) -> None:
    one, other = world.open(), world.open()
    assert one.claim(KEY) and not other.claim(KEY)
    end(one)
    assert other.claim(KEY)


def test_nobody_gives_up_the_claim_of_another(world: World) -> None:
    one, other = world.open(), world.open()
    assert one.claim(KEY)
    other.release(KEY)
    assert not other.claim(KEY)


def test_a_claim_that_is_not_renewed_runs_out(world: World) -> None:
    one, other = world.open(), world.open()
    assert one.claim(KEY)
    world.now += LEASE_S - 1
    one.renew()
    world.now += LEASE_S - 1
    assert not other.claim(KEY)
    world.now += 2
    assert other.claim(KEY) and not one.claim(KEY)


DIES = """
import os, signal, sys
from pathlib import Path
from evals.judge.ask.cache import VerdictStore
assert VerdictStore(Path(sys.argv[1])).claim(b"k" * 32)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_claim_of_a_process_that_was_killed_is_free_at_once(world: World) -> None:
    store = world.open()
    subprocess.run([sys.executable, "-c", DIES, str(world.file)], check=False)
    assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (1,)
    assert store.claim(KEY)


@pytest.mark.parametrize(
    "owner",
    [f"elsewhere:{2**22 + 1}:x", f"{socket.gethostname()}:{os.getpid()}:x"],
    ids=["another machine", "a process that runs"],  # workers have to collect the same names
)
def test_the_claim_of_another_machine_or_of_a_process_that_runs_is_not_taken(world: World, owner: str) -> None:
    store = world.open()
    store._db.execute("INSERT INTO claims VALUES (?, ?, ?)", (KEY, owner, world.now + 10))
    assert not store.claim(KEY)
    world.now += 11
    assert store.claim(KEY)
