"""Commands in processes that are killed in the middle: each begins at once, with the libraries imported."""

import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

LOG = "killable.log"
LIBRARIES = (
    "cohere.client",
    "evals.collect.passes",
    "evals.grid.measure",
    "evals.report.building",
    "evals.report.terminal",
    "evals.experiment.flow",
    "httpcore",
    "langchain.chat_models",
    "langchain_cohere",
    "ragas.metrics.collections",
    "retrievers.store.embedded",
    "scipy.stats",
)


def killed(
    arguments: Sequence[object],
    folder: Path,
    env: Mapping[str, str],
    when: Callable[[], bool],
    *,
    command: str = "evals.run",
    late_s: float = 0.0,
) -> bool:
    """Run a command and kill it; return False where it ended well before.

    Args:
        arguments: Of the command.
        folder: Where it runs; what it prints goes to a file there.
        env: More environment variables.
        when: True from the moment on that it is to die.
        command: The module whose `main` it is.
        late_s: Seconds that it lives on.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    child = context.Process(target=_run, args=(command, [str(one) for one in arguments], folder, dict(env)))
    child.start()
    while not when() and child.is_alive():
        time.sleep(0.002)
    time.sleep(late_s)
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), (folder / LOG).read_text()
    return child.exitcode != 0


def _run(command: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    with (folder / LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(env)
    os.chdir(folder)
    os._exit(importlib.import_module(command).main(arguments))
