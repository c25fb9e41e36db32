"""How long the default run takes from a warm index, and where the time goes.

python benchmarks/default_run.py [--runs 3]

Two measurements: the whole command as a user starts it (a new process, imports included), and one run in this process
after all libraries are imported, with the time in retrieval and MLflow taken apart. Bounds: 15 s and 3 s.
"""

import argparse
import contextlib
import importlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIBRARIES = ("ragas.metrics", "mlflow", "datasets", "qdrant_client", "langchain_qdrant", "scipy.stats", "wordllama")
WALL_BOUND_S, OWN_BOUND_S = 15.0, 3.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--retriever.store.path", f"{folder}/qdrant", "--quiet", "--no-gate"]
        command = [sys.executable, "-m", "evals.run", *arguments]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": folder}
        subprocess.run(command, cwd=folder, check=True, env=environment)
        walls = [timed(lambda: subprocess.run(command, cwd=folder, check=True, env=environment)) for _ in range(runs)]
        best = min(walls)
        every = ", ".join(f"{wall:.2f}" for wall in walls)
        print(f"whole command: {best:.2f} s (of {every}); {best / WALL_BOUND_S:.2f} of 15 s")
        with contextlib.chdir(folder):
            parts = taken_apart(arguments)
    print("  ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items()))
    print(f"not imports, retrieval or MLflow: {parts['own']:.2f} s; {parts['own'] / OWN_BOUND_S:.2f} of 3 s")


def taken_apart(arguments: list[str]) -> dict[str, float]:
    """One run in this process: seconds of imports, retrieval (opening and passes), MLflow, and the rest."""
    from evals.config.telemetry import silence

    silence(hub=False)
    imports = timed(lambda: [importlib.import_module(name) for name in LIBRARIES])
    from evals import run
    from evals.collect import passes as candidates
    from evals.experiment import bench as opening
    from evals.tracking import runs

    spent: dict[str, float] = {"retrieval": 0.0, "mlflow": 0.0}
    for module, name, kind in (
        (opening, "index_if_stale", "retrieval"),
        (opening, "open_retriever", "retrieval"),
        (candidates, "collect", "retrieval"),
        (candidates, "measure_latency", "retrieval"),
        (candidates, "repeat", "retrieval"),
        (runs, "write_run", "mlflow"),
    ):
        setattr(module, name, clocked(getattr(module, name), spent, kind))
    with contextlib.redirect_stdout(io.StringIO()):
        total = timed(lambda: run.main(arguments))
    return {"imports": imports, **spent, "own": total - sum(spent.values())}


def clocked(function: Callable[..., Any], spent: dict[str, float], kind: str) -> Callable[..., Any]:
    """The function, adding its wall time to `spent[kind]`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[kind] += time.perf_counter() - start

    return call


def timed(call: Callable[[], object]) -> float:
    """Seconds a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
