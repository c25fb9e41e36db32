"""Opening what an experiment works with, and closing it at the end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from evals.collaborators import Collaborators
from evals.config import ExperimentConfig
from evals.grid.axes import Plan
from evals.inputs import Inputs
from evals.judge.config import JudgeConfig
from evals.judge.judge import Judge
from evals.prepare import index_if_stale
from evals.report.judging import spent
from evals.sources import Sources
from evals.web_sources import open_sources
from retrievers import factory
from retrievers.command import Progress, progress_bar
from retrievers.config import RetrieverConfig
from retrievers.embeddings import make_embeddings
from retrievers.opening import open_retriever
from retrievers.patience import patient
from retrievers.protocol import Retriever


@contextmanager
def open_collaborators(
    inputs: Inputs, env: Mapping[str, str], *, shown: bool, retriever: Retriever | None = None
) -> Iterator[Collaborators]:
    """Open what the experiment names: its judge, its retriever (of a sweep one for each variant) and its source pages.

    Args:
        inputs: The experiment.
        env: The environment that holds API keys.
        shown: Whether progress is drawn on a terminal.
        retriever: An open retriever in place of the one that the experiment names. It is left open.

    Raises:
        RetrievalError: Something cannot be opened, or the collection not be brought up to date.
    """
    config = inputs.config
    with (
        patient(config.retriever.store.wait_s),
        progress_bar(shown=shown) as progress,
        _judge(config.judge, env, progress) as judge,
    ):
        if retriever is not None:
            sources = open_sources(config.sources)
            yield Collaborators(retrievers=[retriever], progress=progress, sources=sources, judge=judge)
            return
        with _retrievers(config, inputs.sweep, env, progress) as (retrievers, sources):
            yield Collaborators(retrievers=retrievers, progress=progress, sources=sources, judge=judge)


@contextmanager
def _judge(config: JudgeConfig, env: Mapping[str, str], progress: Progress) -> Iterator[Judge | None]:
    if config.model is None:
        yield None
        return
    judge = Judge.open(config, env, lambda done, total, usage: progress("judging", done, total, spent(usage)))
    try:
        yield judge
    finally:
        judge.close()


@contextmanager
def _retrievers(
    config: ExperimentConfig, sweep: Plan | None, env: Mapping[str, str], progress: Progress
) -> Iterator[tuple[Sequence[Retriever], Sources | None]]:
    embeddings = None  # before anything is indexed, so that a missing key or factory leaves nothing behind
    if config.retriever.python is None:
        embeddings = make_embeddings(config.retriever.embedding, env)
    else:
        factory.find(config.retriever.python, "python")
    index_if_stale(config, env, progress)
    sources = open_sources(config.sources)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_retriever(one, env=env, embeddings=embeddings)) for one in _wanted(config, sweep)
        ]
        yield opened, sources


def _wanted(config: ExperimentConfig, sweep: Plan | None) -> list[RetrieverConfig]:
    return [config.retriever] if sweep is None else [variant.settings for variant in sweep.variants]
