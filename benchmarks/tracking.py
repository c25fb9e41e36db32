"""Time of a run with MLflow beside the same run without it, one after the other.

    python benchmarks/tracking.py [--rounds 3] [--flags "--sweep.top-k 1:20 --sweep.threshold 0:0.6:0.05"]

Each round runs the default experiment, with the flags, twice as a user does, in processes of their own: with
`--tracking.enabled false`, and into a local database that is there. Wall and processor seconds are printed with their
ratios, of the medians of all rounds. Bound: 1.3.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
WAYS = {"without": ["--tracking.enabled", "false"], "with": []}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="", help="further flags of evals.run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = [*shlex.split(given.flags), "--retriever.store.path", f"{folder}/qdrant", "--quiet", "--no-gate"]
        spent(flags, folder)  # makes index and database
        rounds = [{way: spent([*flags, *more], folder) for way, more in WAYS.items()} for _ in range(given.rounds)]
    for number, name in enumerate(("wall", "processor")):
        without, with_it = (median(each[way][number] for each in rounds) for way in WAYS)
        print(f"{name:9} without {without:6.2f} s  with {with_it:6.2f} s  ratio {with_it / without:.2f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def spent(flags: list[str], folder: str) -> tuple[float, float]:
    """Return wall and processor seconds of a run."""
    started, before = time.perf_counter(), os.times()
    output = ["--output", f"{folder}/report.json"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": folder}
    subprocess.run([sys.executable, "-m", "evals.run", *flags, *output], cwd=folder, check=True, env=environment)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


if __name__ == "__main__":
    main()
