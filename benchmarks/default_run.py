"""What the default run costs from a warm index, with MLflow and without, as a user starts it.

python benchmarks/default_run.py [--rounds 3] [--flags "--sweep.top-k 1:20 --sweep.threshold 0:0.6:0.05"]

Each round runs the default experiment, with the flags, in processes of their own: `--help` (imports alone), a run with
`--tracking.enabled false`, and a run into a local database that is there. Wall and processor seconds are medians of all
rounds. Bounds: 15 s for a run, and 1.3 for a run with MLflow over one without.
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
WAYS = {"--help": ["--help"], "without MLflow": ["--tracking.enabled", "false"], "with MLflow": []}


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
    medians = {way: [median(each[way][number] for each in rounds) for number in (0, 1)] for way in WAYS}
    for way, (wall, processor) in medians.items():
        print(f"{way:<15} {wall:6.2f} s wall  {processor:6.2f} s processor")
    without, tracked = medians["without MLflow"], medians["with MLflow"]
    print(f"with over without: {tracked[0] / without[0]:.2f} wall, {tracked[1] / without[1]:.2f} processor, of 1.3")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def spent(flags: list[str], folder: str) -> tuple[float, float]:
    """Return wall and processor seconds of a run."""
    started, before = time.perf_counter(), os.times()
    output = ["--output", f"{folder}/report.json"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": folder}
    subprocess.run(
        [sys.executable, "-m", "evals.run", *flags, *output],
        cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


if __name__ == "__main__":
    main()
