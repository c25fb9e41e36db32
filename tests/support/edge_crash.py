"""Kills processes in the middle of a change, and says what the next one finds: python -m tests.support.edge_crash.

This process only forks: children change the store and are killed, other children look at what is left.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from qdrant_client import models

from retrievers.store.embedded import EmbeddedClient

NAME = "pages"
State = dict[str, Any]


def state(version: int) -> State:
    """Return the whole collection of a version; every version differs in every point and in their number."""
    ids = [i for i in range(300) if (i * 7 + version) % 5]
    return {
        str(i): [{"v": version, "text": f"page {i} " * 20}, [float(i % 9 + 1), float(version % 13 + 1)]] for i in ids
    }


def change(path: Path, version: int) -> None:
    """Build the collection of a version."""
    new = state(version)
    client = EmbeddedClient(path, create=True)
    params = models.VectorParams(size=2, distance=models.Distance.DOT)
    with client.building(NAME, vectors=params, metadata={"version": version}, indexes={"v": "integer"}) as build:
        points = [models.PointStruct(id=int(i), payload=p, vector=v) for i, (p, v) in new.items()]
        for start in range(0, len(points), 50):
            build.upsert(points[start : start + 50])


def look(path: Path) -> tuple[int, bool]:
    """Return the version that the collection claims to be (0: there is none), and True if it is exactly that."""
    if not (path / "collections").exists():
        return 0, True
    with closing(EmbeddedClient(path)) as client:
        if not client.collection_exists(NAME):
            return 0, True
        version = int((client.get_collection(NAME).config.metadata or {})["version"])
        records, _ = client.scroll(NAME, limit=1_000, with_vectors=True)
        found = {str(r.id): [r.payload, r.vector] for r in records}
        nearest = client.query_points(NAME, [1.0, 1.0], limit=1_000).points
        whole = found == state(version) and len(nearest) == len(found) == client.count(NAME).count
        return version, whole


def main(path: Path, trials: int, seed: int) -> None:
    """Print one JSON object a trial: the version before, the one attempted, the one found, and whether it is whole."""
    rng = random.Random(seed)
    began = time.perf_counter()
    _child(lambda: change(path.with_name("timed"), 1))
    lasts = time.perf_counter() - began
    before = 0
    for version in range(1, trials + 1):
        pid = _fork(lambda v=version: change(path, v))  # type: ignore[misc]
        time.sleep(rng.uniform(0.1, 1.3) * lasts)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        found, whole = json.loads(_child(lambda: look(path)))
        sys.stdout.write(json.dumps({"before": before, "tried": version, "found": found, "whole": whole}) + "\n")
        before = found
    _child(lambda: change(path, trials + 1))
    sys.stdout.write(_child(lambda: look(path)))


def _fork(work: Callable[[], Any], answer: int | None = None) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        result = json.dumps(work())
        if answer is not None:
            os.write(answer, result.encode())
        os._exit(0)
    finally:
        os._exit(1)


def _child(work: Callable[[], Any]) -> str:
    """Run `work` in another process and return its result as JSON."""
    read, write = os.pipe()
    pid = _fork(work, write)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, f"a child failed: {text}"
    return text


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
