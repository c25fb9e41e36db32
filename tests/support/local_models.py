"""Embedding models that run in the process, from a virtual environment of their own: `make localmodels`.

Its packages come after those of the tests' own environment, so that only what that lacks is taken from there.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("MODELS_VENV", f"{sys.prefix}-models"))
PACKAGES = FOLDER / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def absent(module: str) -> str:
    return "" if (PACKAGES / module).is_dir() else f"{module} not installed: make localmodels"


def run(code: str, *arguments: str) -> str:
    begin = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.path.append({str(PACKAGES)!r})\n"
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", begin + code, *arguments], capture_output=True, text=True, env=offline, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
