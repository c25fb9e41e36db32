"""Runs in processes that can be killed often: each begins at once, with the libraries imported."""

import os
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
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


def start_run(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> BaseProcess:
    """Begin an `evals.run` in a folder, with more environment variables; its output goes to a file there."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    process = context.Process(target=_run, args=(list(arguments), folder, dict(env)))
    process.start()
    return process


def _run(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    with (folder / LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(env)
    os.chdir(folder)
    from evals.run import main

    os._exit(main(arguments))
