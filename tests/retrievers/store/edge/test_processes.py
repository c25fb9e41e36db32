"""Killed processes leave the old state or the new one; readers go on while another process writes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from retrievers.errors import StoreLockedError
from retrievers.store.edge import EdgeClient

ROOT = Path(__file__).parents[4]
NAME = "pages"
PAIR = models.VectorParams(size=2, distance=models.Distance.COSINE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.slow
def test_killed_while_changing(place: Path) -> None:
    trials, seed = 50, 2
    lines = run("tests.support.edge_crash", str(place), str(trials), str(seed))
    killed, last = [json.loads(line) for line in lines[:-1]], json.loads(lines[-1])
    assert len(killed) == trials
    for trial in killed:
        assert trial["whole"] and trial["found"] in (trial["before"], trial["tried"]), trial
    assert {trial["found"] == trial["tried"] for trial in killed} == {True, False}, "kills came all too soon or late"
    assert last == [trials + 1, True]
    assert len(list((place / "collections" / NAME).iterdir())) == 2, "CURRENT and one generation"


@pytest.mark.slow
def test_two_processes(place: Path) -> None:
    with EdgeClient(place, create=True) as client, peer(place) as ask:
        with client.changing(NAME):
            client.create_collection(NAME, PAIR)
            client.upsert(NAME, points(3))
            assert "CollectionNotFoundError" in ask("count")
            assert ask("write") == (
                f"StoreLockedError: the embedded store at {place} is being written to by another process; wait for it "
                "to finish, or write to another folder (--store.path); it can be read meanwhile"
            )
        assert ask("count") == 3
        first = ask("generation")
        with client.changing(NAME):
            client.upsert(NAME, points(5))
            assert (client.count(NAME).count, ask("count")) == (5, 3)
        assert client.generation(NAME) != first
        assert (place / "collections" / NAME / first).is_dir(), "the other process still has it open"
        assert (ask("count"), ask("generation")) == (5, client.generation(NAME))
        assert ask("write") == "written"
        assert client.count(NAME).count == 4
        assert not (place / "collections" / NAME / first).exists(), "the other process has swept it"


def test_two_clients_of_one_process(client: EdgeClient) -> None:
    client.create_collection(NAME, PAIR)
    with EdgeClient(client.path) as other, client.changing(NAME):
        with pytest.raises(StoreLockedError, match="written to by another process"):
            other.upsert(NAME, points(1))
        assert other.count(NAME).count == 0


@contextmanager
def peer(place: Path) -> Iterator[Callable[[str], Any]]:
    command = [sys.executable, "-m", "tests.support.edge_peer", str(place), NAME]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout

    def ask(command: str) -> Any:
        assert process.stdin and process.stdout
        process.stdin.write(command + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    with process:
        try:
            yield ask
        finally:
            process.stdin.close()


def run(module: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def points(count: int) -> list[models.PointStruct]:
    return [models.PointStruct(id=i, vector=[1.0, float(i)], payload={"i": i}) for i in range(count)]
